"""What a step gave is its agent's alone: the runner finds it again, and no reader of events sees it (A42, A43, E7)."""

from collections.abc import Callable, Iterable
from typing import Any

from runner_play import Crash, ask, key, kill

from turnwise import AgentContext, Event, Runner, agent
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey

Process = Callable[..., Runner]
SECRET = "the customer's file"


class Watches:
    """Keeps the events that hooks are told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def selected(self, key: SessionKey, selection: Selection) -> None: ...
    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None: ...
    async def stored(self, key: SessionKey, event: Event) -> None:
        self.events.append(event)


def steps(events: Iterable[Event]) -> list[tuple[str, object]]:
    return [(step.key, step.value) for event in events for step in event.actions.steps]


def finds(worked: list[str]) -> Callable[[], str]:
    """Work that gives the secret; each time that it is done is noted."""

    def work() -> str:
        worked.append(SECRET)
        return SECRET

    return work


async def test_no_reader_sees_what_a_step_gave_and_its_agent_does(process: Process) -> None:
    """A42: live, in the result, afterwards, by hooks, and by other agents."""
    seen: list[Event] = []
    worked: list[str] = []

    @agent
    async def other(context: AgentContext) -> str:
        seen.extend(await context.history.last(50))
        seen.extend([event async for page in context.history.backwards() for event in page])
        return "I saw nothing."

    @agent(children=[other])
    async def clerk(context: AgentContext) -> None:
        file = await context.step("file", finds(worked))
        reply = (await context.ask("Shall I go on?")).text
        await context.say(f"{reply}: {file}")
        await context.transfer("other")

    hooks = Watches()
    runner = process(clerk, hooks=[hooks])
    invocation = await runner.start("hi", user="ada", session="s")
    live = [event async for event in invocation.events()]
    first = await invocation.result()
    done = await ask(process(clerk), "yes")
    assert (done.text, worked) == (f"yes: {SECRET}\nI saw nothing.", [SECRET])
    attached = await process(clerk).attach(user="ada", session="s", invocation_id=done.invocation_id)
    afterwards = [event async for event in attached.events()]
    read = await runner.sessions.events(key())
    for events in (live, first.events, hooks.events, afterwards, read):
        assert steps(events) == [("1:file", None)]
    assert {value for _, value in steps(seen)} == {None}
    assert steps(await runner.store.events(key())) == [("1:file", SECRET)]


async def test_a_new_attempt_finds_what_a_step_gave_and_its_readers_do_not(process: Process) -> None:
    """E7: the event that begins the attempt carries the step over."""
    crash, worked = Crash(), list[str]()

    @agent
    async def clerk(context: AgentContext) -> str:
        file = await context.step("file", finds(worked))
        await crash.here()
        return f"read {len(file)}"

    left = await kill(process, clerk, crash, message_id="m")
    alive = process(clerk)
    follows = await alive.attach(user="ada", session="s", message_id="m")
    assert (await ask(alive, "hi", message_id="m")).text == f"read {len(SECRET)}"
    assert worked == [SECRET]
    events = [event async for event in follows.events()]
    assert steps(events) == [("1:file", None)] * 2
    assert [value for _, value in steps(await alive.store.events(key(), hidden=True))] == [SECRET] * 2
    assert left.message_id == "m"


async def test_windows_of_events_are_those_of_the_store(process: Process) -> None:
    """A30, A31: hidden ones too, and none of a session that is not there."""

    @agent
    async def clerk(message: str) -> str:
        return f"You said {message}."

    runner = process(clerk)
    results = [await ask(runner, text) for text in ("one", "two", "three")]
    await runner.sessions.rewind(key(), results[2].invocation_id)
    windows: list[dict[str, Any]] = [{"last": 2}, {"after": 1, "limit": 2}, {"before": 3}, {"hidden": True}]
    for window in [*windows, {"invocation_id": results[0].invocation_id}]:
        assert await runner.sessions.events(key(), **window) == await runner.store.events(key(), **window)
    assert await runner.sessions.events(key("nowhere")) == []
