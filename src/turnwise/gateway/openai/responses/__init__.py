"""OpenAI's Responses API. A response is the answer to one message of a session."""

from fastapi import APIRouter

from turnwise.gateway.openai.responses import routes, web_socket

router = APIRouter()
for part in (routes, web_socket):
    router.include_router(part.router)

__all__ = ["router"]
