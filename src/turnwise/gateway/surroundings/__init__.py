"""What is around every request, whatever its protocol: each file is one ASGI middleware, which knows nothing of the others."""
