"""A protocol, as the gateway sees it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from fastapi import APIRouter

from turnwise.gateway.front import Front
from turnwise.gateway.problems import Form


@asynccontextmanager
async def _nothing(_: Front) -> AsyncIterator[None]:
    yield


class Protocol(NamedTuple):
    """A protocol: below which path it is, its routes, and how it writes what went wrong.

    running: what has to go on as long as the gateway is served. top: its routes that are not below its path.
    """

    prefix: str
    router: APIRouter
    form: Form
    running: Callable[[Front], AbstractAsyncContextManager[None]] = _nothing
    top: APIRouter | None = None

    def has(self, path: str) -> bool:
        """Whether that path is this protocol's."""
        return path == self.prefix or path.startswith(self.prefix + "/")
