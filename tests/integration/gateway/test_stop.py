"""Processes that are told to stop: nobody loses an answer, and nobody waits for one that does not come."""

import asyncio
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_play import served
from runner_play import Gate, Holds, soon
from serve_play import MESSAGES, STREAM, Process, project, read_until

from turnwise import Runner
from turnwise.testing.postgres import new_postgres_database

Serve = Callable[..., Process]
NOW = "gateway: {grace_seconds: 0}\n"
LATER = "gateway: {grace_seconds: 60}\n"


class InTheMiddle:
    """A message whose answer waits in the middle of it, and a client that waits for it."""

    def __init__(self, process: Process, message: str = "slow") -> None:
        self.process, self.message = process, message
        self.answers: list[httpx.Response] = []
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        with self.process.client() as client:
            self.answers.append(client.post(MESSAGES, json={"content": self.message, "id": "m1"}))

    def answer(self) -> httpx.Response:
        """What the client gets in the end."""
        self._thread.join()
        return self.answers[0]


def following(client: httpx.Client, after: str = "") -> Any:
    """The stream of the message's events after that one."""
    return client.stream("GET", f"{MESSAGES}/m1", headers={**STREAM, **({"Last-Event-ID": after} if after else {})})


def is_there(process: Process) -> None:
    """Returns when the message is stored."""
    with process.client() as client:
        while client.get(f"{MESSAGES}/m1", params={"wait": False}).status_code == 404:
            pass


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    """What names a database that several processes can use, in a configuration."""
    return "sqlite:///s.db" if request.param == "sqlite" else new_postgres_database()


def test_an_answer_goes_on_in_another_process(tmp_path: Path, serve: Serve, store: str) -> None:
    """E7: whoever reads it reads on there, and nothing of it is lost or comes twice."""
    folder = project(tmp_path, f"store: '{store}'\n{NOW}")
    (folder / "hold").touch()
    first, second = serve(folder), serve(folder)
    waiting = InTheMiddle(first)
    is_there(first)
    with first.client() as client, following(client) as stream:
        lines = stream.iter_lines()
        begun = read_until(lines, '"two"')
        first.told_to_stop()
        ended = read_until(lines, "event: closing")
        assert list(lines) == []
    assert json.loads(ended[-1][2])["code"] == "request.closing"
    refused = waiting.answer()
    assert (refused.status_code, refused.json()["code"]) == (503, "request.closing")
    assert int(refused.headers["retry-after"]) >= 1
    code, said = first.ended()
    assert code == 0
    assert "stopping: 1 answer is being given, for 0 s at most" in said
    assert "stopped with 1 unfinished; another process takes it up in 1 s" in said

    second.hears("Attempt 2 of an answer whose process stopped")
    (folder / "hold").unlink()
    seen = [each for each in begun + ended if each[0] == "event"]
    with second.client() as client:
        with following(client, seen[-1][1]) as stream:
            rest = read_until(stream.iter_lines(), "event: answer")
        again = client.post(MESSAGES, json={"content": "slow", "id": "m1"}).json()
        log = client.get("/api/v1/sessions/s/events", params={"hidden": True}).json()["events"]
    numbers = [int(id_) for event, id_, _ in seen + rest if event == "event"]
    assert numbers == list(range(1, len(numbers) + 1))
    answer = json.loads(rest[-1][2])
    assert (answer["text"], answer["end"]["reason"]) == ("one\ntwo\nthree", "completed")
    assert again == answer
    assert [event["sequence"] for event in log] == numbers
    second.told_to_stop()
    assert second.ended()[0] == 0


def test_an_answer_may_come_to_its_end_first(tmp_path: Path, serve: Serve) -> None:
    folder = project(tmp_path, LATER)
    (folder / "hold").touch()
    process = serve(folder)
    waiting = InTheMiddle(process)
    is_there(process)
    with process.client() as client:
        process.told_to_stop()
        process.hears("stopping: 1 answer is being given, for 60 s at most; Ctrl-C again exits at once")
        late = client.post("/api/v1/sessions/other/messages", json={"content": "hi"})
        assert (late.status_code, late.json()["code"]) == (503, "request.closing")
        assert late.headers["retry-after"]
        ready = client.get("/api/v1/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, "request.closing")
        assert client.get("/api/v1/health").status_code == 200
        assert client.get("/api/v1/sessions/s").status_code == 200
        (folder / "hold").unlink()
        assert waiting.answer().json()["text"] == "one\ntwo\nthree"
    assert process.ended()[0] == 0


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_one_that_has_nothing_to_do_leaves(tmp_path: Path, serve: Serve, asked: signal.Signals) -> None:
    process = serve(project(tmp_path, LATER))
    with process.client() as client:  # a connection that is kept, and says nothing
        assert client.post(MESSAGES, json={"content": "hi"}).json()["text"] == "You said hi"
        process.told_to_stop(asked)
        code, said = process.ended()
    assert code == 0
    assert "stopping" not in said


def test_a_second_signal_leaves_at_once(tmp_path: Path, serve: Serve) -> None:
    folder = project(tmp_path, LATER)
    (folder / "hold").touch()
    process = serve(folder)
    with process.client() as client:
        assert client.post(MESSAGES, params={"wait": False}, json={"content": "stubborn"}).status_code == 202
        process.told_to_stop(signal.SIGINT)
        process.hears("stopping: 1 answer is being given")
        process.told_to_stop(signal.SIGINT)
        assert process.ended()[0] == 130


async def test_what_another_process_answers_is_asked_for_there(make_runner: Callable[..., Runner]) -> None:
    """Whoever waits here for it is told so at once: it may take as long as it likes."""
    gate = Gate()
    first, looks = make_runner(gate.agent), Holds(make_runner(gate.agent).store, "events")
    answering = await first.start("one", user="local", session="s", message_id="m1")
    await gate.began.wait()
    second = make_runner(gate.agent, store=looks)
    async with served(second) as client:
        waiting = asyncio.create_task(client.get(f"{MESSAGES}/m1", params={"wait": True}))
        await soon(looks.reached.wait())
        looks.go.set()
        client.front.closing.set()
        await second.idle(last=True)
        told = await soon(waiting)
        assert (told.status_code, told.json()["code"]) == (503, "request.closing")
    gate.go.set()
    assert (await answering.result()).text == "answer to one"
