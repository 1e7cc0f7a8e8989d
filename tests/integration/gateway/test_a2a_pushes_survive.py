"""Notifications when a process is killed, or stopped, in the middle of an answer: another one goes on."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from push_play import receiving
from serve_play import Process, project

PRIVATE = "gateway: {protocols: {a2a: {private_pushes: true}}, grace_seconds: 0}\n"
Serve = Callable[..., Process]


def ask(process: Process, url: str) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "slow"}]}
    wanted = {"returnImmediately": True, "taskPushNotificationConfig": {"url": url}}
    params: dict[str, Any] = {"message": message, "configuration": wanted}
    call = {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": params}
    with process.client(headers={"A2A-Version": "1.0"}) as client:
        assert "task" in client.post("/a2a", json=call).json()["result"]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
async def test_what_one_process_began_to_tell_another_tells_to_its_end(
    serve: Serve, tmp_path: Path, by: signal.Signals
) -> None:
    """E7: what the dead one's attempt said is taken back, the task comes as it is then."""
    folder = project(tmp_path, PRIVATE)
    (folder / "hold").touch()
    async with receiving() as receiver:
        first = await asyncio.to_thread(serve, folder)
        await asyncio.to_thread(ask, first, receiver.url())
        await receiver.until(3)
        assert receiver.told == ["TASK_STATE_WORKING", "one", "two"]
        first.told_to_stop(by)
        await asyncio.to_thread(first.ended)
        assert receiver.told[:3] == ["TASK_STATE_WORKING", "one", "two"]
        (folder / "hold").unlink()
        await asyncio.to_thread(serve, folder)
        told = await receiver.until_over()
    assert told[-1] == "TASK_STATE_COMPLETED"
    assert told.index("three") > told.index("two")
    kinds = [got.kind for got in receiver.got]
    assert "task" in kinds, "what the first attempt said does not count any more"
    assert told[kinds.index("task") :][-4:] == ["one", "two", "three", "TASK_STATE_COMPLETED"]
