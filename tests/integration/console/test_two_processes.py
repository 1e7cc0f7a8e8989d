"""The chat before two processes behind a round robin, of which the answering one dies in mid-stream."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browser_play import Watched, browsing
from cli_play import written
from round_robin import round_robin
from serve_play import Process

AGENTS = """
import asyncio
from pathlib import Path
from turnwise import AgentContext, agent

@agent
async def desk(context: AgentContext):
    async with context.stream() as out:
        await out.write("It begins, ")
        while Path("hold").exists():
            await asyncio.sleep(0.02)
        await out.write("and it ends.")
"""
CONFIGURATION = """
app: test
root: desk
agents: ['two_agents:desk']
process: {lease_seconds: 1, recovery_seconds: 0.1}
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    """Two processes of the same app."""
    written(tmp_path, CONFIGURATION, two_agents=AGENTS)
    processes = Process(tmp_path), Process(tmp_path)
    yield processes
    for process in processes:
        process.kill()


async def answering(watched: Watched, processes: tuple[Process, Process], address: str) -> Process:
    """Returns the process that answers: a lease names the process that holds it by its id."""
    holder = await watched.page.evaluate(
        f"fetch('{address}/api/v1/sessions/s1').then(answer => answer.json()).then(found => found.holder)"
    )
    (process,) = (each for each in processes if f"-{each.process.pid}-" in holder)
    return process


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
async def test_the_answer_comes_once_and_whole(by: signal.Signals, two: tuple[Process, Process], tmp_path: Path) -> None:
    """H4, K4"""
    hold = tmp_path / "hold"
    hold.touch()
    ports = [urlsplit(each.address).port or 0 for each in two]
    async with round_robin(ports) as address, browsing() as watched:
        await watched.page.goto(f"{address}/console/chat/s1")
        await watched.page.locator("#message").fill("please")
        await watched.page.keyboard.press("Enter")
        await watched.reads("It begins,")
        dying = await answering(watched, two, address)
        dying.process.send_signal(by)
        if by == signal.SIGKILL:
            await asyncio.to_thread(dying.process.wait)
        hold.unlink()
        await watched.reads("It begins, and it ends.")
        await watched.page.locator(".turn[aria-busy=false]").wait_for()
        await asyncio.to_thread(dying.process.wait)
        assert await watched.page.locator(".answer").all_inner_texts() == ["It begins, and it ends."]
        await watched.page.reload()
        await watched.reads("It begins, and it ends.")
        assert await watched.page.locator(".answer").all_inner_texts() == ["It begins, and it ends."]
        await watched.page.locator("#message").fill("again")
        await watched.page.keyboard.press("Enter")
        await watched.page.locator(".answer").nth(1).get_by_text("and it ends.").wait_for()
