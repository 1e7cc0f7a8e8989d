"""A process that follows definitions while it answers messages: `python -m following_process FOLDER TEXT…`.

It sends the texts in turn. When another agent answers one of them, it prints a line of JSON with the text, the agent, the time.
At the end of its input, it prints how its messages ended.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from turnwise.assemble import App, load_app

FOLDER = Path(__file__).resolve().parent


class Follower:
    """Such a process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._chosen: dict[str, str] = {}

    @classmethod
    async def start(cls, folder: Path, texts: Sequence[str]) -> "Follower":
        """Starts one, and waits until it has answered each text."""
        path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "following_process", str(folder), *texts]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, env={**os.environ, "PYTHONPATH": path}
        )
        self = cls(process)
        while len(self._chosen) < len(texts):
            await self._read()
        return self

    async def decides(self, text: str, agent: str) -> float:
        """Waits until that agent answers the text. Returns the time of the decision; 0 if it did before."""
        at = 0.0
        while self._chosen.get(text) != agent:
            at = await self._read()
        return at

    async def stop(self) -> set[str]:
        """Returns how all its messages ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        while True:
            line = await self._line()
            if "ends" in line:
                await self._process.wait()
                return {*line["ends"]}

    async def _read(self) -> float:
        line = await self._line()
        self._chosen[line["text"]] = line["agent"]
        return float(line["at"])

    async def _line(self) -> dict[str, str]:
        assert self._process.stdout is not None
        found: dict[str, str] = json.loads(await self._process.stdout.readline())
        return found


async def talk(app: App, texts: Sequence[str], stopped: asyncio.Event) -> None:
    ends: Counter[str] = Counter()
    chosen: dict[str, str] = {}
    for number, text in enumerate(itertools.cycle(texts)):
        if stopped.is_set():
            break
        result = await (await app.runner.start(text, user=str(os.getpid()), session=f"s{number}")).result()
        ends[result.end.reason if result.end else "waiting"] += 1
        agent = result.selection.agent if result.selection else ""
        if chosen.get(text) != agent:
            chosen[text] = agent
            print(json.dumps({"text": text, "agent": agent, "at": time.time()}), flush=True)
        await asyncio.sleep(0.005)
    print(json.dumps({"ends": [*ends]}), flush=True)


async def main(folder: str, *texts: str) -> None:
    app = load_app(folder)
    await app.serve_definitions()
    following, stopped = asyncio.create_task(app.follow_definitions()), asyncio.Event()
    waiting = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    waiting.add_done_callback(lambda _: stopped.set())
    await talk(app, texts, stopped)
    following.cancel()
    await app.runner.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
