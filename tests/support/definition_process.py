"""A process that changes definitions and dies at a commit: `python -m definition_process URL APP COMMITS WHEN`.

It kills itself with SIGKILL `before` or `after` its commit number COMMITS, and prints `done` if it made fewer.
"""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from memory_process import Dying

from turnwise.ports.definitions import AnyDefinition, Author, Definition, DefinitionKey, PolicyDefinition
from turnwise.stores.sql import SqlSessionStore

FOLDER = Path(__file__).resolve().parent
OLD: list[AnyDefinition] = [Definition(name="a", description="old"), PolicyDefinition(policy="default")]
NEW: list[AnyDefinition] = [Definition(name="a", description="new"), Definition(name="b"), PolicyDefinition(policy="staples")]


async def start(url: str, app: str, commits: int, when: str) -> str:
    """Runs such a process to its end and returns what it printed."""
    path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "definition_process", url, app, str(commits), when]
    environment = {**os.environ, "PYTHONPATH": path}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    printed, _ = await process.communicate()
    assert process.returncode in (0, -signal.SIGKILL)
    return printed.decode().strip()


async def main(url: str, app: str, commits: str, when: str) -> None:
    store = SqlSessionStore(url)
    await store.definitions.revision(app)
    await store.close()
    Dying(int(commits), when)
    store = SqlSessionStore(url)
    expected: dict[DefinitionKey, int] = {("agent", "a"): 1, ("policy", "main"): 1}
    await store.definitions.put(app, NEW, expected, Author("dying", datetime.now(UTC)))
    await store.definitions.revision(app)
    print("done", flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
