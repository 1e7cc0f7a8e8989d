"""How the tests of adapters talk to a session in which an adapted agent answers."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from runner_play import Crash, ask, direct, key, kill, reason, soon

from turnwise import AgentContext, Event, RunConfig, Runner, agent
from turnwise.ports.agent import Agent

Process = Callable[..., Runner]


class Turn(NamedTuple):
    """What a reader of one message got. pieces: by event id, what was streamed, joined; answer: the agent's last event."""

    text: str
    reason: str
    pieces: dict[str, str]
    answer: Event
    error: str
    events: Sequence[Event]


async def read(runner: Runner, text: str, to: str | None = None, *, streaming: bool = True) -> Turn:
    """The turn that a message of ada, streamed, begins; `to` is the agent it is for."""
    context = None if to is None else direct(to)
    config = RunConfig(streaming=streaming)
    invocation = await runner.start(text, user="ada", session="s", context=context, config=config)
    pieces: dict[str, str] = defaultdict(str)
    async for event in invocation.events():
        if event.partial:
            pieces[event.id] += event.text
    result = await invocation.result()
    spoken = [event for event in result.events if event.author != "user" and event.content is not None]
    answer = spoken[-1] if spoken else result.events[-1]
    error = f"{result.error.code}: {result.error.message}" if result.error else ""
    return Turn(result.text, reason(result), dict(pieces), answer, error, result.events)


@agent(name="clerk")
def clerk(message: str) -> str:
    """Another agent of the house."""
    return f"The clerk heard {message!r}."


@agent(name="till")
def till(message: str) -> str:
    """Below the porter: no other agent may transfer to it."""
    return "The till is shut."


@agent(name="porter", children=[till])
async def porter(message: str, context: AgentContext) -> None:
    """Hands everything back to the guide."""
    await context.transfer("guide")


def house(adapted: Agent, *others: Agent) -> Agent:
    """The adapted agent beside others; it answers what nobody else is asked."""
    return _Front([adapted, clerk, *others])


def hotel(adapted: Agent) -> Agent:
    """A house whose porter hands back to the guide."""
    return house(adapted, porter)


class _Front:
    """Holds two agents; never answers itself."""

    def __init__(self, children: Sequence[Agent]) -> None:
        from turnwise.agents.function import make_card

        self.card = make_card({"name": "front", "routable": False})
        self.children = tuple(children)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        yield context.event("nobody was asked")


class Mortal:
    """An agent whose process dies after its answer is on record."""

    def __init__(self, inner: Agent, crash: Crash) -> None:
        self.card, self.children = inner.card, inner.children
        self._inner, self._crash = inner, crash

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        async for event in self._inner.run(context):
            yield event
        await context.say("(filed)")
        await self._crash.here()


async def died_and_taken_up(process: Process, adapted: Agent) -> list[str]:
    """What a session says after a process died once the answer was recorded, and another one took up the turn."""
    crash = Crash()
    mortal = Mortal(adapted, crash)
    await kill(process, mortal, crash)
    alive = process(mortal)
    await alive.recover()
    return [event.text for event in await alive.store.events(key()) if event.text]


async def cancelled_in_the_middle(runner: Runner, begun: asyncio.Event) -> str:
    """How a turn ends that is cancelled once `begun` is set; fails when it leaves a task running."""
    before = asyncio.all_tasks()
    invocation = await runner.start("hi", user="ada", session="s")
    await soon(begun.wait())
    await soon(invocation.cancel())
    await runner.idle()
    for _ in range(50):
        left = {task for task in asyncio.all_tasks() - before if not task.done()}
        if not left:
            break
        await asyncio.sleep(0.01)
    assert left == set()
    return reason(await invocation.result())


async def whole(runner: Runner, text: str) -> Any:
    """The result of a message whose answer is not to be streamed."""
    return await ask(runner, text, config=RunConfig(streaming=False))


def words_of(text: str) -> list[str]:
    """The text in pieces, a word each."""
    return re.findall(r"\s*\S+", text)
