"""`Protocol`: the interface between a protocol's package and the gateway."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from fastapi import APIRouter

from turnwise.gateway.front import Front
from turnwise.gateway.problems import Form


@asynccontextmanager
async def _no_context(_: Front) -> AsyncIterator[None]:
    yield


class Protocol(NamedTuple):
    """A protocol of the gateway."""

    prefix: str
    """The path prefix of its routes."""
    router: APIRouter
    form: Form
    """Writes a problem in the protocol's error format."""
    running: Callable[[Front], AbstractAsyncContextManager[None]] = _no_context
    """A context that is entered as long as the gateway is served."""
    top: APIRouter | None = None
    """Routes outside the prefix."""

    def has(self, path: str) -> bool:
        """Returns whether the path belongs to this protocol."""
        return path == self.prefix or path.startswith(self.prefix + "/")
