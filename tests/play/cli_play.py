"""How the command line's tests run it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

@agent(patterns=["fail"])
def failing():
    raise ValueError("as asked")
"""
CONFIGURATION = (
    "app: test\nroot: desk\nagents: ['cli_agents:desk', 'cli_agents:slow', 'cli_agents:stubborn', 'cli_agents:failing']\n"
)


def turnwise(*arguments: str, cwd: Path, stdin: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, input=data, capture_output=True, timeout=60, check=False, env=ENVIRONMENT | environment
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


Terminal = Callable[..., Any]


def messages(*lines: dict[str, str]) -> str:
    return "".join(json.dumps({"user": "ann", "session": "s", **line}) + "\n" for line in lines)
