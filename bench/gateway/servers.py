"""The two servers, each in a separate process: the gateway as `turnwise serve` runs it, and a bare FastAPI route."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0
_COMMAND = [sys.executable, "-c", "from turnwise.cli.app import main; main()"]

_CONFIGURATION = """
app: bench
root: bench_agents:desk
store: sqlite:///gateway.db
process: {concurrency: 2000}
gateway:
  auth: {keys: true}
  limits: {requests: 100000000, bytes: 100000000000, runs: 100000}
"""
_AGENTS = """
import asyncio
from turnwise import agent

go = asyncio.Event()


@agent(description="Answers at once, or when it is told to go.")
async def desk(message: str) -> str:
    if message == "go":
        go.set()
    elif message == "wait":
        await go.wait()
    return f"desk: {message}"
"""


class Server(NamedTuple):
    """port: on this machine. key: the API key to send; empty = none is required."""

    port: int
    process: psutil.Process
    key: str = ""

    @property
    def memory(self) -> float:
        """Its resident memory in MB."""
        return float(self.process.memory_info().rss) / 1e6


@contextmanager
def gateway(folder: Path) -> Iterator[Server]:
    """`turnwise serve` with one function agent, API keys required, on a SQLite file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "turnwise.yaml").write_text(_CONFIGURATION)
    (folder / "bench_agents.py").write_text(_AGENTS)
    create = [*_COMMAND, "keys", "create", "bench", "--user", "bench", "--json"]
    made = subprocess.run(create, cwd=folder, check=True, capture_output=True, text=True)
    with _running([*_COMMAND, "serve", "--port"], folder) as (port, process):
        yield Server(port, process, json.loads(made.stdout)["key"])


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """`turnwise serve` of the project in that folder, which needs no key."""
    with _running([*_COMMAND, "serve", "--port"], folder) as (port, process):
        yield Server(port, process)


@contextmanager
def bare(folder: Path) -> Iterator[Server]:
    """A FastAPI route that writes two rows in two commits."""
    folder.mkdir(parents=True, exist_ok=True)
    with _running([sys.executable, str(Path(__file__).with_name("bare_route.py")), str(folder / "bare.db")], folder) as found:
        yield Server(*found)


@contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Starts the command with a free port as its last argument, and waits until the port accepts connections."""
    port = _free_port()
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([*command, str(port)], cwd=folder, stdout=log, stderr=log, env={**os.environ})
    try:
        _wait_for(port, process, folder / "server.log")
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_until_ready(port: int) -> None:
    """Waits until the server has prepared its policy."""
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/ready", timeout=5).close()
            return
        except OSError:
            time.sleep(0.02)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"The server does not start:\n{log.read_text(errors='replace')[-3000:]}") from None
            time.sleep(0.05)
