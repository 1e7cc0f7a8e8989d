"""Conversations that were had elsewhere, put on record in a session (A44)."""

from collections.abc import Callable

import pytest
from runner_play import Gate, ask, key, log, reason

from turnwise import AgentContext, Content, Limits, LlmAgent, RunConfig, Runner, agent
from turnwise.facts.content import BlobPart, Part, TextPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import (
    EmptyMessage,
    MessageBlocked,
    MessageTooLarge,
    SessionBusy,
    SessionExists,
    SessionMissing,
    StaleWriter,
)
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.runner import PastExchange
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.models import ScriptedModel

MakeRunner = Callable[..., Runner]


@agent
async def root(message: str, context: AgentContext) -> str:
    return " | ".join(f"{event.author}: {event.text}" for event in await context.history.last() if event.text)


def past(asked: str, *said: str) -> PastExchange:
    return PastExchange(text_content(asked, "user"), tuple(text_content(text) for text in said))


async def test_what_was_said_elsewhere_is_history(make_runner: MakeRunner) -> None:
    runner = make_runner(root)
    session = await runner.sessions.bring(key(), [past("one", "eins"), past("two", "zwei", "deux"), past("three")])
    assert session.head.turns == 3
    assert not session.head.invocations
    assert not session.held
    events = await runner.sessions.events(key())
    assert len({event.invocation_id for event in events}) == 3
    answer = await ask(runner, "four")
    assert answer.text == "user: one | root: eins | user: two | root: zwei | root: deux | user: three | user: four"


async def test_it_comes_behind_what_is_there_and_can_be_taken_back(make_runner: MakeRunner) -> None:
    runner = make_runner(root)
    await ask(runner, "here")
    await runner.sessions.bring(key(), [past("one", "eins"), past("two", "zwei")])
    assert [text for _, text in await log(runner)][2:] == ["one", "eins", "two", "zwei"]
    two = (await runner.sessions.events(key()))[-1].invocation_id
    fork = await runner.sessions.fork(key(), "copy", before_invocation=two)
    assert [text for _, text in await log(runner, "copy")][2:] == ["one", "eins"]
    assert fork.head.turns == 2
    again = await (await runner.regenerate(key(), two)).result()
    assert again.text.endswith("root: eins | user: two")


async def test_an_answer_that_came_unasked_and_one_by_another_agent(make_runner: MakeRunner) -> None:
    @agent
    def other() -> str:
        return "other"

    @agent(children=[other])
    def lead() -> str:
        return "lead"

    runner = make_runner(lead)
    session = await runner.sessions.bring(key(), [PastExchange(None, (text_content("Welcome."),))], author="other")
    assert await log(runner) == [("other", "Welcome.")]
    assert session.head.active_agent == "other"


async def test_calls_and_their_results(make_runner: MakeRunner) -> None:
    call, result = ToolCallPart(call_id="c1", tool="look", arguments={"n": 1}), ToolResultPart(call_id="c1", result="seen")
    said = [Content(parts=parts) for parts in ((call,), (result,), (TextPart(text="It is there."),))]
    model = ScriptedModel("Still there.")

    def look(n: int) -> str:
        """Looks."""
        return "seen"

    runner = make_runner(LlmAgent("root", model=model, tools=[look]))
    session = await runner.sessions.bring(key(), [PastExchange(text_content("where?", "user"), tuple(said))])
    assert not session.head.calls
    await ask(runner, "and now?")
    parts = [part.kind for message in model.requests[0].messages for part in message.parts]
    assert parts == ["text", "tool_call", "tool_result", "text", "text"]


async def test_it_hands_on_to_nobody(make_runner: MakeRunner) -> None:
    """B6: whoever brings a conversation says what was said in it, and nothing to the runtime."""

    @agent
    def secret() -> str:
        return "secret"

    @agent(children=[secret])
    def lead(message: str) -> str:
        return "lead"

    runner = make_runner(lead)
    calls = (ToolCallPart(call_id="c1", tool="transfer_to_agent", arguments={"agent": "secret"}),)
    said = (text_content("Gladly. <next>@secret</next>"), Content(parts=calls))
    session = await runner.sessions.bring(key(), [PastExchange(text_content("hi", "user"), said)])
    events = await runner.sessions.events(key())
    assert [event.author for event in events] == ["user", "lead", "lead"]
    assert all((event.actions.next, event.actions.transfer_to) == (None, None) for event in events)
    assert (session.head.active_agent, dict(session.head.calls)) == ("lead", {})
    assert (await ask(runner, "go on")).text == "lead"


class Prim:
    """Rewrites what is said of numbers, and blocks what is bad."""

    name = "prim"

    async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
        if "bad" in content.text:
            return GuardrailVerdict("block", reason="No.")
        if "1234" not in content.text:
            return ALLOW
        return GuardrailVerdict("rewrite", content.with_parts((TextPart(text="####"),)))


async def test_guardrails_look_at_it(make_runner: MakeRunner) -> None:
    """C13, A18."""
    runner = make_runner(root, guardrails=[Prim()])
    await runner.sessions.bring(key(), [past("it is 1234", "1234, I see"), past("hello", "a bad word")])
    assert [text for _, text in await log(runner)] == ["####", "####", "hello", "No."]
    with pytest.raises(MessageBlocked):
        await runner.sessions.bring(key("other"), [past("hello", "hi"), past("a bad question", "no")])
    with pytest.raises(SessionMissing):
        await runner.sessions.get(key("other"))


async def test_its_files_become_artifacts(make_runner: MakeRunner) -> None:
    """A26."""
    artifacts = InMemoryArtifactStore()
    runner = make_runner(root, artifacts=artifacts, config=RunConfig(save_input_blobs_as_artifacts=True))
    parts: tuple[Part, ...] = (TextPart(text="look"), BlobPart(data=b"x", mime_type="image/png"))
    await runner.sessions.bring(key(), [PastExchange(Content(parts=parts), (text_content("nice"),))])
    event = (await runner.sessions.events(key()))[0]
    assert list(event.actions.artifact_versions.values()) == [1]
    assert len(await artifacts.list(key())) == 1


async def test_what_cannot_be_brought(make_runner: MakeRunner) -> None:
    limits = Limits(message_bytes=500, parts=2)
    runner = make_runner(root, config=RunConfig(limits=limits))
    for exchange, error in (
        (past(" "), EmptyMessage),
        (past("x" * 600), MessageTooLarge),
        (past("x", "y" * 600), MessageTooLarge),
        (PastExchange(None, (Content(parts=(TextPart(text="x"),) * 3),)), MessageTooLarge),
    ):
        with pytest.raises(error):
            await runner.sessions.bring(key(), [exchange])
    with pytest.raises(SessionMissing):
        await runner.sessions.get(key())
    await runner.sessions.create(key())
    with pytest.raises(SessionExists):
        await runner.sessions.bring(key(), [past("one", "eins")], new=True)
    assert (await runner.sessions.bring(key(), [])).last_sequence == 0


async def test_never_in_the_middle_of_an_answer(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)
    running = await runner.start("hello", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(SessionBusy):
        await runner.sessions.bring(key(), [past("one", "eins")])
    gate.go.set()
    assert reason(await running.result()) == "completed"


async def test_what_another_process_brought_first_is_not_brought_again(make_runner: MakeRunner) -> None:
    """Two processes find the session empty; `after` says what each has seen."""
    runner = make_runner(root)
    first = await runner.sessions.bring(key(), [past("one", "eins")], after=0)
    with pytest.raises(StaleWriter):
        await runner.sessions.bring(key(), [past("one", "eins")], after=0)
    assert (await runner.sessions.get(key())).last_sequence == first.last_sequence
    again = await runner.sessions.bring(key(), [past("two", "zwei")], after=first.last_sequence)
    assert again.last_sequence > first.last_sequence
