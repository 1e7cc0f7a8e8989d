"""What a worker says of its work. (At a real terminal, and with real processes: tests/integration/cli/test_worker.py.)"""

import logging
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.cli import worklog
from turnwise.cli.worklog import WorkLog
from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, End, Event, Rewind
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey

KEY = SessionKey("shop", "ann", "s1")
ASKED = Selection(
    agent="orders", method="m", confidence=1.0, reason="r", policy="p", fingerprint="f", tree_version="t", verdicts=(), ms=0.0
)
AGAIN = Actions(rewind=Rewind(from_sequence=2, invocation_id="i1"))


def event(author: str, *, invocation: str = "i1", actions: Actions, attempt: int = 1) -> Event:
    return Event(
        id="e",
        author=author,
        invocation_id=invocation,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content("hello"),
        actions=actions,
        attempt=attempt,
    )


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines without their times, which all have."""
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  ", line) for line in lines)
    return [re.sub(r"after \d+ ms", "after n ms", line[22:]) for line in lines]


async def test_an_answer_that_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    """E7."""
    log = WorkLog()
    await log.stored(KEY, event("orders", actions=AGAIN, attempt=2))
    assert log.running == 1
    await log.stored(KEY, event("orders", actions=Actions(), attempt=2))
    await log.stored(KEY, event("orders", actions=Actions(end=End()), attempt=2))
    await log.ended(KEY, "i1", "completed")
    assert log.running == 0
    assert said(capsys) == [
        "s1 of ann  attempt 2 by orders: the process of attempt 1 stopped  i1",
        "s1 of ann  completed after n ms  i1",
    ]
    assert log.summary == "1 taken up: 1 completed"


async def test_a_message_from_the_inbox_whose_agent_waits_or_fails(capsys: pytest.CaptureFixture[str]) -> None:
    log = WorkLog()
    await log.stored(KEY, event("user", actions=Actions(selection=ASKED)))
    await log.selected(KEY, ASKED)
    await log.ended(KEY, "i1", "waiting")
    await log.stored(KEY, event("user", invocation="i2", actions=Actions(selection=ASKED)))
    failed = End(reason="failed", detail="Agent 'orders' raised ValueError: \x1b[31mno\nmore")
    await log.stored(KEY, event("orders", invocation="i2", actions=Actions(end=failed)))
    assert said(capsys) == [
        "s1 of ann  attempt 1 by orders: from the inbox  i1",
        "s1 of ann  waits for the user, or for a tool's result after n ms  i1",
        "s1 of ann  attempt 1 by orders: from the inbox  i2",
        "s1 of ann  ended failed after n ms: Agent 'orders' raised ValueError: no more  i2",
    ]
    assert log.summary == "2 taken up: 1 waiting, 1 failed"


async def test_an_answer_that_is_not_run_again_is_counted_apart(capsys: pytest.CaptureFixture[str]) -> None:
    log = WorkLog()
    given_up = End(reason="limit:attempts", detail="Its process died 3 times before the end.")
    await log.stored(KEY, event("orders", actions=Actions(end=given_up), attempt=3))
    assert said(capsys) == ["s1 of ann  ended limit:attempts: Its process died 3 times before the end.  i1"]
    assert log.summary == "0 taken up · not run again: 1 limit:attempts"


def test_warnings_of_the_library_are_lines_of_the_log(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    library = logging.getLogger("turnwise.runner")
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with WorkLog().counting():
        library.warning("Unfinished work cannot be read: %s", "no host")
        library.warning("Unfinished work cannot be read: %s", "no host")
        library.info("Nothing to worry about.")
        try:
            raise ValueError("as asked")
        except ValueError:
            library.exception("A hook raised.")
    assert said(capsys) == [
        "warning: Unfinished work cannot be read: no host",
        "warning: A hook raised. ValueError: as asked",
    ]
    assert logging.getLogger("turnwise").handlers == []


def test_a_warning_is_told_again_later(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(worklog, "REPEAT_SECONDS", 0.0)
    log = WorkLog()
    log.warn("gone")
    log.warn("gone")
    assert said(capsys) == ["warning: gone", "warning: gone"]


def test_an_app_that_logs_by_itself_is_left_to_do_so(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    own = logging.NullHandler()
    monkeypatch.setattr(logging.getLogger(), "handlers", [own])
    with WorkLog().counting():
        logging.getLogger("turnwise.runner").warning("gone")
    assert said(capsys) == []


def test_how_long_an_answer_took() -> None:
    assert [worklog._duration(seconds) for seconds in (0.0123, 0.9, 1.0, 75.44)] == ["12 ms", "900 ms", "1.0 s", "75.4 s"]
