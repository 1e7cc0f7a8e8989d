"""What is on record of a task: its state, and what it waits for."""

from typing import Any

import pytest
from a2a.types import TaskState
from logs import CHOSEN, call, event

from turnwise.facts.callers import Caller
from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Await, End, Event, Guarded, Rewind
from turnwise.facts.messages import Message
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.a2a.request import TaskId
from turnwise.gateway.a2a.tasks import TaskRecord, is_output, live_task_record, task_record
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.threads import KnownMessage
from turnwise.ports.stores import Receipt
from turnwise.runner import InvocationStatus
from turnwise.runner.message.invocation import result_of

NAME = TaskId("s", "m")
TREE = AgentTree([AgentCard(name="a")])
USERS, KEEPERS = Redactor(Caller(id="u", user="ann"), TREE), Redactor(Caller(id="a", role="admin"), TREE)
HI = event(USER, "hi", selection=CHOSEN)
SAID = event("a", "Done.")
LATE = event("a", "On it.", call("k"), awaits=Await(id="k", kind="tool_result"))


def numbered(*events: Event) -> list[Event]:
    ids = [f"message:s:{number}" if each.author == USER else f"e{number}" for number, each in enumerate(events, 1)]
    return [each.replace(sequence=number, id=id_) for number, (each, id_) in enumerate(zip(events, ids, strict=True), 1)]


def ended(reason: str, *events: Event) -> TaskRecord:
    return TaskRecord(NAME, "ended", [HI, *events, event("a", end=End(reason=reason))])


@pytest.mark.parametrize(
    ("reason", "events", "state"),
    [
        ("completed", [SAID], "COMPLETED"),
        ("completed", [], "COMPLETED"),
        ("clarify", [SAID], "COMPLETED"),
        ("loop", [SAID], "COMPLETED"),
        ("loop", [], "FAILED"),
        ("limit:transfers", [SAID], "COMPLETED"),
        ("limit:transfers", [], "FAILED"),
        ("limit:turns", [SAID], "FAILED"),
        ("limit:wait_seconds", [SAID], "FAILED"),
        ("failed", [SAID], "FAILED"),
        ("cancelled", [SAID], "CANCELED"),
        ("blocked", [], "REJECTED"),
        ("completed", [SAID, event("a", "Not that.", blocked_by="guard")], "REJECTED"),
        ("completed", [event("a", "Not that.", blocked_by="guard"), SAID], "COMPLETED"),
    ],
)
def test_each_end_is_a_state(reason: str, events: list[Event], state: str) -> None:
    assert TaskState.Name(ended(reason, *events).state(USERS)) == f"TASK_STATE_{state}"


def test_what_waits_for_somebody_else_is_at_work() -> None:
    record = TaskRecord(NAME, "waiting", [HI, LATE])
    assert (record.waits(USERS), record.state(USERS)) == ([], TaskState.TASK_STATE_WORKING)
    assert ([wait.id for wait in record.waits(KEEPERS)], record.state(KEEPERS)) == (
        ["k"],
        TaskState.TASK_STATE_INPUT_REQUIRED,
    )
    assert TaskRecord(NAME, "running", [HI, LATE]).waits(KEEPERS) == []


def known(state: str = "queued", problem: str = "", guarded: tuple[Guarded, ...] = (), events: Any = None) -> KnownMessage:
    message = Message(id="m", content=text_content("hi"), guarded=guarded)
    reading = InvocationStatus("m", "running", result_of(events)) if events else None
    return KnownMessage(Receipt(message, state, None, False, problem), reading)


def test_what_is_known_of_a_message_is_its_task() -> None:
    blocked = (Guarded(guardrail="guard", action="block", reason="bad"),)
    for given, state in (
        (known(), TaskState.TASK_STATE_SUBMITTED),
        (known("refused", "cancelled"), TaskState.TASK_STATE_CANCELED),
        (known("refused", "odd"), TaskState.TASK_STATE_REJECTED),
        (known("started", guarded=blocked), TaskState.TASK_STATE_REJECTED),
        (known("started", events=[HI]), TaskState.TASK_STATE_WORKING),
    ):
        assert task_record(NAME, given).state(USERS) == state
    assert task_record(NAME, known("started", guarded=blocked)).problem.endswith("bad")
    assert task_record(NAME, known()).first_message == text_content("hi")


def test_a_task_by_what_its_reader_has() -> None:
    asked = text_content("hi")

    def standing(events: list[Event], *, begun: bool, closed: bool) -> str:
        return live_task_record(NAME, events, asked, begun=begun, closed=closed).status

    assert standing([], begun=False, closed=False) == "queued"
    assert standing([], begun=True, closed=False) == "running"
    assert standing([], begun=True, closed=True) == "cancelled"
    assert standing([HI], begun=True, closed=False) == "running"
    assert standing([HI, LATE], begun=True, closed=True) == "waiting"
    assert standing([HI, event("a", end=End())], begun=True, closed=False) == "ended"


def test_what_was_taken_back_is_not_on_it() -> None:
    events = numbered(HI, SAID, event("a", rewind=Rewind(from_sequence=2, invocation_id="i1")), event("a", "Again."))
    told = live_task_record(NAME, events, begun=True, closed=False).events
    assert [each.text for each in told if each.text] == ["hi", "Again."]


def test_messages_of_a_task() -> None:
    asked, answer = event("a", "Which?", awaits=Await(id="w")), event(USER, "this", answers="w")
    events = numbered(HI, asked, answer, SAID)
    first, whole = TaskRecord(NAME, "waiting", events[:2]), TaskRecord(NAME, "ended", events)
    assert (first.last_message, whole.last_message) == ("1", "3")
    assert (whole.before("3"), whole.before("1"), whole.before("x")) == (events[:2], [], [])
    assert (whole.first_message_after(first), first.first_message_after(first)) == ("3", "")


def test_what_is_part_of_the_answer() -> None:
    assert is_output(SAID)
    assert is_output(LATE)
    for other in (
        HI,
        event("a", "Which?", awaits=Await(id="w")),
        event("a", "psst", branch="1/>b#1"),
        event("a", "on a task", scope=("t",)),
        event("a", "Not that.", blocked_by="guard"),
    ):
        assert not is_output(other)
