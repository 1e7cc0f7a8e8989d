"""The OpenAI-compatible API below `/v1`: models, chat completions and responses."""

from fastapi import APIRouter

from turnwise.gateway.openai import chat, models, responses
from turnwise.gateway.openai.errors import error_response

router = APIRouter()
for part in (models, chat, responses):
    router.include_router(part.router)

__all__ = ["error_response", "router"]
