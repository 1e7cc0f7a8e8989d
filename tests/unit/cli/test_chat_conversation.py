"""A conversation at a terminal: who answers and why, the answer as it comes, and a bad end."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.function import agent
from turnwise.agents.llm import LlmAgent
from turnwise.assemble import App
from turnwise.cli.conversation import AnswerView, Conversation
from turnwise.facts.content import Content, DataPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.events import Actions, End, ErrorInfo, Event, Rewind
from turnwise.facts.messages import MessageContext
from turnwise.runner import Runner
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool


def event(text: str = "", *, author: str = "desk", id_: str = "e1", partial: bool = False, **more: Any) -> Event:
    return Event(
        id=id_,
        author=author,
        invocation_id="i",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content(text) if text else None,
        partial=partial,
        **more,
    )


def shown(capsys: pytest.CaptureFixture[str], *events: Event) -> str:
    answer = AnswerView()
    for each in events:
        answer.show(each)
    answer.close()
    return capsys.readouterr().out


def test_what_was_streamed_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """A19."""
    assert shown(capsys, event("Hel", partial=True), event("lo.", partial=True), event("Hello.")) == "desk: Hello.\n"


def test_an_answer_that_was_changed_after_it_was_streamed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, event("secret", partial=True), event("[removed]")) == "desk: secret\ndesk: [removed]\n"


def test_two_streams_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    events = (
        event("a", partial=True),
        event("b", author="orders", id_="e2", partial=True),
        event("b", author="orders", id_="e2"),
    )
    assert shown(capsys, *events) == "desk: a\norders: b\n"


def test_an_answer_that_begins_anew_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """E7: another process takes up an answer whose own process stopped."""
    again = Actions(rewind=Rewind(from_sequence=2, invocation_id="i"))
    events = (event("Hel", partial=True), event(actions=again, attempt=2, id_="e2"), event("Hello.", attempt=2, id_="e3"))
    assert shown(capsys, *events) == ("desk: Hel\n↻ attempt 2: the process of attempt 1 stopped before the end\ndesk: Hello.\n")


def test_a_stream_that_breaks_off_ends_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    end = event(actions=Actions(end=End(reason="cancelled")), id_="e2")
    assert shown(capsys, event("Hel", partial=True), end) == "desk: Hel\n(cancelled)\n"


def test_control_sequences_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    events = (event("\x1b[31", partial=True), event("mred \x9b1m", partial=True), event("[bold]x\x1b]0;t\x07[/bold]", id_="e2"))
    assert shown(capsys, *events) == "desk: red \ndesk: [bold]x[/bold]\n"


def test_hand_overs_artifacts_and_ends_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(
        capsys,
        event("Here.", actions=Actions(artifact_versions={"a.txt": 2}, transfer_to="billing")),
        event(error=ErrorInfo(code="agent.failed", message="It broke."), id_="e2"),
        event(actions=Actions(end=End(reason="failed", detail="It broke.")), id_="e3"),
        event(actions=Actions(end=End(reason="limit:turns", detail="Too many.")), id_="e4"),
        event("to itself", branch="1/>orders#1", id_="e5"),
    )
    assert said.splitlines() == [
        "desk: Here.",
        "  saved a.txt, version 2",
        "→ billing · transfer · desk hands over",
        "desk failed [agent.failed]: It broke.",
        "(failed)",
        "(limit:turns: Too many.)",
    ]


def make() -> Conversation:
    @agent
    async def desk(message: str, context: Any) -> str | None:
        if message == "fail":
            raise ValueError("as asked")
        if message == "ask":
            return f"You said {(await context.ask('What?')).text}."
        async with context.stream() as out:
            for word in message.split():
                await out.write(f"{word} ")
        return None

    app = App(Runner(desk, store=SqlSessionStore("sqlite://"), app="shop"), Path("t.yaml"))
    return Conversation(app, "ann", "a session", MessageContext())


async def test_a_conversation(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    conversation = make()
    for message in ("good day", "ask", "this", "fail", ""):
        await conversation.turn(message)
    conversation.explain()
    conversation.describe()
    await conversation._app.runner.close()
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0].startswith("→ desk · default_fallback 0.60 · ")
    assert lines[1] == "desk: good day "
    assert lines[3] == "desk: What?"
    assert lines[5] == "desk: You said this."
    assert "desk failed [agent.failed]: Agent 'desk' raised ValueError: as asked" in lines
    place = lines[lines.index("desk failed [agent.failed]: Agent 'desk' raised ValueError: as asked") + 2]
    assert place.startswith(f"  at {__file__}:")
    assert " in desk (TURNWISE_DEBUG=1" in place
    assert "error[message.empty]: The message is empty." in output.err
    assert any(line.startswith("1. direct  abstained") for line in lines)
    assert lines[-2] == "session a session of user ann in shop, 4 messages so far"
    assert lines[-1] == "resume with: turnwise chat --user ann --session 'a session'"
    assert conversation.failures == 2


def test_nothing_has_been_decided_yet(capsys: pytest.CaptureFixture[str]) -> None:
    make().explain()
    assert capsys.readouterr().out == "Nothing has been decided in this conversation yet.\n"


def test_thoughts_and_arguments_that_come_in_pieces_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call = ToolCallPart(call_id="c1", tool="status", arguments={"order": "A-1"})
    piece = event(partial=True)
    parts = (ThinkingPart(text="hm"), TextPart(text="Let me look."), call)
    said = shown(
        capsys,
        piece.replace(content=Content(parts=(ThinkingPart(text="hm"),))),
        event("Let me ", partial=True),
        event("look.", partial=True),
        piece.replace(content=Content(parts=(call.replace(raw="{"),))),
        event().with_content(Content(parts=parts)),
        event(id_="e2").with_content(Content(parts=(ToolResultPart(call_id="c1", tool="status", result=1),))),
    )
    assert said == 'desk: Let me look.\n  · status(order="A-1")\n'


@pytest.mark.parametrize(
    ("cut_off", "why"),
    [("tokens", "the model ran into its limit of tokens"), ("parts", "it has more parts than limits.parts allows"), ("n", "n")],
)
def test_an_answer_that_is_not_whole_is_told_so(capsys: pytest.CaptureFixture[str], cut_off: str, why: str) -> None:
    whole = event("Once upon")
    cut = whole.with_actions(cut_off=cut_off)
    assert shown(capsys, event("Once upon", partial=True), cut) == f"desk: Once upon\n(cut off: {why})\n"


def bank(*replies: Any, store: SqlSessionStore, paid: list[int]) -> App:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    desk = LlmAgent("desk", model=ScriptedModel(*replies), tools=[pay])
    return App(Runner(desk, store=store, app="shop"), Path("t.yaml"))


async def test_a_person_answers_whether_a_tool_may_be_called(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A42: now, or in a later conversation; what is neither yes nor no is a message, and the question stays open."""
    paid: list[int] = []
    store = SqlSessionStore(f"sqlite:///{tmp_path}/s.db")
    app = bank(calls("pay", {"amount": 3}), "It is sunny.", store=store, paid=paid)
    conversation = Conversation(app, "ann", "s", MessageContext())
    await conversation.turn("pay 3")
    assert [question.text for question in conversation.questions] == ["May I call pay with amount = 3?"]
    await conversation.turn("how is the weather?")
    assert (len(conversation.questions), paid) == (1, [])
    await app.runner.close()
    said = capsys.readouterr().out
    assert "  · pay(amount=3)\ndesk: May I call pay with amount = 3?\n" in said

    store = SqlSessionStore(f"sqlite:///{tmp_path}/s.db")
    app = bank("Paid.", store=store, paid=paid)
    later = Conversation(app, "ann", "s", MessageContext())
    await later.look_back()
    await later.turn("y")
    await app.runner.close()
    assert (paid, later.questions, later.failures) == ([3], [], 0)
    assert capsys.readouterr().out.splitlines()[0] == "desk: May I call pay with amount = 3?"


async def test_two_questions_are_answered_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    paid: list[int] = []
    both = [calls("pay", {"amount": 1}), calls("pay", {"amount": 2})]
    app = bank(both, "Done.", store=SqlSessionStore("sqlite://"), paid=paid)
    conversation = Conversation(app, "ann", "s", MessageContext())
    await conversation.look_back()
    for line in ("pay", "n, too much", "yes"):
        await conversation.turn(line)
    await app.runner.close()
    assert (paid, conversation.questions) == ([2], [])
    said = capsys.readouterr().out
    assert "  · pay failed: It was not called, because the person who was asked did not agree: too much\n" in said
    assert said.endswith("desk: Done.\n")


def test_what_is_for_programs_alone_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    told = event().with_content(Content(parts=(DataPart(name="task", data={"a": 1}, private=True),)))
    answer = event("Done.", id_="e2")
    assert shown(capsys, told, answer) == "desk: Done.\n"
