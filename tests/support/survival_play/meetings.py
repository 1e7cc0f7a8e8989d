"""Single encounters of processes: a frozen holder, a burst on one session, a reader that is cut, a poisonous message."""

import asyncio
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from survival_play.agents import THINKING
from survival_play.checks import Findings, broken, findings, misread
from survival_play.logs import read_logs, settled
from survival_play.processes import Crowd, Process, ProcessGone, crowd
from survival_play.records import Sent
from survival_play.worker import Setting

LOOK_SECONDS, PATIENCE = 0.02, 60.0
HEADSTART = 0.3
"""So many seconds from now all processes start something at the same time."""


class Meeting(NamedTuple):
    """What was found, what is wrong with it, and what callers and readers were given."""

    findings: Findings
    problems: list[str]
    given: list[Any]

    def also(self, problems: Iterable[str]) -> "Meeting":
        return self._replace(problems=[*self.problems, *problems])


async def frozen_holder(url: str, folder: Path, ttl: float) -> Meeting:
    """The holder stands still past its time; another process answers; then the holder wakes up in the middle of its answer,
    and is refused.

    `given` is what the callers in the frozen process and in the other one got.
    """
    setting = Setting(url=url, folder=str(folder), ttl=ttl, thinking=1.5 * ttl)
    async with crowd(setting) as workers:
        holder, other = await workers.start(2)
        id_ = Sent("s0", "slow", "caller", 1).id
        told = asyncio.create_task(holder.tell("send", id=id_))
        await _until(workers, "work", 1, place=THINKING)
        holder.signal(signal.SIGSTOP)
        try:
            await _until(workers, "ends", 1)
        finally:
            holder.signal(signal.SIGCONT)
        # The same message once more, elsewhere: it is the same answer.
        given = await asyncio.gather(told, other.tell("send", id=id_))
        await _until(workers, "refusals", 1, process=holder.name)
        await holder.tell("send", id=Sent("s0", "plain", "caller", 2).id)
        await workers.close()
        met = await _met(workers, url, list(given))
    wrong = [] if given[0] == given[1] else ["the callers were given different answers"]
    if given[0]["text"] != f"{THINKING}\nslow {id_} {other.pid}":
        wrong.append("the answer is not the other process's")
    return met.also(wrong)


async def burst(url: str, folder: Path, messages: int, processes: int = 4) -> Meeting:
    """So many messages at once on one session, from several processes. `given` is in the order of their numbers."""
    async with crowd(Setting(url=url, folder=str(folder), ttl=5.0)) as workers:
        started = await workers.start(processes)
        at = time.time() + HEADSTART
        asking = (
            started[number % processes].tell("send", id=Sent("s0", "counting", "caller", number).id, at=at)
            for number in range(messages)
        )
        given = await asyncio.gather(*asking)
        await workers.close()
        return await _met(workers, url, given)


async def same_message(url: str, folder: Path, rounds: int, processes: int = 4) -> Meeting:
    """The same message from several processes at once, so many times. `given` has a list of all callers' for each round."""
    async with crowd(Setting(url=url, folder=str(folder), ttl=5.0)) as workers:
        started = await workers.start(processes)
        given = []
        for number in range(rounds):
            id_, at = Sent(f"s{number % 3}", "stepped", "caller", number).id, time.time() + HEADSTART
            given.append(await asyncio.gather(*(process.tell("send", id=id_, at=at) for process in started)))
        await workers.close()
        return await _met(workers, url, given)


async def cut_reader(url: str, folder: Path, cuts: int, *, kill_holder: bool = False) -> Meeting:
    """Readers of one long answer, in its process and in another, are cut that often, and go on where they were.

    `given` is what each saw. With `kill_holder`, the answering process dies on the way; then only the other reads.
    """
    async with crowd(Setting(url=url, folder=str(folder), ttl=1.0)) as workers:
        holder, other = await workers.start(2)
        id_ = Sent("s0", "long", "caller", 1).id
        asked = asyncio.create_task(_ask_in_vain(holder, id_))
        readers = [other] if kill_holder else [holder, other]
        reading = [asyncio.create_task(reader.tell("read", id=id_, cuts=cuts, seed=n)) for n, reader in enumerate(readers)]
        if kill_holder:
            await asyncio.sleep(1.0)
            await workers.kill(holder)
        given = await asyncio.gather(*reading)
        await asked
        await workers.close()
        met = await _met(workers, url, list(given))
    (log,) = met.findings.logs
    return met.also(line for saw in given for line in misread(log, id_, _pairs(saw), several_attempts=kill_holder))


def _pairs(saw: dict[str, Any]) -> list[tuple[int, str]]:
    return [(sequence, event_id) for sequence, event_id in saw["seen"]]


async def poison(url: str, folder: Path, ttl: float, attempts: int) -> Meeting:
    """A message kills every process that answers it; other sessions are answered all the while.

    `given` is what callers on other sessions got, one for each process that died, and last what came of a message behind
    the poisonous one.
    """
    async with crowd(Setting(url=url, folder=str(folder), ttl=ttl, attempts=attempts)) as workers:
        # One more than die, so that somebody is always there.
        started = await workers.start(attempts + 1)
        poisonous, behind = Sent("s0", "poison", "caller", 1).id, Sent("s0", "plain", "caller", 2).id
        asked = asyncio.create_task(_ask_in_vain(started[0], poisonous))
        given: list[Any] = []
        for number in range(attempts):
            dead = await _next_death(workers)
            await workers.died(dead)
            given.append(await _ask_anybody(workers, Sent(f"s{number + 1}", "stepped", "caller", number).id))
        given.append(await _ask_anybody(workers, behind))
        await asked
        problems = await settled(url, PATIENCE)
        await workers.close()
        met = await _met(workers, url, given)
    tried = sum(line["id"] == poisonous for line in met.findings.work)
    return met.also([*problems, *([] if tried == attempts else [f"it was tried {tried} times"])])


async def _ask_in_vain(process: Process, id_: str) -> None:
    """Sends a message whose caller may die with the process."""
    with suppress(ProcessGone):
        await process.tell("send", id=id_)


async def _ask_anybody(workers: Crowd, id_: str) -> Any:
    """Sends a message as a client does whose process may be the next to die: to another one then."""
    for process in reversed(workers.living):
        with suppress(ProcessGone):
            return await process.tell("send", id=id_)
    raise ProcessGone(f"Nobody is left to answer {id_}.")


async def _next_death(workers: Crowd) -> Process:
    async def death(process: Process) -> Process:
        await process.gone()
        return process

    deaths = [asyncio.create_task(death(process)) for process in workers.living]
    done, rest = await asyncio.wait(deaths, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    if not done:
        raise ProcessGone("No process took up the poisonous message.")
    return done.pop().result()


async def _until(workers: Crowd, kind: str, count: int, **fields: Any) -> None:
    """Waits until so many records of a kind have these fields. TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while True:
            lines = workers.records.read(kind)
            if sum(all(line[name] == value for name, value in fields.items()) for line in lines) >= count:
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _met(workers: Crowd, url: str, given: list[Any]) -> Meeting:
    found = findings(await read_logs(url), workers.records)
    return Meeting(found, [*broken(found), *workers.complaints()], given)
