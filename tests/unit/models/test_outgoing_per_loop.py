"""One for each event loop, closed with it."""

import asyncio
import threading
from collections.abc import Iterator
from types import TracebackType

import pytest

from turnwise.models.outgoing import loop_local


class Client:
    """Counts how often it was opened and closed, and in which loop."""

    def __init__(self) -> None:
        self.opened: list[asyncio.AbstractEventLoop] = []
        self.closed: list[asyncio.AbstractEventLoop] = []

    async def __aenter__(self) -> "Client":
        self.opened.append(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed.append(asyncio.get_running_loop())


async def kept(key: str = "a") -> Client:
    client = await loop_local(("test_per_loop", key), Client)
    assert isinstance(client, Client)
    return client


def test_a_loop_has_one_and_closes_it() -> None:
    async def twice() -> tuple[Client, Client, Client]:
        one, same, other = await kept(), await kept(), await kept("b")
        assert (len(one.opened), one.closed) == (1, [])
        return one, same, other

    one, same, other = asyncio.run(twice())
    assert one is same is not other
    assert one.closed == one.opened
    assert other.closed == other.opened


def test_those_who_ask_at_once_get_the_same() -> None:
    async def at_once() -> list[Client]:
        return await asyncio.gather(*(kept() for _ in range(10)))

    clients = asyncio.run(at_once())
    assert len({id(client) for client in clients}) == 1
    assert len(clients[0].opened) == len(clients[0].closed) == 1


def test_each_loop_has_its_own() -> None:
    clients = [asyncio.run(kept()) for _ in range(3)]
    threads = [threading.Thread(target=lambda: clients.append(asyncio.run(kept()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(client) for client in clients}) == 6
    assert all(client.closed == client.opened for client in clients)


def test_what_could_not_be_made_is_made_anew() -> None:
    made: Iterator[Client | Exception] = iter([ValueError("not yet"), Client()])

    def make() -> Client:
        one = next(made)
        if isinstance(one, Exception):
            raise one
        return one

    async def twice() -> Client:
        with pytest.raises(ValueError, match="not yet"):
            await loop_local("test_per_loop", make)
        return await loop_local("test_per_loop", make)

    assert len(asyncio.run(twice()).opened) == 1


def test_a_loop_that_was_only_closed_is_forgotten() -> None:
    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(kept())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert asyncio.run(kept()) is not left
