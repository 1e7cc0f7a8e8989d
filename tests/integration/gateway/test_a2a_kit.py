"""What A2A's conformance kit wants to see for each of its messages, with the SDK's own client over real sockets."""

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a.types import GetTaskRequest, Message, TaskState
from a2a_client import text_of
from a2a_kit_play import BINDINGS, OVER, given, kit, states
from google.protobuf.json_format import MessageToDict
from runner_play import soon

COMPLETED = TaskState.TASK_STATE_COMPLETED
INPUT_REQUIRED, WORKING = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_WORKING
pytestmark = pytest.mark.parametrize("binding", BINDINGS)

ORDER = {TaskState.TASK_STATE_SUBMITTED: 0, WORKING: 1, INPUT_REQUIRED: 1} | dict.fromkeys(OVER, 2)


async def test_a_task_is_completed(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-complete-task")
        assert task.status.state == COMPLETED
        assert [text_of(artifact.parts) for artifact in task.artifacts] == ["Hello from TCK"]
        assert task.context_id
        assert task.id


async def test_an_artifact_is_a_text(binding: str) -> None:
    async with kit(binding) as peer:
        (artifact,) = (await peer.task("tck-artifact-text")).artifacts
        (part,) = artifact.parts
        assert artifact.artifact_id
        assert (part.WhichOneof("content"), part.text) == ("text", "Generated text content")


@pytest.mark.parametrize("begins", ["tck-artifact-file", "tck-stream-artifact-file"])
async def test_an_artifact_is_a_file(binding: str, begins: str) -> None:
    async with kit(binding) as peer:
        (part,) = (await peer.task(begins)).artifacts[0].parts
        assert (part.WhichOneof("content"), part.raw) == ("raw", b"tck")
        assert (part.filename, part.media_type) == ("output.txt", "text/plain")


async def test_an_artifact_is_a_file_somewhere_else(binding: str) -> None:
    async with kit(binding) as peer:
        (part,) = (await peer.task("tck-artifact-file-url")).artifacts[0].parts
        assert (part.WhichOneof("content"), part.url) == ("url", "https://example.com/output.txt")
        assert (part.filename, part.media_type) == ("output.txt", "text/plain")


async def test_an_artifact_is_data(binding: str) -> None:
    async with kit(binding) as peer:
        (part,) = (await peer.task("tck-artifact-data")).artifacts[0].parts
        assert part.WhichOneof("content") == "data"
        assert MessageToDict(part.data) == {"key": "value", "count": 42}


async def test_an_answer_without_a_task_is_a_message(binding: str) -> None:
    async with kit(binding) as peer:
        message = await peer.send("tck-message-response")
        assert isinstance(message, Message)
        assert text_of(message.parts) == "Direct message response"
        assert message.message_id
        assert message.context_id


async def test_what_is_asked_is_answered_by_the_task_alone(binding: str) -> None:
    async with kit(binding) as peer:
        asked = await peer.task("tck-input-required")
        assert asked.status.state == INPUT_REQUIRED
        assert asked.status.message.parts[0].text == "What else do you want to say?"
        done = await peer.task("tck-complete-task", text="That is all.", task_id=asked.id)
        assert (done.id, done.context_id, done.status.state) == (asked.id, asked.context_id, COMPLETED)
        assert text_of(done.artifacts[-1].parts) == "You said: That is all."


async def test_what_a_guardrail_blocks_is_rejected(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-reject-task")
        assert task.status.state == TaskState.TASK_STATE_REJECTED
        assert text_of(task.status.message.parts) == "rejected"


async def test_who_waits_gets_the_end_and_who_does_not_a_task_at_work(binding: str) -> None:
    async with kit(binding) as peer:
        now = await soon(peer.task("tck-delayed-complete", configuration={"return_immediately": True}))
        assert now.status.state in (TaskState.TASK_STATE_SUBMITTED, WORKING)
        peer.clock.over.set()
        waited = await soon(peer.task("tck-delayed-complete"))
        assert waited.status.state == COMPLETED
        assert text_of(waited.artifacts[-1].parts) == "Done after delay"


async def test_the_same_id_without_a_context_is_another_task_each_time(binding: str) -> None:
    async with kit(binding) as peer:
        one, other = await peer.task("tck-complete-task"), await peer.task("tck-complete-task")
        assert one.id != other.id
        assert one.context_id != other.context_id


@pytest.mark.parametrize(
    ("begins", "texts"),
    [
        ("tck-stream-001", ["Stream hello from TCK"]),
        ("tck-stream-003", ["Stream task lifecycle", "Its end"]),
        ("tck-stream-ordering-001", ["One", "Two", "Three", "Ordered output"]),
        ("tck-stream-artifact-text", ["Streamed text content"]),
        ("tck-stream-artifact-file", [""]),
        ("tck-stream-artifact-chunked", ["chunk-1 chunk-2"]),
    ],
)
async def test_a_stream_begins_with_the_task_and_ends_with_its_end(binding: str, begins: str, texts: list[str]) -> None:
    async with kit(binding) as peer:
        peer.clock.over.set()
        told = await soon(peer.stream(begins))
        assert told[0].HasField("task")
        assert all(each.HasField("artifact_update") or each.HasField("status_update") for each in told[1:])
        passed = [ORDER[TaskState.ValueType(state)] for state in states(told)]
        assert passed == sorted(passed)
        assert states(told[-1:]) == [COMPLETED]
        assert [text_of(artifact.parts) for artifact in given(told)] == texts
        stored = await peer.client.get_task(GetTaskRequest(id=told[0].task.id))
        assert [each.artifact_id for each in stored.artifacts] == [each.artifact_id for each in given(told)]
        assert [text_of(artifact.parts) for artifact in stored.artifacts] == texts


async def test_pieces_of_an_artifact_are_appended_up_to_the_last(binding: str) -> None:
    async with kit(binding) as peer:
        async with peer.streaming("tck-stream-artifact-chunked") as told:
            begun, piece = [await soon(anext(told)) for _ in range(2)]
            assert begun.HasField("task")
            peer.clock.over.set()
            updates = [each.artifact_update async for each in told if each.HasField("artifact_update")]
            updates.insert(0, piece.artifact_update)
        assert [text_of(update.artifact.parts) for update in updates if text_of(update.artifact.parts)] == [
            "chunk-1 ",
            "chunk-2",
        ]
        assert [update.append for update in updates] == [False] + [True] * (len(updates) - 1)
        assert [update.last_chunk for update in updates] == [False] * (len(updates) - 1) + [True]
        assert len({update.artifact.artifact_id for update in updates}) == 1


async def test_a_stream_without_a_task_is_one_message(binding: str) -> None:
    async with kit(binding) as peer:
        (told,) = await soon(peer.stream("tck-stream-002"))
        assert text_of(told.message.parts) == "Stream message-only response"


async def test_a_stream_goes_up_to_the_question(binding: str) -> None:
    async with kit(binding) as peer:
        told = await soon(peer.stream("tck-input-required"))
        assert told[0].HasField("task")
        assert states(told)[-1] == INPUT_REQUIRED


async def test_whoever_lost_a_stream_comes_again(binding: str) -> None:
    async with kit(binding) as peer:
        async with peer.streaming("test-resubscribe-message-id") as told:
            task = (await soon(anext(told))).task
        await soon(peer.clock.waits.wait())
        async with peer.subscribed(task.id) as told:
            first = await soon(anext(told))
            assert (first.task.id, first.task.status.state) == (task.id, WORKING)
            peer.clock.over.set()
            rest = [first, *[each async for each in told]]
        assert states(rest)[-1] == COMPLETED
        assert [text_of(artifact.parts) for artifact in given(rest)] == ["Begun, and done"]


async def test_what_begins_otherwise_is_answered_as_usual(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("hello", text="Good day")
        assert (task.status.state, text_of(task.artifacts[0].parts)) == (COMPLETED, "You said: Good day")
