"""OpenAI's Responses API over the log: a response is what became of one message."""

from fastapi import APIRouter

from turnwise.gateway.openai.responses import routes, socket

router = APIRouter()
for part in (routes, socket):
    router.include_router(part.router)

__all__ = ["router"]
