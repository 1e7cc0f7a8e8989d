"""The library and its commands without the extra `serve`: nothing of the server is imported by them."""

import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.facts.hints import install_command

SERVER = (
    *("fastapi", "starlette", "uvicorn", "httptools", "uvloop", "websockets", "jwt", "cryptography", "prometheus_client"),
    *("ag_ui", "fastapi_offline"),
)
WITHOUT = f"""
import sys
sys.modules.update(dict.fromkeys({SERVER}))  # as if they were not installed
from turnwise.cli.app import main
sys.argv = ["turnwise", *sys.argv[1:]]
main()
"""


def turnwise(folder: Path, *arguments: str, says: str = "") -> "subprocess.CompletedProcess[str]":
    """The command, in that folder, on a machine without the server's libraries."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=folder, input=says, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = turnwise(tmp_path, "init", "shop")
    assert made.returncode == 0, made.stderr
    return tmp_path / "shop"


@pytest.mark.parametrize("arguments", [("--help",), ("check",), ("lint",), ("select", "hello"), ("sessions", "list")])
def test_a_command_does_without_the_server(project: Path, arguments: tuple[str, ...]) -> None:
    told = turnwise(project, *arguments)
    assert told.returncode == 0, told.stderr
    assert "Traceback" not in told.stderr


def test_a_message_is_answered(project: Path) -> None:
    told = turnwise(project, "chat", says="hello\n")
    assert (told.returncode, "Traceback" in told.stderr) == (0, False), told.stderr


@pytest.mark.parametrize("command", ["serve", "mcp", "a2a-kit"])
def test_what_serves_names_the_extra(project: Path, command: str) -> None:
    told = turnwise(project, command)
    assert told.returncode != 0
    assert install_command(["serve"]) in told.stderr
    assert "Traceback" not in told.stderr


def test_tokens_name_the_extra(project: Path) -> None:
    config = project / "turnwise.yaml"
    config.write_text(
        config.read_text("utf-8") + '\ngateway: {auth: {jwt: {key: "' + "k" * 40 + '", algorithms: [HS256]}}}\n', "utf-8"
    )
    told = turnwise(project, "check")
    assert told.returncode != 0
    assert install_command(["serve"]) in told.stdout + told.stderr
    assert "Traceback" not in told.stderr
