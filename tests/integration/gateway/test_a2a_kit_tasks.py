"""Tasks as A2A's conformance kit goes about with them: looked at, listed, gone on with, stopped and followed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    StreamResponse,
    TaskState,
)
from a2a.utils.errors import InvalidParamsError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from a2a_kit_play import BINDINGS, kit, states
from runner_play import soon

COMPLETED, CANCELED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED
INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED
pytestmark = pytest.mark.parametrize("binding", BINDINGS)


async def test_a_task_is_found_by_its_id(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-complete-task")
        again = await peer.client.get_task(GetTaskRequest(id=task.id))
        assert (again.id, again.context_id, again.status.state) == (task.id, task.context_id, COMPLETED)
        assert list(again.artifacts) == list(task.artifacts)


async def test_what_is_no_task_is_not_found_by_anything(binding: str) -> None:
    async with kit(binding) as peer:
        with pytest.raises(TaskNotFoundError):
            await peer.client.get_task(GetTaskRequest(id="tck-nonexistent"))
        with pytest.raises(TaskNotFoundError):
            await peer.client.cancel_task(CancelTaskRequest(id="tck-nonexistent"))
        with pytest.raises(TaskNotFoundError):
            await peer.send("tck-multi-004", task_id="tck-nonexistent")
        with pytest.raises(TaskNotFoundError):
            async with peer.subscribed("tck-nonexistent") as told:
                await anext(told)


async def test_a_context_may_be_the_callers_own(binding: str) -> None:
    async with kit(binding) as peer:
        one = await peer.task("tck-complete-task", context_id="tck-client-context-001")
        assert one.context_id == "tck-client-context-001"
        again = await peer.task("tck-complete-task", context_id="tck-client-context-001")
        assert again.id == one.id
        other = await peer.task("tck-artifact-text", context_id="tck-client-context-001")
        assert other.id != one.id


async def test_a_task_that_is_over_takes_no_message(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-complete-task")
        with pytest.raises(UnsupportedOperationError):
            await peer.send("tck-terminal", task_id=task.id)


async def test_a_task_of_another_context_takes_no_message(binding: str) -> None:
    async with kit(binding) as peer:
        asked = await peer.task("tck-input-required")
        with pytest.raises(InvalidParamsError):
            await peer.send("tck-mismatch", task_id=asked.id, context_id="tck-wrong-context")
        done = await peer.task("tck-infer-ctx", task_id=asked.id, context_id=asked.context_id)
        assert (done.id, done.status.state) == (asked.id, COMPLETED)


async def test_a_task_that_waits_is_cancelled_once(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-input-required")
        stopped = await peer.client.cancel_task(CancelTaskRequest(id=task.id))
        assert (stopped.id, stopped.status.state) == (task.id, CANCELED)
        with pytest.raises(TaskNotCancelableError):
            await peer.client.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_task_at_work_is_cancelled(binding: str) -> None:
    async with kit(binding) as peer, peer.streaming("test-resubscribe-message-id") as told:
        first = await soon(anext(told))
        await soon(peer.clock.waits.wait())
        assert (await peer.client.cancel_task(CancelTaskRequest(id=first.task.id))).status.state == CANCELED
        assert states([each async for each in told])[-1] == CANCELED


async def test_a_task_that_is_over_is_not_cancelled(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-complete-task")
        with pytest.raises(TaskNotCancelableError):
            await peer.client.cancel_task(CancelTaskRequest(id=task.id))


async def test_of_the_history_comes_as_much_as_is_wanted(binding: str) -> None:
    async with kit(binding) as peer:
        asked = await peer.task("tck-input-required")
        done = await peer.task("tck-complete-task", task_id=asked.id, configuration={"history_length": 0})
        assert (done.status.state, list(done.history)) == (COMPLETED, [])
        whole = (await peer.client.get_task(GetTaskRequest(id=asked.id))).history
        assert len(whole) == 3
        assert [message.parts[0].text for message in whole] == ["Hello", "What else do you want to say?", "Hello"]
        assert (await peer.client.get_task(GetTaskRequest(id=asked.id, history_length=1))).history == whole[-1:]
        assert (await peer.client.get_task(GetTaskRequest(id=asked.id, history_length=10))).history == whole
        assert not (await peer.client.get_task(GetTaskRequest(id=asked.id, history_length=0))).history


async def test_tasks_are_listed_page_by_page_the_newest_first(binding: str) -> None:
    async with kit(binding) as peer:
        names = ("tck-complete-task", "tck-artifact-text", "tck-artifact-data")
        made = [(await peer.task(name, context_id="tck-test-context")).id for name in names]
        await peer.task("tck-complete-task", context_id="tck-other-context")
        first = await peer.client.list_tasks(ListTasksRequest(context_id="tck-test-context", page_size=2))
        rest = ListTasksRequest(context_id="tck-test-context", page_size=2, page_token=first.next_page_token)
        last = await peer.client.list_tasks(rest)
        assert (first.total_size, first.page_size, last.next_page_token) == (3, 2, "")
        assert [task.id for task in (*first.tasks, *last.tasks)] == made[::-1]
        assert not any(task.artifacts for task in (*first.tasks, *last.tasks))
        whole = await peer.client.list_tasks(ListTasksRequest(context_id="tck-test-context", include_artifacts=True))
        assert all(task.artifacts for task in whole.tasks)
        stamps = [task.status.timestamp.ToNanoseconds() for task in whole.tasks]
        assert stamps == sorted(stamps, reverse=True)


async def test_tasks_are_listed_by_how_they_stand(binding: str) -> None:
    async with kit(binding) as peer:
        await peer.task("tck-complete-task", context_id="tck-test-context")
        asked = await peer.task("tck-input-required", context_id="tck-test-context")
        listed = await peer.client.list_tasks(ListTasksRequest(status=INPUT_REQUIRED))
        assert [task.id for task in listed.tasks] == [asked.id]
        nothing = await peer.client.list_tasks(ListTasksRequest(context_id="tck-nobodys-context"))
        assert (list(nothing.tasks), nothing.total_size, nothing.next_page_token) == ([], 0, "")


async def test_a_task_that_is_over_cannot_be_followed(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-complete-task")
        with pytest.raises(UnsupportedOperationError):
            async with peer.subscribed(task.id) as told:
                await anext(told)


async def test_a_task_that_waits_is_followed_to_its_end_by_all_readers_alike(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-input-required")
        async with peer.subscribed(task.id) as one, peer.subscribed(task.id) as other:
            begun = [await soon(anext(told)) for told in (one, other)]
            assert [each.task.status.state for each in begun] == [INPUT_REQUIRED] * 2
            await peer.task("tck-complete-task", task_id=task.id)
            left, right = await soon(asyncio.gather(*(_rest(told) for told in (one, other))))
        assert begun[0] == begun[1]
        assert left == right
        assert states(left)[-1] == COMPLETED


async def test_a_reader_who_leaves_takes_nothing_from_the_others(binding: str) -> None:
    async with kit(binding) as peer:
        task = await peer.task("tck-input-required")
        async with peer.subscribed(task.id) as told:
            async with peer.subscribed(task.id) as gone:
                await soon(anext(gone))
            await soon(anext(told))
            await peer.task("tck-complete-task", task_id=task.id)
            assert states(await soon(_rest(told)))[-1] == COMPLETED


async def _rest(told: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    return [each async for each in told]
