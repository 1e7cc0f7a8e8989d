"""Projects and terminals for the command line's tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from cli_play import AGENTS, COMMAND, CONFIGURATION, ENVIRONMENT, Start, as_from_a_shell, started, turnwise, written


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project that `init` writes."""
    assert turnwise("init", "shop", cwd=tmp_path).returncode == 0
    return tmp_path / "shop"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose agents are slow, stubborn, or fail."""
    return written(tmp_path, CONFIGURATION, cli_agents=AGENTS)


@pytest.fixture
def terminal() -> Any:
    """Runs the command at a terminal."""
    running: list[Any] = []

    def start(*arguments: str, cwd: Path, width: int = 160) -> Any:
        child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], *arguments],
            cwd=str(cwd),
            encoding="utf-8",
            timeout=30,
            dimensions=(50, width),
            env=ENVIRONMENT,
            preexec_fn=as_from_a_shell,
        )
        running.append(child)
        return child

    yield start
    for child in running:
        child.close(force=True)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command, and kills what is left of it after the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
        running.append(started(*arguments, cwd=cwd))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()
