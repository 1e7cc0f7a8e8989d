"""Work done once, things said once, waits for several results, and history read backwards (decision 6, A41, A42)."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runner_play import Crash, ask, key, kill, reason, runners_in, texts

from turnwise import AgentContext, Content, DataPart, Event, Limits, RunConfig, Runner, agent
from turnwise.facts.content import Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import End
from turnwise.facts.usage import Usage
from turnwise.ports.context import Show, Suspend

Process = Callable[..., Runner]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """Makes a runner with a connection of its own to the one file, as another process has."""
    with runners_in(tmp_path) as make:
        yield make


def saying(context: AgentContext, made: list[str], text: str, *calls: str) -> Callable[[Show], Any]:
    async def make(show: Show) -> Event:
        made.append(text)
        parts: list[Part] = [TextPart(text=text), *(ToolCallPart(call_id=call, tool="later") for call in calls)]
        return context.event(Content(parts=tuple(parts)))

    return make


def results(*calls: str) -> Content:
    return Content(parts=tuple(ToolResultPart(call_id=call, result=f"result {call}") for call in calls))


async def test_what_was_said_once_is_not_made_again_after_a_wait(process: Process) -> None:
    """A42: also in another process; and what work said meanwhile is not taken for it."""
    made: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> str:
        async def works() -> None:
            await context.say("working")

        await context.step("work", works)
        one = await context.once("one", saying(context, made, "first"))
        reply = (await context.ask("Name?")).text
        two = await context.once("two", saying(context, made, f"second {reply}"))
        return f"{one.text}, {two.text}, {(await context.ask('Sure?')).text}"

    await ask(process(clerk), "hi")
    await ask(process(clerk), "Ada")
    done = await ask(process(clerk), "yes")
    assert (done.text, reason(done)) == ("first, second Ada, yes", "completed")
    assert made == ["first", "second Ada"]
    said = ["hi", "working", "first", "Name?", "Ada", "second Ada", "Sure?", "yes", "first, second Ada, yes"]
    assert await texts(process(clerk)) == said


async def test_what_was_said_once_is_said_anew_by_every_attempt_and_made_once(process: Process) -> None:
    """Decision 6: with its scope; waits and crashes in any order. What it took is counted once."""
    made: list[str] = []
    crashes = [Crash(), Crash(), Crash()]

    @agent
    async def clerk(context: AgentContext) -> str:
        async def make(show: Show) -> Event:
            made.append("one")
            event = context.event(Content(parts=(TextPart(text="one"), ToolCallPart(call_id="c", tool="later"))))
            actions = event.actions.replace(usage=Usage(model="m", output_tokens=7))
            return event.replace(actions=actions, scope=("task",))

        await context.once("one", make)
        await crashes[0].here()
        (got,) = await context.results("c")
        await context.once("two", saying(context, made, "two"))
        await crashes[1].here()
        sure = (await context.ask("Sure?")).text
        await context.once("three", saying(context, made, "three"))
        await crashes[2].here()
        return f"{got.result} {sure}"

    await kill(process, clerk, crashes[0])
    await process(clerk).recover()
    await kill(process, clerk, crashes[1], results("c"))
    await process(clerk).recover()
    await kill(process, clerk, crashes[2], "yes")
    alive = process(clerk)
    await alive.recover()
    assert made == ["one", "two", "three"]
    assert await texts(alive) == ["hi", "one", "two", "Sure?", "yes", "three", "result c yes"]
    (one,) = [event for event in await alive.store.events(key()) if event.text == "one"]
    assert one.scope == ("task",)
    every = await alive.store.events(key(), hidden=True)
    assert [event.actions.usage.output_tokens for event in every if event.actions.usage] == [7]  # however often it is said
    assert (await alive.sessions.get(key())).head.invocations == {}


async def test_a_key_is_said_once_in_one_run(process: Process) -> None:
    made: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> str:
        first = await context.once("one", saying(context, made, "once"))
        again = await context.once("one", saying(context, made, "twice"))
        return f"{first.id == again.id}"

    assert (await ask(process(clerk), "hi")).text == "once\nTrue"
    assert made == ["once"]


async def test_what_is_said_once_without_a_word_is_found_again(process: Process) -> None:
    made: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> str:
        async def silent(show: Show) -> Event:
            made.append("silent")
            return context.event()

        await context.once("silent", silent)
        await context.say("before")
        return (await context.ask("Name?")).text

    await ask(process(clerk), "hi")
    assert (await ask(process(clerk), "Ada")).text == "Ada"
    assert made == ["silent"]
    assert await texts(process(clerk)) == ["hi", "before", "Name?", "Ada", "Ada"]


async def test_pieces_are_shown_before_what_they_are_of_and_not_again(process: Process) -> None:
    """A19: partial events share the id of the final one; an end is stored with it."""
    made: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> None:
        async def make(show: Show) -> Event:
            made.append("made")
            event = context.event("Hello", end=End())
            for piece in ("Hel", "lo"):
                await show(event.replace(content=Content(parts=(TextPart(text=piece),)), partial=True))
            return event

        await context.ask("Name?")
        await context.once("answer", make)

    runner = process(clerk)
    await ask(runner, "hi")
    invocation = await runner.start("Ada", user="ada", session="s")
    events = [event async for event in invocation.events()]
    assert [(e.text, e.offset) for e in events if e.partial] == [("Hel", 0), ("lo", 3)]
    assert len({e.id for e in events if e.author == "clerk"}) == 1
    assert events[-1].actions.end == End()
    assert made == ["made"]


@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "c"])), ids="".join)
async def test_results_come_in_any_order(process: Process, order: tuple[str, ...]) -> None:
    """A6, A42: each in a process of its own; what is still awaited stays so, and keeps its time."""
    made: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> str:
        await context.once("calls", saying(context, made, "calling", "a", "b", "c"))
        return " ".join(str(part.result) for part in await context.results("a", "b", "c"))

    await ask(process(clerk), "hi")
    first = (await process(clerk).sessions.get(key())).head.waiting()
    assert {wait.id for _, _, wait in first} == {"a", "b", "c"}
    for call in order[:2]:
        assert reason(await ask(process(clerk), results(call))) == "waiting"
    left = (await process(clerk).sessions.get(key())).head.waiting()
    assert [wait for _, _, wait in left] == [wait for _, _, wait in first if wait.id == order[2]]
    assert (await ask(process(clerk), results(order[2]))).text == "result a result b result c"
    assert made == ["calling"]


async def test_results_may_come_in_one_message_and_after_a_crash(process: Process) -> None:
    """A42, decision 6."""
    made: list[str] = []
    crash = Crash()

    @agent
    async def clerk(context: AgentContext) -> str:
        await context.once("calls", saying(context, made, "calling", "a", "b", "c"))
        got = await context.results("a", "b", "c")
        await crash.here()
        return " ".join(str(part.result) for part in got)

    await ask(process(clerk), "hi")
    await ask(process(clerk), results("c"))
    await kill(process, clerk, crash, results("b", "a"))
    alive = process(clerk)
    await alive.recover()
    assert (await texts(alive))[-1] == "result a result b result c"
    assert made == ["calling"]


async def test_a_wait_for_no_result_is_none(process: Process) -> None:
    @agent
    async def clerk(context: AgentContext) -> str:
        context.state["n"] = 1
        return f"{await context.results()} {context.state['n']}"

    runner = process(clerk)
    assert (await ask(runner, "hi")).text == "() 1"
    assert (await runner.sessions.get(key())).state == {"n": 1}


async def test_what_is_written_around_waits_is_stored_once(process: Process) -> None:
    """Decision 6: before the wait, and by work between two waits that were begun together."""

    @agent
    async def clerk(context: AgentContext) -> str:
        async def count() -> None:
            context.state["worked"] = context.state.get("worked", 0) + 1

        await context.once("calls", saying(context, [], "calling", "a", "b"))
        context.state["n"] = context.state.get("n", 0) + 1
        try:
            await context.results("a", "b")
        except Suspend:
            await context.results("a")
        await context.step("count", count)
        await context.results("b")
        return f"{context.state['n']} {context.state['worked']}"

    await ask(process(clerk), "hi")
    assert (await process(clerk).sessions.get(key())).state == {"n": 1}
    await ask(process(clerk), results("a"))
    assert (await process(clerk).sessions.get(key())).state == {"n": 1, "worked": 1}
    assert (await ask(process(clerk), results("b"))).text == "1 1"
    assert (await process(clerk).sessions.get(key())).state == {"n": 1, "worked": 1}


@pytest.mark.parametrize("first", ["reply", "result"])
async def test_a_question_and_a_call_wait_side_by_side(process: Process, first: str) -> None:
    """A42: whichever is answered first, the other stays open, and no question is taken for the call's wait."""

    @agent
    async def clerk(context: AgentContext) -> str:
        await context.once("calls", saying(context, [], "calling", "a"))
        names: list[str] = []
        try:
            names.append((await context.ask("First name?")).text)
            names.append((await context.ask("Last name?")).text)
        except Suspend:
            await context.results("a")
            raise
        (got,) = await context.results("a")
        return f"{' '.join(names)}: {got.result}"

    await ask(process(clerk), "hi")
    messages: list[str | Content] = ["Ada", "Lovelace"]
    messages.insert(0 if first == "result" else 1, results("a"))
    for message in messages[:-1]:
        assert reason(await ask(process(clerk), message)) == "waiting"
    done = await ask(process(clerk), messages[-1])
    assert (done.text, reason(done)) == ("Ada Lovelace: result a", "completed")
    said = ["hi", "calling", "First name?", "Ada", "Last name?", "Lovelace", "Ada Lovelace: result a"]
    assert await texts(process(clerk)) == said


async def test_what_work_wrote_is_there_after_a_crash_whatever_event_held_it(process: Process) -> None:
    """Decision 6: the event that the work said is taken back, what it wrote is not; nor is what `once` wrote."""
    crash = Crash()

    @agent
    async def clerk(context: AgentContext) -> str:
        async def work() -> None:
            context.state["x"] = 1
            context.state["gone"] = 1
            await context.say("working")
            del context.state["gone"]

        async def make(show: Show) -> Event:
            context.state["y"] = 2
            return context.event("made")

        await context.step("work", work)
        await context.once("made", make)
        await crash.here()
        return f"{context.state['x']} {context.state['y']}"

    await kill(process, clerk, crash)
    alive = process(clerk)
    await alive.recover()
    assert await texts(alive) == ["hi", "made", "1 2"]
    assert (await alive.sessions.get(key())).state == {"x": 1, "y": 2}


async def test_work_side_by_side_is_recorded_with_what_it_wrote_itself(process: Process) -> None:
    """Decision 6: work that was not done when the process died is done again from where it began."""
    crash, began = Crash(), asyncio.Event()

    @agent
    async def clerk(context: AgentContext) -> str:
        async def slow() -> None:
            context.state["slow"] = context.state.get("slow", 0) + 1
            began.set()
            await crash.here()

        async def quick() -> None:
            await began.wait()
            context.state["quick"] = context.state.get("quick", 0) + 1

        async def both() -> None:
            await asyncio.gather(context.step("slow", slow), context.step("quick", quick))

        await both()
        return f"{context.state['slow']} {context.state['quick']}"

    await kill(process, clerk, crash)
    alive = process(clerk)
    await alive.recover()
    assert (await texts(alive))[-1] == "1 1"


async def test_an_answer_in_data_is_the_answer_of_a_call(process: Process) -> None:
    """What an agent says last, in words or in data, is what its caller gets; tool results are no answer."""

    @agent
    async def helper(context: AgentContext) -> None:
        await context.say(Content(parts=(DataPart(name="output", data={"n": 7}),)))
        await context.say(Content(parts=(ToolResultPart(call_id="c", result="x"),)))

    @agent(children=[helper])
    async def asker(context: AgentContext) -> str:
        (part,) = (await context.call("helper", "how many?")).parts
        assert isinstance(part, DataPart)
        return str(part.data)

    assert (await ask(process(asker), "hi")).text == "{'n': 7}"


async def test_history_is_read_backwards_in_pages(process: Process) -> None:
    """From the newest to the oldest, each page oldest first, without what is private to others, at most history_events."""
    seen: list[list[list[str]]] = []

    @agent
    async def helper() -> str:
        return "private"

    @agent(children=[helper])
    async def clerk(message: str, context: AgentContext) -> None:
        if message == "read":
            for page in (1, 2, 3, 100):
                seen.append([[e.text for e in events] async for events in context.history.backwards(page)])
            async for events in context.history.backwards(2):
                seen.append([[e.text for e in events]])
                break
            return
        await context.say(f"heard {message}")
        if message == "b":
            await context.call("helper", "?")

    runner = process(clerk)
    await ask(runner, "a")
    await ask(runner, "b")
    await ask(runner, "read")
    read = ["a", "heard a", "", "b", "heard b", "", "", "read"]
    stored = [e.text for e in await runner.store.events(key())][: len(read)]
    flat = [[text for page in reversed(pages) for text in page] for pages in seen[:4]]
    assert len({tuple(each) for each in flat}) == 1
    assert [text for text in flat[0] if text] == ["a", "heard a", "b", "heard b", "read"]
    assert "private" in stored
    assert [len(page) for page in seen[1]].count(2) >= 2
    assert seen[1][0][-1:] == ["read"]
    assert seen[4] == [seen[1][0]]


async def test_history_backwards_is_bounded(process: Process) -> None:
    """limits.history_events, also when it is no multiple of the page."""
    seen: list[int] = []

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        seen.append(sum([len(events) async for events in context.history.backwards(2)]))
        return message

    runner = process(clerk, config=RunConfig(limits=Limits(history_events=3)))
    for message in ("a", "b", "c"):
        await ask(runner, message)
    assert seen == [1, 3, 3]


async def test_history_since_an_event_is_what_follows_it_while_the_log_holds_it(process: Process) -> None:
    """None after a rewind that hides it, for an event of another log, and for more than history_events."""
    last: list[Event] = []
    found: list[list[str] | None] = []

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        if last:
            news = await context.history.since(last[0])
            found.append(None if news is None else [each.text for each in news])
            assert await context.history.since(last[0].replace(id="another")) is None
        if message == "mark":
            last[:] = (await context.history.last(1))[:1]
        return f"heard {message}"

    runner = process(clerk, config=RunConfig(limits=Limits(history_events=5)))
    await ask(runner, "a")
    marked = await ask(runner, "mark")
    for message in ("b", "c", "d"):
        await ask(runner, message)
    assert found == [["heard mark", "b"], ["heard mark", "b", "heard b", "c"], None]
    await runner.sessions.rewind(key(), marked.invocation_id)
    await ask(runner, "e")
    assert found[-1] is None
