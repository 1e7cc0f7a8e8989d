"""How the command line's tests run it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warm_cli import warm_folder

COMMAND = [sys.executable, "-c", "from turnwise.cli.app import main; main()"]
ENVIRONMENT = {
    **{
        name: value
        for name, value in os.environ.items()
        if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TURNWISE_DEBUG"}
    },
    "TERM": "xterm",
}
AGENTS = """
import asyncio
from pathlib import Path
from turnwise import AgentContext, agent

@agent
def desk(message):
    return f"You said [bold]{message}[/bold] \\x1b[31mred\\x1b]0;title\\x07"

@agent(patterns=["slow"])
async def slow(context: AgentContext):
    async with context.stream() as out:
        for number in range(200):
            await out.write(f"word{number} ")
            await asyncio.sleep(0.1)

@agent(patterns=["stubborn"])
async def stubborn():
    print("STARTED", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@agent(patterns=["parcel"])
async def parcels(context: AgentContext):
    await context.say("I look for it.")
    await context.step("charge", charge)
    if not Path("seen").exists():
        Path("seen").touch()
        await asyncio.sleep(60)
    while Path("hold").exists():
        await asyncio.sleep(0.05)
    return "Here it is."

def charge():
    with open("charged", "a") as file:
        file.write("once ")
    return 12

@agent(patterns=["fail"])
def failing():
    raise ValueError("as asked")
"""
CONFIGURATION = (
    "app: test\nroot: desk\n"
    "agents: ['cli_agents:desk', 'cli_agents:slow', 'cli_agents:stubborn', 'cli_agents:failing', 'cli_agents:parcels']\n"
)
IMPATIENT = "process: {lease_seconds: 1, recovery_seconds: 0.1}\n"
"""What makes a configuration's processes take up at once what others left."""


def turnwise(
    *arguments: str, cwd: Path, stdin: str | bytes = "", cold: bool = False, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end; `cold` in a Python of its own, as whatever is started to be spoken with is. The
    environment is that of the tests, with these variables."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    command = COMMAND if cold else [str(warm_folder() / "turnwise")]
    done = subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT | (environment or {}),
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def written(folder: Path, configuration: str, **modules: str) -> Path:
    """A project in that folder: its configuration, and modules of these names."""
    (folder / "turnwise.yaml").write_text(configuration)
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    return folder


def shows(terminal: Any, *each: Any) -> None:
    """Returns when all that has been shown at it, one after the other."""
    for awaited in each:
        terminal.expect(awaited)


def as_from_a_shell() -> None:
    # What runs in the background of a script is begun deaf to Ctrl-C, and whatever it starts is so too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts the command; its standard input stays open, its errors are among its output. The environment is that of the
    tests, with these variables."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT | (environment or {}),
        preexec_fn=as_from_a_shell,  # noqa: PLW1509  no other thread of the tests holds a lock that it needs
        text=True,
        encoding="utf-8",
    )


def heard(process: subprocess.Popen[str], words: str) -> str:
    """The next line of its output with these words in it."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        if words in line:
            return line
        said.append(line)
    raise AssertionError(f"{words!r} was never said: {said}")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it still had to say."""
    rest, _ = process.communicate(timeout=30)
    return process.returncode, rest


Terminal = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]


def messages(*lines: dict[str, str]) -> str:
    return "".join(json.dumps({"user": "ann", "session": "s", **line}) + "\n" for line in lines)
