"""How the runner's tests talk to it."""

import asyncio
from typing import Any

from turnwise import Content, Limits, RunConfig, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner import Result


async def ask(runner: Runner, text: str | Content, session: str = "s", **options: object) -> Result:
    """The result of one message of the user ada."""
    invocation = await runner.start(text, user="ada", session=session, **options)  # type: ignore[arg-type]
    return await invocation.result()


def reason(result: Result) -> str:
    """How it ended: an end's reason, or `waiting`."""
    return result.end.reason if result.end else "waiting"


def key(session: str = "s") -> SessionKey:
    return SessionKey("app", "ada", session)


async def log(runner: Runner, session: str = "s") -> list[tuple[str, str]]:
    """Authors and texts of the stored events."""
    return [(e.author, e.text) for e in await runner.store.events(key(session))]


class Gate:
    """An agent that holds every message until `go` is set, in whatever process."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()

        @agent
        async def gated(message: str) -> str:
            self.began.set()
            await self.go.wait()
            return f"answer to {message}"

        self.agent: FunctionAgent = gated


class ShortLease:
    """A store whose leases are over at once, as those of a process that has died are in time."""

    def __init__(self, inner: SessionStore) -> None:
        self._inner: Any = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def begin(self, session: Any, lease: Any, *arguments: Any, **options: Any) -> Any:
        return await self._inner.begin(session, lease._replace(seconds=0.01), *arguments, **options)

    async def take(self, session: Any, lease: Any, *arguments: Any, **options: Any) -> Any:
        return await self._inner.take(session, lease._replace(seconds=0.01), *arguments, **options)


class Crash:
    """A place where an agent's process dies, the first `times` times that one comes there: it goes no further."""

    def __init__(self, times: int = 1) -> None:
        self._times = times
        self.reached = asyncio.Event()

    async def here(self) -> None:
        if self._times:
            self._times -= 1
            self.reached.set()
            await asyncio.Event().wait()


async def die(make: Any, root: Any, crash: Crash, text: str = "hi", **options: Any) -> Any:
    """Sends a message to a process of its own, which dies while it answers; the handle that it had given."""
    limits = Limits(invocation_seconds=0.5, grace_seconds=0)
    dead = make(root, store=ShortLease(make(root).store), config=RunConfig(limits=limits))
    invocation = await dead.start(text, user="ada", session="s", **options)
    await crash.reached.wait()
    crash.reached.clear()
    await asyncio.sleep(0.02)
    return invocation
