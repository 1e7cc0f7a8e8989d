"""Starting, killing and freezing workers, and leaving none behind."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from survival_play.records import Records
from survival_play.worker import Setting

_FOLDER = Path(__file__).resolve().parent.parent
CLOSE_SECONDS = 30.0


class ProcessGone(Exception):
    """The process died before it answered."""


class Process:
    """A running worker. `tell` asks it to do something, and gives what that gave."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name, self._process = name, process
        self._answers: dict[int, asyncio.Future[Any]] = {0: asyncio.get_running_loop().create_future()}
        self._listening = asyncio.create_task(self._listen())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    @property
    def is_ready(self) -> bool:
        """Whether it lives and answers messages."""
        return self.is_alive and self._answers[0].done()

    async def ready(self) -> None:
        """Returns when it answers messages."""
        await self._answers[0]

    async def tell(self, do: str, **options: Any) -> Any:
        """What that method of the worker gives. ProcessGone when it dies before, RuntimeError when it failed."""
        assert self._process.stdin is not None
        tag = max(self._answers) + 1
        answer = self._answers[tag] = asyncio.get_running_loop().create_future()
        if not self._listening.done():
            self._process.stdin.write(json.dumps({"tag": tag, "do": do, **options}).encode() + b"\n")
        else:
            answer.set_exception(ProcessGone(self.name))
        return await answer

    def signal(self, number: signal.Signals) -> float:
        """Sends it a signal, unless it is dead; gives the time."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)
        return time.time()

    async def gone(self) -> int:
        """Waits until it is dead; gives its exit code."""
        code = await self._process.wait()
        await self._listening
        assert self._process.stdin is not None
        self._process.stdin.close()
        return code

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            answer = self._answers[told["tag"]]
            if answer.done():
                continue
            if "error" in told:
                answer.set_exception(RuntimeError(f"{self.name}: {told['error']}"))
            else:
                answer.set_result(told["gave"])
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ProcessGone(self.name))
                answer.exception()  # nobody may be waiting for it


class Crowd:
    """The workers of one store; use it as `async with crowd(setting) as workers`. `living` are the running ones."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.folder = Path(setting.folder)
        self.records = Records(self.folder, "parent")
        self.living: list[Process] = []
        self.started = 0
        self._all: list[Process] = []

    async def start(self, count: int = 1) -> list[Process]:
        """Starts so many workers at once, and returns when they are ready."""
        started = [await self._start() for _ in range(count)]
        await asyncio.gather(*(process.ready() for process in started))
        return started

    async def _start(self) -> Process:
        self.started += 1
        setting = self.setting._replace(name=f"p{self.started}")
        complaints = (self.folder / f"{setting.name}.log").open("wb")
        with complaints:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "survival_play.worker", json.dumps(setting._asdict())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=complaints,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_FOLDER), *_given_path()])},
                # Not ended by the Ctrl-C that is meant for us; we end it.
                process_group=0,
            )
        worker = Process(setting.name, process)
        self._all.append(worker)
        self.living.append(worker)
        return worker

    async def kill(self, process: Process) -> None:
        """Kills it with SIGKILL, and writes down when."""
        self.living.remove(process)
        self.records.write("kills", killed=process.name, at=process.signal(signal.SIGKILL))
        await process.gone()

    async def died(self, process: Process) -> None:
        """Waits until it has killed itself, and writes down when."""
        await process.gone()
        self.living.remove(process)
        self.records.write("kills", killed=process.name, at=time.time())

    async def close(self) -> None:
        """Lets all that live end by themselves. AssertionError when one does not, or not well."""
        ending = [process.tell("close") for process in self.living]
        async with asyncio.timeout(CLOSE_SECONDS):
            await asyncio.gather(*ending)
            codes = {process.name: await process.gone() for process in self.living}
        self.living.clear()
        assert set(codes.values()) <= {0}, f"Exit codes: {codes}"

    async def end(self) -> None:
        """Kills all that are left, whatever state they are in."""
        for process in self._all:
            if process.is_alive:
                process.signal(signal.SIGKILL)
        for process in self._all:
            await process.gone()
        self.living.clear()
        self.records.close()

    def complaints(self) -> list[str]:
        """What the processes wrote on standard error that nobody expects: tracebacks, by process."""
        found = []
        for path in sorted(self.folder.glob("p*.log")):
            text = path.read_text(errors="replace")
            if "Traceback" in text:
                found.append(f"{path.stem}: {text[-3000:]}")
        return found


@contextlib.asynccontextmanager
async def crowd(setting: Setting) -> AsyncIterator[Crowd]:
    """Workers that are all dead when the block is left, also by an error or Ctrl-C."""
    workers = Crowd(setting)
    try:
        yield workers
    finally:
        await workers.end()


def _given_path() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
