"""Two processes behind a round robin: when the console shows the whole answer although the answering process died."""

import asyncio
import json
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.gateway.servers import serving, wait_until_ready
from bench.measure import Figure

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from round_robin import round_robin

WHOLE_SECONDS = 6.0
WORDS, PAUSE_SECONDS = 10, 0.1
CONFIGURATION = """
app: deaths
root: deaths_agents:desk
store: sqlite:///deaths.db
"""
AGENTS = f"""
import asyncio
from turnwise import AgentContext, agent

@agent
async def desk(context: AgentContext) -> None:
    async with context.stream() as out:
        for number in range({WORDS}):
            await out.write(f"word {{number}} ")
            await asyncio.sleep({PAUSE_SECONDS})
"""
ANSWER = " ".join(f"word {number}" for number in range(WORDS))


async def deaths(tries: int, folder: Path, browser: Any) -> list[Figure]:
    """Returns a figure for each way to die."""
    await asyncio.to_thread(_write, folder)
    found = []
    for by in (signal.SIGTERM, signal.SIGKILL):
        took = [await _one(by, folder, browser, f"{by.name}-{number}") for number in range(tries)]
        middle, shown = statistics.median(took), f"{statistics.median(took):.1f} (worst {max(took):.1f})"
        label = f"{by.name} in mid-stream: whole, once, beyond the agent's time, s"
        found.append(Figure(label, shown, "", f"≤ {WHOLE_SECONDS:.0f}", middle <= WHOLE_SECONDS))
    return found


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "turnwise.yaml").write_text(CONFIGURATION)
    (folder / "deaths_agents.py").write_text(AGENTS)


async def _one(by: signal.Signals, folder: Path, browser: Any, session: str) -> float:
    """Returns the seconds from the signal to the whole answer, without those that the agent needs for all of it.

    Raises:
        RuntimeError: The answer came twice, or is another one.
    """
    with serving(folder) as one, serving(folder) as other:
        for each in (one, other):
            await asyncio.to_thread(wait_until_ready, each.port)
        async with round_robin([one.port, other.port]) as root:
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            page = await context.new_page()
            await page.goto(f"{root}/console/chat/{session}")
            await page.locator("#message").fill("please")
            await page.keyboard.press("Enter")
            await page.locator(".answer").get_by_text("word 2").wait_for()
            holder = await page.evaluate(
                f"fetch('{root}/api/v1/sessions/{session}').then(found => found.json()).then(found => found.holder)"
            )
            dying = next(each for each in (one, other) if f"-{each.process.pid}-" in holder)
            began = time.perf_counter()
            dying.process.send_signal(by)
            await page.locator(".turn[aria-busy=false] .answer").get_by_text(f"word {WORDS - 1}").wait_for()
            took = time.perf_counter() - began
            answers = [each.strip() for each in await page.locator(".answer").all_inner_texts()]
            await context.close()
    if answers != [ANSWER]:
        raise RuntimeError(f"After {by.name} the page shows {json.dumps(answers)}")
    return max(0.0, took - WORDS * PAUSE_SECONDS)
