"""turnwise serve and turnwise worker with --engine, as processes beside a real Restate server."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_play import ended, heard, started, turnwise
from restate_play import RestateServer, free_port, restate_server, skip_without_restate
from serve_play import MESSAGES, Process, project


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestateServer]:
    skip_without_restate()
    with restate_server(tmp_path_factory.mktemp("restate")) as server:
        yield server


def test_a_gateway_accepts_and_a_worker_answers(server: RestateServer, tmp_path: Path) -> None:
    folder, listen = project(tmp_path), f"127.0.0.1:{free_port()}"
    environment = {"TURNWISE_ENGINE": server.address, "TURNWISE_ENGINE_KEY": server.public_key}
    worker = started("worker", "--listen", listen, cwd=folder, environment=environment)
    gateway = None
    try:
        assert listen in heard(worker, "worker of test")
        gateway = Process(folder, "--engine", server.address)
        with gateway.client() as client:
            answer = client.post(MESSAGES, json={"content": "Hello", "id": "m1"})
            assert answer.status_code == 200, answer.text
            assert answer.json()["text"] == "You said Hello"
        assert "desk: from the inbox" in heard(worker, "attempt 1")
        # The engine's SDK wants to take this signal from the process.
        worker.send_signal(signal.SIGTERM)
        code, said = ended(worker)
        assert code == 0, said
        gateway.told_to_stop()
        assert gateway.ended()[0] == 0
    finally:
        worker.kill()
        worker.communicate()
        if gateway is not None:
            gateway.kill()


def test_a_session_says_why_it_waits(server: RestateServer, tmp_path: Path) -> None:
    """A gateway accepted the message; the engine is away, then it knows no worker, then nobody asks about it."""
    folder, away = project(tmp_path), f"restate://127.0.0.1:{free_port()}?admin={free_port()}"
    file = folder / "turnwise.yaml"
    file.write_text(file.read_text("utf-8").replace("app: test", "app: alone"), "utf-8")  # workers of others registered
    gateway = Process(folder, "--engine", server.address)
    try:
        with gateway.client() as client:
            sent = client.post(f"{MESSAGES}?wait=false", json={"content": "Hello", "id": "m1"})
            assert sent.status_code == 202, sent.text
    finally:
        gateway.kill()
    shown = turnwise("sessions", "show", "s", "--engine", away, cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "cannot be reached" in shown.stdout
    assert "No process that answers is alive." in shown.stdout
    for engine, says in (
        (server.address, "No worker of app 'alone' has registered"),
        (None, "No process that answers is alive"),
    ):
        options = ("--engine", engine) if engine else ()
        lines = turnwise("sessions", "show", "s", *options, "--json", cwd=folder).stdout.splitlines()
        assert says in json.loads(lines[-1])["pending"][0]["detail"]


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_nobody_at_the_address_is_an_error(command: str, tmp_path: Path) -> None:
    skip_without_restate()
    said = turnwise(command, "--engine", f"restate://127.0.0.1:{free_port()}?admin={free_port()}", cwd=project(tmp_path))
    assert said.returncode == 2, said.stderr
    assert "config.engine" in said.stderr
    assert "cannot be reached" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_look_needs_no_engine(tmp_path: Path) -> None:
    said = turnwise("worker", "--once", "--engine", "restate://engine", cwd=project(tmp_path))
    assert said.returncode == 2
    assert "looks for messages itself" in said.stderr
