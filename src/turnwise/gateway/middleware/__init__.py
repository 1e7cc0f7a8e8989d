"""ASGI middleware around all routes: access log, body limits, error responses, HEAD and headers."""
