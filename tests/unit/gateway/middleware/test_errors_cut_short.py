"""When this process leaves, whoever still waits for an answer is told to come again."""

import asyncio
from typing import Any

import pytest
from asgi_play import answering, asked, doing, request

from turnwise.facts.errors import Closing
from turnwise.gateway.middleware.responses import SERVICE_RESTART, PendingRequests, ShutdownResponses


class Waiting:
    """An application that waits for ever once it has begun."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.pending = PendingRequests()

    async def _wait(self, scope: Any, receive: Any) -> None:
        self.began.set()
        await asyncio.Event().wait()

    def app(self) -> ShutdownResponses:
        return ShutdownResponses(doing(self._wait), self.pending)


async def test_those_who_wait_are_told() -> None:
    waiting = Waiting()
    task = asyncio.create_task(asked(waiting.app(), request()))
    await waiting.began.wait()
    waiting.pending.cut_short()
    with pytest.raises(Closing):
        await task
    assert not task.cancelled()
    assert waiting.pending.tasks == set()


async def test_a_web_socket_is_closed() -> None:
    waiting = Waiting()
    task = asyncio.create_task(asked(waiting.app(), request(kind="websocket")))
    await waiting.began.wait()
    waiting.pending.cut_short()
    assert (await task).sent == [{"type": "websocket.close", "code": SERVICE_RESTART}]


async def test_whoever_else_cancels_a_request_cancels_it() -> None:
    waiting = Waiting()
    task = asyncio.create_task(asked(waiting.app(), request()))
    await waiting.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiting.pending.tasks == set()


async def test_what_is_answered_is_not_pending() -> None:
    pending = PendingRequests()
    assert (await asked(ShutdownResponses(answering(), pending), request())).status == 200
    assert pending.tasks == set()
