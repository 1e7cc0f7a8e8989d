"""Reports of lint are made one at a time, also when their callers go away."""

import asyncio
import threading

import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.gateway.services import linting
from turnwise.gateway.services.background import BackgroundTasks
from turnwise.gateway.services.linting import LintReport, LintReports


@agent
def echo(message: str) -> str:
    return message


async def test_a_cancelled_report_keeps_its_lock_until_its_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    go, at_work, made = threading.Event(), threading.Semaphore(0), list[int]()

    def report(cascade: object) -> LintReport:
        made.append(1)
        at_work.release()
        go.wait(30)
        return LintReport(1, (), False)

    monkeypatch.setattr(linting, "_report", report)
    runner, reports = Runner(echo, store=SqlSessionStore("sqlite://")), LintReports(BackgroundTasks())
    first = asyncio.create_task(reports.of(runner.cascade))
    await asyncio.to_thread(at_work.acquire)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(reports.of(runner.cascade))
    await asyncio.sleep(0)
    assert made == [1], "the second waits for the thread of the first"
    go.set()
    assert (await second).agents == 1
    assert made == [1], "the second has the report of the first"
    await runner.close()
