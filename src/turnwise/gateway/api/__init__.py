"""Our own API, below /api/v1. Its bodies are those of `turnwise.wire`."""
