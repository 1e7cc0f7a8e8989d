"""One process that answers: `python -m survival_play.worker SETTING`. It does what it is told line by line, in JSON.

Every line in has a `tag` and names one of the methods of `Worker` below in `do`; the line out with the same tag has what it
gave, or the `error`. It ends when told to, or when nobody can tell it anything any more.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from survival_play.agents import TRAFFIC, front
from survival_play.reading import read_in_pieces
from survival_play.records import Records, Sent, sent
from turnwise import Limits, MessageContext, RunConfig, Runner, SqlSessionStore
from turnwise.facts.errors import StaleWriter, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import MakesDispatcher
from turnwise.ports.stores import SessionStore

APP, USER = "survival", "ann"
RETRIES, ON_BUSY, QUEUED = 0.15, 0.3, 4
"""Which share of the traffic repeats an earlier message, and which goes to a session that has some to answer, but fewer."""
PATIENCE, AGAIN = 90.0, 0.2
"""For how many seconds a client sends a message again that it had no answer to, and how long it waits in between."""


class Setting(NamedTuple):
    """What a process is started with. ttl and recovery_seconds are seconds, as is what the agent `slow` takes."""

    url: str
    folder: str
    name: str = "p0"
    sessions: int = 50
    ttl: float = 1.0
    recovery_seconds: float = 0.5
    attempts: int = 3
    thinking: float = 1.0
    engine: tuple[str, str, int] | None = None
    """The address of a Restate server, its public key, and the port that all processes share for its calls."""


class NamedIssuer(SystemIssuer):
    """Ids that tell which process made them."""

    def __init__(self, process: str) -> None:
        self._process = process

    def new_id(self, kind: str) -> str:
        return super().new_id(f"{kind}-{self._process}")


class EndTimes:
    """Writes down when an answer was stored."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        pass

    async def stored(self, key: SessionKey, event: Event) -> None:
        if event.actions.end:
            self._records.write("ends", invocation=event.invocation_id, reason=event.actions.end.reason)

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        pass


class Watched:
    """A store, or a part of one, that writes down which of its calls were refused because somebody else had written."""

    def __init__(self, store: Any, records: Records) -> None:
        self._store, self._records = store, records

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._store, name)
        if name == "leases":
            return Watched(called, self._records)
        if name not in {"append", "check"}:
            return called

        async def watched(*arguments: Any, **options: Any) -> Any:
            try:
                return await called(*arguments, **options)
            except StaleWriter:
                self._records.write("refusals", call=name)
                raise

        return watched


def dispatcher_of(engine: tuple[str, str, int] | None) -> MakesDispatcher | None:
    if engine is None:
        return None
    from turnwise.dispatch.restate import RestateEngine, WorkerAddress

    address, key, port = engine
    return RestateEngine(address, app=APP, worker=WorkerAddress(port=port, keys=(key,))).dispatcher


class Worker:
    """A runner that also takes up what others left, and clients that send messages to it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.records = Records(Path(setting.folder), setting.name)
        self.runner = Runner(
            front(self.records, setting.thinking),
            store=cast("SessionStore", Watched(SqlSessionStore(setting.url), self.records)),
            app=APP,
            config=RunConfig(limits=Limits(attempts=setting.attempts)),
            process=ProcessConfig(lease_seconds=setting.ttl, recovery_seconds=setting.recovery_seconds),
            hooks=[EndTimes(self.records)],
            issuer=NamedIssuer(setting.name),
            dispatcher=dispatcher_of(setting.engine),
        )
        self._deliveries: set[asyncio.Task[Any]] = set()
        self._busy: Counter[str] = Counter()
        self._traffic: asyncio.Task[None] | None = None

    async def traffic(self, *, rate: float, seed: int) -> None:
        """From now on sends that many messages a second, until `quiet`."""
        self._traffic = asyncio.create_task(self._send_traffic(rate, random.Random(seed)))

    async def quiet(self) -> None:
        """Sends no more; returns when all that was sent here has its answer here."""
        if self._traffic is not None:
            self._traffic.cancel()
        while self._deliveries:
            await asyncio.wait(self._deliveries)

    async def send(self, *, id: str, at: float = 0.0) -> dict[str, Any]:
        """Sends one message, at that time if it is still to come; gives its text and end."""
        await asyncio.sleep(max(0.0, at - time.time()))
        return await self._deliver(id)

    async def read(self, *, id: str, cuts: int, seed: int) -> dict[str, Any]:
        """Reads an answer in so many pieces, each from where the one before was cut; gives what it saw."""
        return await read_in_pieces(self.runner, sent(id).session, id, cuts, random.Random(seed))

    async def pending(self) -> list[str]:
        """Where everything that waits here waits, for whoever wonders why."""
        return [f"{self.setting.name}: {' > '.join(_waits_at(task.get_coro()))}" for task in asyncio.all_tasks()]

    async def _send_traffic(self, rate: float, dice: random.Random) -> None:
        number = 0
        while True:
            await asyncio.sleep(dice.expovariate(rate))
            number += 1
            task = asyncio.create_task(self._deliver(self._choose(number, dice)))
            self._deliveries.add(task)
            task.add_done_callback(self._delivered)

    def _choose(self, number: int, dice: random.Random) -> str:
        """The id of an earlier message, of any process, or a new one."""
        if dice.random() < RETRIES and (earlier := self.records.any_earlier("sends", dice)):
            return str(earlier["id"])
        session = f"s{dice.randrange(self.setting.sessions):02}"
        busy = [session for session, count in self._busy.items() if 0 < count < QUEUED]
        if dice.random() < ON_BUSY and busy:
            session = dice.choice(busy)
        return Sent(session, dice.choice(TRAFFIC), self.setting.name, number).id

    def _delivered(self, task: "asyncio.Task[Any]") -> None:
        self._deliveries.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            self.records.write("errors", problem=repr(problem))

    async def _deliver(self, id_: str) -> dict[str, Any]:
        """As a client does who wants the answer: sends it, and sends it again when there is an error that may pass."""
        session = sent(id_).session
        self.records.write("sends", id=id_)
        self._busy[session] += 1
        until = time.monotonic() + PATIENCE
        try:
            while True:
                try:
                    answer = await self._ask(id_)
                except TurnwiseError as problem:
                    self.records.write("troubles", id=id_, code=problem.code, problem=str(problem))
                    if time.monotonic() > until:
                        raise
                    await asyncio.sleep(AGAIN)
                else:
                    self.records.write("results", id=id_, **answer)
                    return answer
        finally:
            self._busy[session] -= 1

    async def _ask(self, id_: str) -> dict[str, Any]:
        session, kind, _, _ = sent(id_)
        context = MessageContext(direct_agent_id=kind)
        invocation = await self.runner.start(id_, user=USER, session=session, message_id=id_, context=context)
        # Only what was acknowledged was promised, so nobody may forget an acknowledgement.
        self.records.write("acks", durable=True, id=id_)
        result = await invocation.result()
        return {"text": result.text, "end": result.end.reason if result.end else "waiting"}


async def main(setting: Setting) -> None:
    worker = Worker(setting)
    commands = await _lines_in()
    recovering = asyncio.create_task(worker.runner.work())
    recovering.add_done_callback(lambda task: _report_broken(worker.records, task))
    _say({"tag": 0, "gave": "ready"})
    tasks: set[asyncio.Task[None]] = set()
    while line := await commands.readline():
        command = json.loads(line)
        if command["do"] == "close":
            break
        task = asyncio.create_task(_obey(worker, command))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    else:
        os._exit(1)  # whoever started this is gone
    recovering.cancel()
    await worker.runner.close()
    _say({"tag": command["tag"], "gave": None})


async def _obey(worker: Worker, command: dict[str, Any]) -> None:
    tag, method = command.pop("tag"), command.pop("do")
    do: Callable[..., Awaitable[Any]] = getattr(worker, method)
    try:
        _say({"tag": tag, "gave": await do(**command)})
    except Exception as problem:
        _say({"tag": tag, "error": repr(problem)})


def _report_broken(records: Records, task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        records.write("errors", problem=f"work() ended: {task.exception()!r}")


def _waits_at(waiting: Any) -> Iterator[str]:
    """The lines in which a coroutine waits, from the outermost inwards."""
    while (frame := getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)) is not None:
        yield f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}:{frame.f_lineno}"
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None)


async def _lines_in() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Setting(**json.loads(sys.argv[1]))))
