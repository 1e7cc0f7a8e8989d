"""Holds the tooling: what ./dev says when it cannot work, what the pins cover, and that tests stay on this machine."""

import os
import re
import shutil
import socket
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of ./dev in a folder with a space in its name, without a .venv."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("dev", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def dev(checkout: Path, *arguments: str, python: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ./dev from another folder; `python` is the text of a shell script that plays python3, the only one there is."""
    programs = checkout.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("sh", "dirname", "cat", "cksum", "rm"):
        (programs / name).symlink_to(shutil.which(name) or name)
    if python is not None:
        (programs / "python3").write_text(f"#!/bin/sh\n{python}\n")
        (programs / "python3").chmod(0o755)
    environment = {"PATH": str(programs), "HOME": os.environ.get("HOME", "/")}
    command = [str(checkout / "dev"), *arguments]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",)])
def test_dev_helps(checkout: Path, arguments: tuple[str, ...]) -> None:
    result = dev(checkout, *arguments)
    assert result.returncode == 0
    assert [verb for verb in ("demo", "test", "check", "encoder", "bench", "help") if verb not in result.stdout] == []


def test_dev_names_a_verb_it_does_not_know(checkout: Path) -> None:
    result = dev(checkout, "tset")
    assert result.returncode == 1
    assert "no verb 'tset'" in result.stderr


def test_dev_says_that_python_is_too_old(checkout: Path) -> None:
    result = dev(checkout, "test", python='[ "$1" = --version ] && echo Python 3.9.2 && exit; exit 1')
    assert result.returncode == 1
    assert "needs Python 3.11 or newer; found: Python 3.9.2" in result.stderr
    assert not (checkout / ".venv").exists()


def test_dev_says_that_there_is_no_python(checkout: Path) -> None:
    result = dev(checkout, "test")
    assert result.returncode == 1
    assert "found: no working python3" in result.stderr


def test_dev_says_that_venv_is_missing(checkout: Path) -> None:
    result = dev(checkout, "demo", python='case "$2" in *ensurepip*) exit 1;; esac')
    assert result.returncode == 1
    assert "venv module is missing" in result.stderr
    assert "apt install python3-venv" in result.stderr


def test_dev_encoder_needs_the_model(checkout: Path) -> None:
    result = dev(checkout, "encoder")
    assert result.returncode == 1
    assert "name the directory that holds the fitted model" in result.stderr
    assert not (checkout / ".venv").exists()


def canonical(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_every_dependency_is_pinned_without_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin)] == []
    assert pins == sorted(pins)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [requirement for group in project["dependency-groups"].values() for requirement in group]
    wanted += [requirement for extra in project["project"]["optional-dependencies"].values() for requirement in extra]
    # What adapters wrap cannot be installed side by side: each has its pins beside its test.
    for path in (ROOT / "tests" / "adapters").glob("*.txt"):
        pins += path.read_text("utf-8").splitlines()
    assert {canonical(requirement) for requirement in wanted} - {pin.partition("==")[0] for pin in pins} == set()


def test_the_network_is_off() -> None:
    with socket.socket() as client, pytest.raises(RuntimeError, match="reached for the network"):
        client.connect(("192.0.2.1", 80))


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), timeout=5) as client:
        assert client.getpeername() == server.getsockname()


@pytest.mark.xfail(strict=True, raises=ZeroDivisionError, reason="shows that the coroutine runs")
async def test_coroutine_tests_are_awaited(tmp_path: Path) -> None:
    assert tmp_path
    raise ZeroDivisionError
