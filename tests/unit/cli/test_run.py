"""Many messages at once: in order within a session, side by side across sessions, whatever a line holds."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.function import agent
from turnwise.agents.llm import LlmAgent
from turnwise.assemble import App
from turnwise.cli.batch_run import BatchRun
from turnwise.cli.line_input import InputLines
from turnwise.cli.progress_bars import Progress
from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease
from turnwise.runner import Runner
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool


class Listed(InputLines):
    """Lines that are given, the last one perhaps never."""

    def __init__(self, *lines: object, endless: bool = False) -> None:
        super().__init__(None)
        self._lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        self._endless = endless

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        for number, line in enumerate(self._lines, 1):
            yield number, line
        if self._endless:
            await asyncio.Event().wait()


def line(session: str, message: Any = "hello", **more: Any) -> dict[str, Any]:
    return {"user": "ann", "session": session, "message": message, **more}


class Floor:
    """An agent that says how many of it run at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.order: list[tuple[str, str]] = []

    def app(self, store: SqlSessionStore | None = None) -> App:
        @agent
        async def echo(message: str, context: Any) -> str:
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append((context.session.id, message))
            await asyncio.sleep(0.01)
            self.now -= 1
            if message == "fail":
                raise ValueError("as asked")
            return f"echo {message}"

        return App(Runner(echo, store=store or SqlSessionStore("sqlite://")), Path("t.yaml"))


async def answered(
    app: App, lines: InputLines, jobs: int = 4, output: io.StringIO | None = None
) -> tuple[BatchRun, list[dict[str, Any]]]:
    output = output or io.StringIO()
    answering = BatchRun(app, jobs, Progress(None), output)
    try:
        await answering.answer(lines)
    finally:
        await app.runner.close()
    return answering, [json.loads(text) for text in output.getvalue().splitlines()]


async def test_every_stored_event_is_one_line() -> None:
    answering, events = await answered(
        Floor().app(), Listed(line("s", "one"), b"  ", line("t", {"parts": [{"kind": "text", "text": "two"}]}))
    )
    assert (answering.failed, answering.answered) == (0, 2)
    said = [(event["session"], event["sequence"], event["author"], event["content"]["parts"][0]["text"]) for event in events]
    assert sorted(said) == [
        ("s", 1, "user", "one"), ("s", 2, "echo", "echo one"), ("t", 1, "user", "two"), ("t", 2, "echo", "echo two"),
    ]  # fmt: skip
    assert events[0]["actions"]["selection"]["agent"] == "echo"
    assert {event["user"] for event in events} == {"ann"}


async def test_a_session_keeps_its_order_and_sessions_run_side_by_side() -> None:
    """A32."""
    floor = Floor()
    lines = [line(f"s{number % 3}", f"m{number}") for number in range(12)]
    await answered(floor.app(), Listed(*lines), jobs=3)
    for session in ("s0", "s1", "s2"):
        sent = [each["message"] for each in lines if each["session"] == session]
        assert [message for id_, message in floor.order if id_ == session] == sent
    assert floor.most == 3


async def test_no_more_than_that_many_at_once() -> None:
    floor = Floor()
    await answered(floor.app(), Listed(*[line(f"s{number}") for number in range(10)]), jobs=2)
    assert floor.most == 2


async def test_a_bad_line_is_told_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Listed(
        b"nonsense",
        {"user": "ann", "session": "s"},
        line("s", ""),
        line("s", "hi", extra=1),
        line("s", "hi", context={"chanel": "x"}),
        b'{"user": "ann", "session": "s", "message": "\xff"}',
        [1],
        line("s", "good"),
    )
    answering, events = await answered(Floor().app(), lines)
    assert (answering.failed, answering.answered, len(events)) == (7, 1, 2)
    told = capsys.readouterr().err
    for expected in (
        "line 1: error[input]: This is not JSON",
        "line 2: error[input]: The key 'message' is missing.",
        "line 3: error[message.empty]: The message is empty.",
        "line 4: error[input]: There is no key 'extra' here.",
        "line 5: error[input]: There is no key 'context.chanel' here.",
        "line 6: error[input]: This is not JSON",
        "line 7: error[input]: This should be keys and values, but is a list.",
    ):
        assert expected in told


async def test_an_answer_that_ends_badly_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    answering, events = await answered(Floor().app(), Listed(line("s", "fail"), line("s", "go on")))
    assert (answering.failed, answering.answered) == (1, 1)
    assert "line 1: error[input]: Session 's': the answer ended 'failed'." in capsys.readouterr().err
    assert events[-1]["content"]["parts"][0]["text"] == "echo go on"


async def test_the_same_id_is_the_same_message() -> None:
    floor = Floor()
    answering, _ = await answered(floor.app(), Listed(line("s", "once", id="m1"), line("s", "once", id="m1")))
    assert answering.answered == 2
    assert floor.order == [("s", "once")]


class FailingStore(SqlSessionStore):
    """A store that fails when the third message begins."""

    def __init__(self) -> None:
        super().__init__("sqlite://")
        self._left = 2

    async def begin(self, session: Any, lease: Lease, message: Message, events: Any, **options: Any) -> Any:
        if self._left == 0:
            raise StoreUnavailable("The store went away.")
        self._left -= 1
        return await super().begin(session, lease, message, events, **options)


async def test_a_store_that_fails_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Listed(*[line("s", f"m{number}") for number in range(5)], endless=True)
    with pytest.raises(StoreUnavailable):
        await answered(Floor().app(FailingStore()), lines, jobs=1)
    assert "Stopped: 2 lines were answered, 0 failed" in capsys.readouterr().err


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


async def test_a_reader_that_left_ends_the_run() -> None:
    with pytest.raises(BrokenPipeError):
        await answered(Floor().app(), Listed(line("s"), line("t"), endless=True), output=Gone())


async def test_what_is_interrupted_has_its_end_on_record(tmp_path: Path) -> None:
    started = asyncio.Event()

    @agent
    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    app = App(Runner(slow, store=SqlSessionStore(f"sqlite:///{tmp_path}/s.db")), Path("t.yaml"))
    run = asyncio.create_task(answered(app, Listed(line("s"), endless=True)))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    store = SqlSessionStore(f"sqlite:///{tmp_path}/s.db")
    events = await store.events(SessionKey("app", "ann", "s"))
    await store.close()
    assert [event.actions.end.reason for event in events if event.actions.end] == ["cancelled"]


async def test_a_question_whether_a_tool_may_be_called_says_how_to_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A42: nobody is there to be asked; the line that it tells is the answer."""
    paid: list[int] = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def app(*replies: Any) -> App:
        desk = LlmAgent("desk", model=ScriptedModel(*replies), tools=[pay])
        return App(Runner(desk, store=SqlSessionStore(f"sqlite:///{tmp_path}/s.db")), Path("t.yaml"))

    asked, _ = await answered(app(calls("pay", {"amount": 3})), Listed(line("s")))
    said = capsys.readouterr().err.splitlines()
    assert (asked.failed, said[0]) == (0, "line 1: desk asks: May I call pay with amount = 3?")
    answer = json.loads(said[1].removeprefix("  A line that says yes: "))
    _, events = await answered(app("Done."), Listed(answer))
    assert paid == [3]
    assert events[-1]["content"]["parts"][0]["text"] == "Done."
