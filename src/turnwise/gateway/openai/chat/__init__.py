"""Chat completions: `POST /v1/chat/completions`, for clients that send the whole conversation with each request."""

from turnwise.gateway.openai.chat.routes import router

__all__ = ["router"]
