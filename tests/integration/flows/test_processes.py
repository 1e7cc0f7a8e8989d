"""A flow whose processes are killed with SIGKILL, again and again: another goes on where the last one was (D4, D12)."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

from flow_play import TEN, closings
from flow_process import SESSION, ran, start, store_in
from runner_play import key, soon

KILLS = 3


async def killed_after(folder: Path, count: int) -> None:
    """Runs the flow in a process that dies when that many more tasks were done."""
    before = len(ran(folder))
    process = await start(folder)
    try:
        while len(ran(folder)) < before + count and process.returncode is None:  # noqa: ASYNC110  # another process writes
            await asyncio.sleep(0.002)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
    await process.communicate()


async def test_what_had_succeeded_is_not_done_again(tmp_path: Path) -> None:
    """Whoever is killed at whatever moment: every task ends once, with the same result."""
    done_by_then: list[tuple[int, set[str]]] = []
    store = store_in(tmp_path)
    for number in range(KILLS):
        await soon(killed_after(tmp_path, 1 + number))
        done_by_then.append((len(ran(tmp_path)), set(closings(await store.events(key(SESSION))))))
    process = await start(tmp_path)
    told, complaint = await soon(process.communicate())
    assert process.returncode == 0, complaint.decode()
    log = await store.events(key(SESSION))
    found = closings(log)
    state = (await store.open(key(SESSION))).state  # type: ignore[union-attr]
    await store.close()
    for count, done in done_by_then:
        assert not done & set(ran(tmp_path)[count:]), "done again after it had succeeded"
    assert set(found) == set(TEN)
    assert all(each.status == "successful" for each in found.values())
    assert {name: state[name] for name in TEN} == dict.fromkeys(TEN, 1), "what a task wrote is there once"
    assert found["f"].result == "f(c(a()),d(a(),b()))"
    assert told.decode().strip() == f"j: {found['j'].result}"
    assert max(Counter(ran(tmp_path)).values()) <= 1 + KILLS
    assert any(done for _, done in done_by_then), "nobody had done anything when he was killed"
