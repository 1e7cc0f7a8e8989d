"""A process that answers in one session: `python -m lease_process URL FOLDER NAME SECONDS [MESSAGE]`. It prints its answers.

It recovers what others left, until its input ends. The agent writes down in `FOLDER/tried` which process tried a message. In
the process `one` it then does what the message says; other processes answer at once.
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from turnwise import AgentContext, ProcessConfig, Runner, SqlSessionStore, agent

FOLDER = Path(__file__).resolve().parent
HOLD_SECONDS = 10.0
USER, SESSION, MESSAGE = "ada", "s", "m"


def clerk(folder: Path, name: str) -> Any:
    @agent(name="clerk")
    async def answers(message: str, context: AgentContext) -> str:
        with (folder / "tried").open("a") as tried:
            tried.write(f"{name}\n")
        if name == "one" and message == "hold the loop":
            time.sleep(HOLD_SECONDS)  # noqa: ASYNC251 - an agent that blocks
        elif name == "one" and message == "hold a thread":
            await asyncio.to_thread(time.sleep, HOLD_SECONDS)
        elif name == "one":
            while not (folder / "go").exists():  # noqa: ASYNC110 - the test is another process
                await asyncio.sleep(0.05)
        return f"answer of {name}"

    return answers


def tried(folder: Path) -> list[str]:
    path = folder / "tried"
    return path.read_text().split() if path.exists() else []


async def start(url: str, folder: Path, name: str, seconds: float, message: str = "") -> asyncio.subprocess.Process:
    """Starts such a process. It is ready after its first line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])}
    pipe = asyncio.subprocess.PIPE
    arguments = [url, str(folder), name, str(seconds), *([message] if message else [])]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lease_process", *arguments, stdin=pipe, stdout=pipe, env=environment
    )


async def main(url: str, folder: str, name: str, seconds: str, message: str = "") -> None:
    store, process = SqlSessionStore(url), ProcessConfig(lease_seconds=float(seconds))
    runner = Runner(clerk(Path(folder), name), app="app", store=store, process=process)
    working = asyncio.create_task(runner.work())
    print("ready", flush=True)
    if message:
        invocation = await runner.start(message, user=USER, session=SESSION, message_id=MESSAGE)
        print((await invocation.result()).text, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    working.cancel()
    await runner.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
