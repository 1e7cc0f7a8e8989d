"""A task as the protocol has it."""

from typing import Any

from a2a.types import Part, Role, Task, TaskState
from google.protobuf.json_format import MessageToDict
from logs import CHOSEN, NOW, call, event, result

from turnwise.facts.callers import Caller
from turnwise.facts.content import DataPart, ToolCallPart, text_content
from turnwise.facts.events import USER, Await, End, ErrorInfo, Event
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.a2a.messages import PartWriter
from turnwise.gateway.a2a.request import TaskId
from turnwise.gateway.a2a.tasks import RecordStatus, TaskRecord, answer_of, task_of, update_of
from turnwise.gateway.redaction import FAILED, Redactor

NAME = TaskId("s", "m")
TREE = AgentTree([AgentCard(name="a"), AgentCard(name="hidden", parent="a", roles=("staff",))])
USERS, KEEPERS = Redactor(Caller(id="u", user="ann"), TREE), Redactor(Caller(id="a", role="admin"), TREE)
HI = event(USER, "hi", selection=CHOSEN)
ASKED = event("a", "Which?", awaits=Await(id="w"))
REPLY = event(USER, "this", answers="w")
END = event("a", end=End())


def record(*events: Event, status: RecordStatus = "ended", **more: Any) -> TaskRecord:
    ids = [f"message:s:m{n}" if each.author == USER else f"e{n}" for n, each in enumerate(events, 1)]
    told = [each.replace(id=id_, sequence=n) for n, (each, id_) in enumerate(zip(events, ids, strict=True), 1)]
    return TaskRecord(NAME, status, told, **more)


def task(known: TaskRecord, view: Redactor = USERS, **options: Any) -> Task:
    return task_of(known, view, PartWriter(view), **options)


def texts(parts: Any) -> list[str]:
    return [part.text for part in parts]


def test_utterances_are_artifacts_and_questions_are_history() -> None:
    made = task(record(HI, event("a", "First."), ASKED, REPLY, event("a", "Last."), END))
    assert [(each.artifact_id, each.name, texts(each.parts)) for each in made.artifacts] == [
        ("e2", "a", ["First."]),
        ("e5", "a", ["Last."]),
    ]
    assert MessageToDict(made.artifacts[0].metadata) == {"turnwise": {"agent": "a", "sequence": 2.0}}
    history = [(each.message_id, Role.Name(each.role), texts(each.parts)) for each in made.history]
    assert history == [("m1", "ROLE_USER", ["hi"]), ("e3", "ROLE_AGENT", ["Which?"]), ("m4", "ROLE_USER", ["this"])]
    assert {(each.task_id, each.context_id) for each in made.history} == {(NAME.id, "s")}
    assert (made.id, made.context_id, made.status.timestamp.ToDatetime(NOW.tzinfo)) == (NAME.id, "s", NOW)


def test_an_open_question_is_the_status_and_not_yet_history() -> None:
    made = task(record(HI, ASKED, status="waiting"))
    assert made.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    question, data = made.status.message.parts
    assert question.text == "Which?"
    assert MessageToDict(data.data) == {"waits": [{"callId": "w", "kind": "reply", "agent": "a"}]}
    assert [each.message_id for each in made.history] == ["m1"]


def test_several_questions_are_all_there() -> None:
    offered = ToolCallPart(call_id="k", tool="look", arguments={"n": 1}, offered=True)
    made = task(record(HI, ASKED, event("a", offered, awaits=Await(id="k", kind="tool_result")), status="waiting"))
    assert texts(made.status.message.parts)[:2] == ["Which?", "Waiting for the result of look."]
    waits = MessageToDict(made.status.message.parts[2].data)["waits"]
    assert waits[1] == {"callId": "k", "kind": "tool_result", "agent": "a", "tool": "look", "arguments": {"n": 1.0}}


def test_what_an_exception_said_is_for_those_who_keep_the_agents() -> None:
    failed = record(HI, event("a", error=ErrorInfo(code="agent.failed", message="a secret"), end=End(reason="failed")))
    assert texts(task(failed).status.message.parts) == [FAILED]
    assert texts(task(failed, KEEPERS).status.message.parts) == ["a secret"]
    limit = record(HI, event("a", "Half."), event("a", end=End(reason="limit:turns")))
    assert "'turns'" in texts(task(limit).status.message.parts)[0]
    blocked = record(HI, event("a", "Not that.", blocked_by="guard"), END)
    assert (texts(task(blocked).status.message.parts), list(task(blocked).artifacts)) == (["Not that."], [])


def test_what_of_the_decision_the_reader_may_see() -> None:
    chosen = CHOSEN.replace(reason="hidden was asked first")
    told = MessageToDict(task(record(event(USER, "hi", selection=chosen), END)).metadata)["turnwise"]
    assert told == {
        "sessionId": "s",
        "messageId": "m",
        "invocationId": "i1",
        "agent": "a",
        "method": "m",
        "reason": "It was chosen by m.",
        "end": "completed",
    }


def test_of_the_history_as_much_as_is_wanted() -> None:
    known = record(HI, ASKED, REPLY, END)
    assert [len(task(known, history=most).history) for most in (None, 0, 1, 2, 9)] == [3, 0, 1, 2, 3]
    assert texts(task(known, history=1).history[0].parts) == ["this"]
    many = record(*([HI] * 150), END)
    assert len(task(many).history) == 100


def test_of_a_message_in_line_there_is_the_message() -> None:
    queued = record(status="queued", first_message=text_content("hi"))
    made = task(queued)
    assert (made.status.state, texts(made.history[0].parts)) == (TaskState.TASK_STATE_SUBMITTED, ["hi"])
    assert not made.status.HasField("timestamp")
    assert list(task(queued, history=0).history) == []
    rejected = task(record(status="rejected", problem="Not that."))
    assert (texts(rejected.status.message.parts), list(rejected.history)) == (["Not that."], [])


def test_results_that_were_sent_are_part_of_the_history() -> None:
    made = task(record(HI, event("a", call("k"), awaits=Await(id="k", kind="tool_result")), event(USER, result("k", 7)), END))
    assert MessageToDict(made.history[1].parts[0].data) == {"callId": "k", "result": 7.0, "failed": False}
    assert list(made.artifacts) == []


def test_an_update_is_the_tasks_status() -> None:
    known = record(HI, ASKED, status="waiting")
    update = update_of(known, USERS, PartWriter(USERS))
    assert (update.task_id, update.context_id, update.status) == (NAME.id, "s", task(known).status)
    assert update.metadata == task(known).metadata


def test_an_answer_without_a_task_is_all_that_was_said() -> None:
    message = answer_of(record(HI, event("a", "One."), event("a", DataPart(data=1)), END), PartWriter(USERS))
    assert [part.WhichOneof("content") for part in message.parts] == ["text", "data"]
    assert (message.context_id, message.task_id, message.message_id) == ("s", "", "e4")
    assert isinstance(message.parts[0], Part)
