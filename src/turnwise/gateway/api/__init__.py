"""The gateway's own REST API, below `/api/v1`. Request and response bodies are the models of `turnwise.wire`."""
