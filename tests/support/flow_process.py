"""A process of its own that has the ten tasks done: `python -m flow_process FOLDER`. It prints the answer.

Whatever a task does is written into a file when it is done, whoever did it.
"""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

from flow_play import ten_tasks
from runner_play import direct

from turnwise import Limits, RunConfig, Runner, SqlSessionStore
from turnwise.facts.limits import ProcessConfig

FOLDER = Path(__file__).resolve().parent
SESSION, MESSAGE = "s", "m"


class Trace(Counter[str]):
    """Counts what ran, and writes every count down."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._file = os.open(trace_of(folder), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __setitem__(self, task: str, count: int) -> None:
        super().__setitem__(task, count)
        os.write(self._file, f"{task}\n".encode())


def trace_of(folder: Path) -> Path:
    return folder / "trace"


def ran(folder: Path) -> list[str]:
    """What ran to its end, in all processes, in order."""
    path = trace_of(folder)
    return path.read_text().split() if path.exists() else []


def store_in(folder: Path) -> SqlSessionStore:
    return SqlSessionStore(f"sqlite:///{folder}/s.db")


async def start(folder: Path) -> asyncio.subprocess.Process:
    """Begins such a process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "flow_process", str(folder), stdout=pipe, stderr=pipe, env=environment
    )


async def main(folder: Path) -> None:
    config = RunConfig(limits=Limits(attempts=20))
    runner = Runner(
        ten_tasks(Trace(folder), side_by_side=2),
        app="app",
        store=store_in(folder),
        config=config,
        process=ProcessConfig(lease_seconds=0.3),
    )
    invocation = await runner.start("go", user="ada", session=SESSION, context=direct("ten"), message_id=MESSAGE)
    print((await invocation.result()).text.splitlines()[-1], flush=True)
    await runner.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
