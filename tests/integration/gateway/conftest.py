"""Runners for the gateway's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_play import runners
from serve_play import Process

from turnwise import Runner, SqlSessionStore


@pytest.fixture
def make_runner(tmp_path: Path) -> Iterator[Callable[..., Runner]]:
    """Makes runners over one file, each with a connection of its own, and closes them."""
    with runners(store=lambda: SqlSessionStore(f"sqlite:///{tmp_path}/s.db")) as make:
        yield make


@pytest.fixture
def serve() -> Iterator[Callable[..., Process]]:
    """Starts `turnwise serve` in a folder, and kills what is left of it after the test."""
    running: list[Process] = []

    def begin(folder: Path, *options: str) -> Process:
        running.append(Process(folder, *options))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
