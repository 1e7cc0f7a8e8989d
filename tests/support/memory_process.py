"""A process that answers one message and dies at a commit: `python -m memory_process URL COMMITS WHEN`.

It kills itself with SIGKILL `before` or `after` its commit number COMMITS, and prints `done` if it made fewer. 0 never dies.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import event
from sqlalchemy.engine import Engine

from turnwise import AgentContext, ProcessConfig, Runner, SqlSessionStore, agent
from turnwise.facts.memory import MemoryConfig

FOLDER = Path(__file__).resolve().parent
USER, SESSION, MESSAGE = "ada", "s", "m"
TEXTS = ["10412", "before the step", "in the step", "last"]
"""What the message and its agent remember."""


def notes() -> Any:
    async def work(context: AgentContext) -> str:
        return (await context.memory.remember("in the step")).id

    @agent(name="notes")
    async def answers(message: str, context: AgentContext) -> str:
        await context.memory.remember("before the step")
        await context.step("work", lambda: work(context))
        await context.memory.recall("step")
        await context.memory.remember("last")
        return "I have noted it."

    return answers


class Dying:
    """Kills this process at a commit: before it, or at the first statement after it."""

    def __init__(self, commits: int, when: str) -> None:
        self._left, self._when = commits, when
        event.listen(Engine, "connect", self._watch)

    def _watch(self, connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(self._run)
        else:
            connection.cursor_factory = type("Cursor", (psycopg.Cursor,), {"execute": self._executing()})
            connection.commit = partial(self._commit, connection.commit)

    def _executing(self) -> Callable[..., Any]:
        def execute(cursor: Any, *arguments: Any, **options: Any) -> Any:
            self._run("")
            return psycopg.Cursor.execute(cursor, *arguments, **options)

        return execute  # a function, not a bound method: a cursor is its first argument

    def _commit(self, commit: Callable[[], None]) -> None:
        self._run("COMMIT")
        commit()

    def _run(self, statement: str) -> None:
        is_over = self._left == 0 and self._when == "after"
        if statement == "COMMIT":
            self._left -= 1
        if is_over or (self._left == 0 and self._when == "before"):
            os.kill(os.getpid(), signal.SIGKILL)


def runner_at(url: str) -> Runner:
    process = ProcessConfig(lease_seconds=0.5)
    return Runner(notes(), app="app", store=SqlSessionStore(url), process=process, memory=MemoryConfig(entities="long"))


async def start(url: str, commits: int, when: str) -> str:
    """Runs such a process to its end and returns what it printed."""
    path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "memory_process",
        url,
        str(commits),
        when,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    printed, _ = await process.communicate()
    assert process.returncode in (0, -signal.SIGKILL)
    return printed.decode().strip()


async def main(url: str, commits: str, when: str) -> None:
    store = SqlSessionStore(url)
    await store.maintenance.check_writable()
    await store.close()
    Dying(int(commits), when)
    runner = runner_at(url)
    invocation = await runner.start("Where is 10412?", user=USER, session=SESSION, message_id=MESSAGE)
    await invocation.result()
    print("done", flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
