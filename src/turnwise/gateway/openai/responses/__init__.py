"""OpenAI's Responses API over the log: a response is what became of one message."""

from fastapi import APIRouter

from turnwise.gateway.openai.responses import routes, web_socket

router = APIRouter()
for part in (routes, web_socket):
    router.include_router(part.router)

__all__ = ["router"]
