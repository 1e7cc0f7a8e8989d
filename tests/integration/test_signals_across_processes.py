"""Signals between real processes that share nothing but a database."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Watch
from turnwise.stores.sql.postgres_signals import PostgresSignals
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.signals_suite import PATIENCE, fresh_key, heard, piece

COUNT = 200

_OTHER = """
import asyncio, sys
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.postgres_signals import PostgresSignals
from turnwise.testing.signals_suite import heard, piece

async def main(task, url, *names):
    signals, key = PostgresSignals(url), SessionKey(*names)
    if task == "answer":
        # Nobody watches here: it goes by what the other process announces.
        signals.changed(key)
        assert sys.stdin.readline() == "go\\n"
        for number in range(200):
            signals.partial(key, piece("word ", 5 * number))
            await asyncio.sleep(0.001)
        signals.changed(key)
        if sys.stdin.readline() == "die\\n":
            import os
            os._exit(1)
    else:
        with signals.watch(key) as watch:
            print("watching", flush=True)
            text = ""
            while not text.endswith("."):
                item = await heard(watch)
                text += item.text if item else ""
            print(len(text), flush=True)
    await signals.close()

asyncio.run(main(*sys.argv[1:]))
"""


class Other:
    """Another process, told what to do line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self.process.stdout.readline()).decode().strip()

    async def end(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def other(task: str, url: str, key: SessionKey) -> AsyncIterator[Other]:
    command = [sys.executable, "-W", "error", "-c", _OTHER, task, url, *key]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Other(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def whole_answer(watch: Watch) -> str:
    """The text up to the next change, each event where it says it is."""
    text = ""
    while (item := await heard(watch)) is not None:
        assert item.offset == len(text)
        text += item.text
    return text


async def test_an_answer_is_read_as_it_grows_in_another_process() -> None:
    """E7: in order, without a gap, and before the news that it is stored."""
    url, key = new_postgres_database(), fresh_key()
    signals = PostgresSignals(url)
    with signals.watch(key) as watch:
        async with other("answer", url, key) as writer:
            assert await heard(watch) is None, "it changed something, and knows now that somebody watches"
            writer.tell("go")
            assert await whole_answer(watch) == "word " * COUNT
            writer.tell("end")
            assert await writer.end() == 0
        async with other("answer", url, key) as writer:
            assert await heard(watch) is None
            writer.tell("go")
            assert await whole_answer(watch) == "word " * COUNT
            writer.tell("die")
            assert await writer.end() == 1
    await signals.close()


async def test_several_processes_read_one_answer() -> None:
    """E7"""
    url, key = new_postgres_database(), fresh_key()
    signals = PostgresSignals(url)
    async with other("read", url, key) as first, other("read", url, key) as second:
        assert [await first.line(), await second.line()] == ["watching", "watching"]
        ends = asyncio.gather(first.line(), second.line())
        while not ends.done():
            signals.changed(key)
            signals.partial(key, piece("."))
            await asyncio.sleep(0.02)
        assert all(int(length) >= 1 for length in await ends)
        assert [await first.end(), await second.end()] == [0, 0]
    await signals.close()
