"""How the runner's tests talk to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from turnwise import Content, Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.content import text_content
from turnwise.facts.messages import Message, MessageContext
from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.selector import SelectionRequest
from turnwise.runner import Invocation, Result
from turnwise.selection.policy import PolicySpec, StageSpec

T = TypeVar("T")


@contextmanager
def runners(**usual: Callable[[], Any]) -> Iterator[Callable[..., Runner]]:
    """Makes runners, and closes them at the end, for fixtures: outside of any event loop. What an option is usually is made
    anew for each runner that is not given it."""
    made: list[Runner] = []

    def make(root: Any, **options: Any) -> Runner:
        made.append(Runner(root, **{name: of() for name, of in usual.items() if name not in options}, **options))
        return made[-1]

    async def close() -> None:
        for runner in made:
            await runner.close()

    try:
        yield make
    finally:
        asyncio.run(close())


@contextmanager
def runners_in(folder: Path) -> Iterator[Callable[..., Runner]]:
    """As `runners`, each with a connection of its own to the folder's one file, as another process has."""
    with runners(store=lambda: SqlSessionStore(f"sqlite:///{folder}/s.db")) as make:
        yield make


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


async def texts(runner: Runner, session: str = "s") -> list[str]:
    """What the visible events say, without those that say nothing."""
    return [text for _, text in await log(runner, session) if text]


def direct(name: str) -> MessageContext:
    """For a message to that agent."""
    return MessageContext(direct_agent_id=name)


async def soon(awaited: Awaitable[T]) -> T:
    """What is awaited; a failure, instead of a hang, when it does not come at all."""
    return await asyncio.wait_for(awaited, 30)


async def until(runner: Runner, holds: Callable[[Session], object], session: str = "s") -> None:
    """Returns when that is true of the session as it is stored."""
    with runner.store.signals.watch(key(session)) as watch:
        while not holds(await runner.sessions.get(key(session))):
            await watch.next(0.05)


async def leave_behind(runner: Runner, text: str | Content, message_id: str = "left", session: str = "s") -> None:
    """Puts a message into the inbox, as a process that died right after leaves it."""
    message = Message(id=message_id, content=text_content(text, "user") if isinstance(text, str) else text)
    await runner.store.inbox.accept(key(session), message, create=True, limit=100)


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


async def one_answers_and_one_looks(make: Any, gate: Gate) -> "tuple[Invocation, Runner, Holds]":
    """A process that answers a first message until the gate opens; and another, whose store stands still at the next look."""
    inner = make(gate.agent).store
    looks = Holds(inner, "open")
    first = await make(gate.agent).start("one", user="ada", session="s")
    await gate.began.wait()
    return first, make(gate.agent, store=looks), looks


class Unsure:
    """A selector that wants the user to choose between a and b, whatever is said."""

    name = "unsure"

    async def select(self, request: SelectionRequest) -> Verdict:
        candidates = (Candidate(agent="a", score=0.5), Candidate(agent="b", score=0.5))
        return Verdict(selector=self.name, outcome="clarify", candidates=candidates, reason="A or B?")


UNSURE: dict[str, Any] = {
    "policy": PolicySpec(name="own", stages=(StageSpec(selector="unsure"),)),
    "custom_selectors": {"unsure": lambda _tree: Unsure()},
}
"""What makes a runner ask about every message."""


class InFront:
    """Stands in front of a store, or a part of one: what it has not itself, nor in `parts`, is that of the inner one."""

    def __init__(self, inner: Any, **parts: Any) -> None:
        self._inner = inner
        self.__dict__.update(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Holds(InFront):
    """Stands still in one of its methods, the first time that it is called, until `go` is set."""

    def __init__(self, inner: Any, method: str) -> None:
        super().__init__(inner)
        self._method, self.reached, self.go = method, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name != self._method or self.reached.is_set():
            return method

        async def held(*arguments: Any, **options: Any) -> Any:
            self.reached.set()
            await self.go.wait()
            return await method(*arguments, **options)

        return held


class Fails(InFront):
    """Raises the problem in one of its methods, before anything is done: the next `times` times that `when` is true."""

    def __init__(
        self, inner: Any, method: str, problem: Exception, *, times: int = 1_000_000, when: Callable[..., bool] | None = None
    ) -> None:
        super().__init__(inner)
        self.times, self._method, self._problem, self._when = times, method, problem, when

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name != self._method:
            return method

        async def failing(*arguments: Any, **options: Any) -> Any:
            if self.times and (self._when is None or self._when(*arguments, **options)):
                self.times -= 1
                raise self._problem
            return await method(*arguments, **options)

        return failing


class NoHeartbeat(InFront):
    """A store whose holders are found dead at once, as those of a process that has died are in time."""

    async def begin(self, session: Any, lease: Any, *arguments: Any, **options: Any) -> Any:
        begun = await self._inner.begin(session, lease, *arguments, **options)
        await self._inner.leases.leave(lease.holder)
        return begun

    async def take(self, session: Any, lease: Any, *arguments: Any, **options: Any) -> Any:
        taken = await self._inner.take(session, lease, *arguments, **options)
        await self._inner.leases.leave(lease.holder)
        return taken


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


async def die(make: Any, root: Any, crash: Crash, text: str | Content = "hi", **options: Any) -> Any:
    """Sends a message to a process of its own, which dies while it answers; the handle that it had given."""
    limits = Limits(invocation_seconds=0.5, grace_seconds=0)
    dead = make(root, store=NoHeartbeat(make(root).store), config=RunConfig(limits=limits))
    invocation = await dead.start(text, user="ada", session="s", **options)
    await crash.reached.wait()
    crash.reached.clear()
    await asyncio.sleep(0.02)
    return invocation


@asynccontextmanager
async def killed() -> AsyncIterator[None]:
    """What is begun inside does nothing more when the block is left; a `NoHeartbeat` is over then."""
    before = asyncio.all_tasks()
    yield
    begun = asyncio.all_tasks() - before
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
    await asyncio.sleep(0.02)


async def kill(make: Any, root: Any, crash: Crash, text: str | Content = "hi", session: str = "s", **options: Any) -> Any:
    """As `die`, of a process that is gone for good: nobody reads in it, nor notices that it is late."""
    dead = make(root, store=NoHeartbeat(make(root).store))
    async with killed():
        invocation = await dead.start(text, user="ada", session=session, **options)
        await soon(crash.reached.wait())
    crash.reached.clear()
    return invocation
