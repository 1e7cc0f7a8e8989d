"""Going on from any answer, and taking answers back."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llm_play import answering, waiting_call
from runner_play import Gate, ask, runners, soon
from services_play import binding

from turnwise import LlmAgent, Runner, SqlSessionStore, agent, tool
from turnwise.facts.callers import Caller
from turnwise.facts.errors import Forbidden, InvocationMissing, SessionError
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.services.threads import Threads
from turnwise.testing.models import ScriptedModel, calls

ADA, BOB = Caller(id="a", user="ada"), Caller(id="b", user="bob")
MakeRunner = Callable[..., Runner]


@agent
async def clerk(message: str, context: Any) -> str:
    """Asks when it is asked to; else says how much it heard."""
    if message == "ask":
        return f"It is {(await context.ask('Which?')).text}"
    heard = [event.text for event in await context.history.last(50) if event.author == "user" and event.text]
    return " ".join(heard)


@pytest.fixture
def make_runner() -> Iterator[MakeRunner]:
    with runners(store=lambda: SqlSessionStore("sqlite://")) as make:
        yield make


def threads(runner: Runner) -> Callable[..., Threads]:
    bind = binding(runner)
    return lambda caller, named=None: bind(caller, named).threads


async def more(runner: Runner, text: str, after: str, id_: str, session: str = "s") -> str:
    """What is answered behind that message, and where."""
    invocation = await threads(runner)(ADA).start(MessageRequest(session, text, id=id_), after)
    text = (await invocation.result()).text
    return f"{text} ({'there' if invocation.session.id == session else 'elsewhere'})"


async def test_behind_the_last_answer_it_goes_on_there(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    await ask(runner, "one", message_id="m1")
    assert await more(runner, "two", "m1", "m2") == "one two (there)"
    assert await more(runner, "three", "m2", "m3") == "one two three (there)"


async def test_behind_an_older_answer_it_goes_on_in_a_copy(make_runner: MakeRunner) -> None:
    """Behaviour A44."""
    runner = make_runner(clerk)
    for number, text in enumerate(("one", "two", "three"), 1):
        await ask(runner, text, message_id=f"m{number}")
    assert await more(runner, "2", "m1", "n1") == "one 2 (elsewhere)"
    assert await more(runner, "3", "m2", "n2") == "one two 3 (elsewhere)"
    assert await more(runner, "four", "m3", "m4") == "one two three four (there)"


async def test_what_waits_in_line_comes_first_and_is_not_heard(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)
    first = await runner.start("one", user="ada", session="s", message_id="m1")
    await soon(gate.began.wait())
    await runner.start("two", user="ada", session="s", message_id="m2")
    going_on = asyncio.create_task(more(runner, "2", "m1", "n1"))
    gate.go.set()
    assert (await soon(first.result())).text == "answer to one"
    assert await soon(going_on) == "answer to 2 (elsewhere)"


async def test_nothing_comes_between_a_question_and_its_answer(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    asked = await ask(runner, "ask", message_id="m1")
    assert asked.waiting
    assert await more(runner, "O-7", "m1", "m2") == "It is O-7 (there)"
    with pytest.raises(SessionError, match="answered already"):
        await more(runner, "other", "m1", "m3")
    assert await more(runner, "so", "m2", "m3") == "ask O-7 so (there)"


async def test_an_older_invocation_that_goes_on_is_nothing_in_between(make_runner: MakeRunner) -> None:
    """Behaviour A42."""

    @tool(later=True)
    def order(thing: str) -> str:
        """Orders it; that it came is told later."""
        return "ordered"

    script = ScriptedModel(calls("order", {"thing": "tea"}), "Meanwhile.", "The tea came.", "And on.")
    runner = make_runner(LlmAgent("desk", model=script, tools=[order]))
    waiting = await ask(runner, "tea", message_id="m1")
    await ask(runner, "hello?", message_id="m2")
    came = answering(waiting_call(waiting, "order"), "here")
    door = threads(runner)
    # Behind an older answer, but for who waits.
    service = ADA.replace(acts_for_users=True)
    there = await door(service).start(MessageRequest("s", came, id="m3"), "m1")
    assert ((await there.result()).text, there.session.id) == ("The tea came.", "s")
    assert await more(runner, "go on", "m2", "m4") == "And on. (there)"


async def test_what_was_taken_back_is_not_there(make_runner: MakeRunner) -> None:
    """Behaviour A44."""
    runner = make_runner(clerk)
    await ask(runner, "one", message_id="m1")
    await ask(runner, "two", message_id="m2")
    door = threads(runner)
    with pytest.raises(SessionError, match="follow this"):
        await door(ADA).take_back("s", "m1", whole=True)
    await door(ADA).take_back("s", "m2", whole=True)
    for use in (door(ADA).known("s", "m2"), door(ADA).take_back("s", "m2", whole=True), more(runner, "x", "m2", "m3")):
        with pytest.raises(InvocationMissing):
            await use
    assert await more(runner, "three", "m1", "m4") == "one three (there)"


async def test_the_only_answer_is_deleted_with_its_session(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    await ask(runner, "one", message_id="m1")
    await threads(runner)(ADA).take_back("s", "m1", whole=True)
    await ask(runner, "one", session="t", message_id="m1")
    await threads(runner)(ADA).take_back("t", "m1", whole=False)
    assert [info.key.id for info in (await runner.store.list(runner.app)).items] == ["t"]


async def test_all_of_an_invocation_is_known_by_its_messages_from_each_on(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    asked = await ask(runner, "ask", message_id="m1")
    for text, id_ in (("blue", "m2"), ("more", "m3")):
        await ask(runner, text, message_id=id_)
    known = await threads(runner)(ADA).whole("s", "m1")
    assert known.reading is not None
    assert known.reading.result is not None
    assert (known.reading.result.text, known.reading.result.invocation_id) == ("Which?\nIt is blue", asked.invocation_id)
    behind = (await threads(runner)(ADA).whole("s", "m2")).reading
    assert behind is not None
    assert behind.result is not None
    assert (behind.message_id, behind.state, behind.result.text) == ("m2", "ended", "It is blue")
    assert behind.result.events == known.reading.result.events[-len(behind.result.events) :]
    with pytest.raises(InvocationMissing):
        await threads(runner)(ADA).whole("s", "never")
    await runner.sessions.rewind(runner.key("ada", "s"), asked.invocation_id)
    for message in ("m1", "m2"):
        with pytest.raises(InvocationMissing):
            await threads(runner)(ADA).whole("s", message)


async def test_who_waits_for_more_of_an_invocation_is_told_of_it(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    asked = await ask(runner, "ask", message_id="m1")
    last = asked.events[-1].sequence or 0
    await soon(threads(runner)(ADA).wait_for_progress("s", asked.invocation_id, last - 1))
    waiting = asyncio.create_task(threads(runner)(ADA).wait_for_progress("s", asked.invocation_id, last))
    await asyncio.sleep(0)
    assert not waiting.done()
    await ask(runner, "blue", message_id="m2")
    await soon(waiting)
    await soon(threads(runner)(ADA).wait_for_progress("s", asked.invocation_id, last + 99))


async def test_nothing_is_anothers(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    await ask(runner, "one", message_id="m1")
    door = threads(runner)
    for use in (
        door(BOB).known("s", "m1"),
        door(BOB).whole("s", "m1"),
        door(BOB).cancel("s", "m1"),
        door(BOB).take_back("s", "m1", whole=True),
        door(BOB).start(MessageRequest("s", "hi"), "m1"),
    ):
        with pytest.raises(InvocationMissing):
            await use
    for other in (
        door(BOB, "ada").known("s", "m1"),
        door(BOB, "ada").whole("s", "m1"),
        door(BOB, "ada").wait_for_progress("s", "i", 0),
        door(BOB, "ada").cancel("s", "m1"),
        door(BOB, "ada").take_back("s", "m1", whole=True),
        door(BOB, "ada").start(MessageRequest("s", "hi"), "m1"),
    ):
        with pytest.raises(Forbidden):
            await other


async def test_each_takes_its_permission(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk)
    await ask(runner, "one", message_id="m1")
    door, metrics = threads(runner), ADA.replace(scopes=("agents:read",))
    for use, permission in (
        (door(metrics).known("s", "m1"), "sessions:read"),
        (door(metrics).whole("s", "m1", to="messages:write"), "messages:write"),
        (door(metrics).wait_for_progress("s", "i", 0), "sessions:read"),
        (door(metrics).cancel("s", "m1"), "invocations:cancel"),
        (door(metrics).take_back("s", "m1", whole=True), "sessions:write"),
        (door(metrics).start(MessageRequest("s", "hi"), "m1"), "messages:write"),
    ):
        with pytest.raises(Forbidden, match=permission):
            await use
