"""Very many agents in the database: how soon a changed phrase is served, its CPU, and the memory while new heads are fitted.

Runs in a process of its own. Agents and vectors are those of `scale`.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import Figure
from bench.scale import EXAMPLES, at_most, made_up, peak_gigabytes

from turnwise import agent
from turnwise.assemble import App, load_app
from turnwise.facts.definitions import Definition, MadeOfTemplates, ReplyTemplate
from turnwise.matching.disk_cache import VARIABLE
from turnwise.ports.definitions import Author

SERVED_SECONDS, CPU_SECONDS, MEMORY_GB = 0.5, 1.0, 0.7
_AT_ONCE = 500
_CONFIGURATION = """
app: bench
root: desk
agents: ['bench.definitions:desk']
store: 'sqlite:///definitions.db'
policy: {stages: [{selector: semantic, options: {threshold: 0.5}}]}
encoder: {import: 'bench.scale:Directions'}
"""
_MADE = MadeOfTemplates(kind="reply", templates=(ReplyTemplate(text=("Done.",)),))


@agent(name="desk")
def desk(message: str) -> str:
    """Answers when no other agent does."""
    return f"How can I help with {message!r}?"


def figures(folder: Path, agents: int) -> list[Figure]:
    """The figures with their bounds, measured in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "turnwise.yaml").write_text(_CONFIGURATION)
    command = [sys.executable, "-m", "bench.definitions", str(folder), str(agents)]
    environment = {**os.environ, VARIABLE: str(folder / "cache")}
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    found: dict[str, float] = json.loads(output)
    size = f"{agents:,} agents × {EXAMPLES} in the database"
    return [
        at_most(f"a changed phrase is served after the put, s, {size}", found["served"], SERVED_SECONDS),
        at_most("the same, CPU before heads", found["cpu"], CPU_SECONDS),
        Figure("the check of a put before its commit, s", f"{found['checked']:.2f}"),
        Figure("memory at its peak until heads are fitted, GB", f"{found['first']:.3f}"),
        at_most("memory at its peak, also while new agents get heads, GB", found["swapped"], MEMORY_GB),
    ]


@asynccontextmanager
async def _following(app: App) -> AsyncIterator[None]:
    await app.serve_definitions()
    task = asyncio.create_task(app.follow_definitions())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await app.runner.close()


def _author() -> Author:
    return Author("bench", datetime.now(UTC))


async def _put_all(app: App, definitions: Sequence[Definition]) -> None:
    assert app.editor is not None
    for start in range(0, len(definitions), _AT_ONCE):
        await app.editor.store.put("bench", definitions[start : start + _AT_ONCE], {}, _author())


async def _changed(app: App, number: int) -> tuple[float, float]:
    """Changes a phrase of an agent. Returns the seconds until the put is done, and from then on until all decide by it."""
    editor = app.editor
    assert editor is not None
    before = await editor.version("agent", f"agent {number}")
    assert isinstance(before, Definition)
    text = f"please do the change {number}"
    new = before.replace(examples=(*(before.examples or ())[:-1], text))
    began = time.perf_counter()
    (stored,) = await editor.put([new], {("agent", new.name): before.version}, _author())
    put = time.perf_counter()
    while app.runner.sets.current.revision < stored.revision:  # noqa: ASYNC110 (this is what is timed)
        await asyncio.sleep(0.005)
    served = time.perf_counter()
    selection = await app.runner.select(text)
    if selection.agent != new.name:
        raise RuntimeError(f"{text!r} goes to {selection.agent}.")
    return put - began, served - put


async def _fitted(app: App) -> None:
    meaning = app.runner.sets.current.cascade.meaning
    assert meaning is not None
    if not await meaning.fitted():
        raise RuntimeError("The heads were not fitted.")


async def _measured(folder: Path, agents: int) -> dict[str, float]:
    tree, _ = made_up(agents, EXAMPLES, 1)
    definitions = [Definition(name=card.name, examples=card.examples, made_by=_MADE) for card in tree if card.parent]
    app = load_app(folder)
    await _put_all(app, definitions)
    del tree, definitions
    async with _following(app):
        await _fitted(app)
        first = peak_gigabytes()
        checked, served = await _changed(app, 1)
        await _fitted(app)
        swapped = peak_gigabytes()
        meaning = app.runner.sets.current.cascade.meaning
        assert meaning is not None
        meaning.close()  # no more fits: their CPU is not counted
        await asyncio.sleep(2.0)
        cpu = time.process_time()
        await _changed(app, 2)
        await asyncio.sleep(2.0)
        cpu = time.process_time() - cpu
    return {"checked": checked, "served": served, "cpu": cpu, "first": first, "swapped": swapped}


if __name__ == "__main__":
    _, _folder, _agents = sys.argv
    print(json.dumps(asyncio.run(_measured(Path(_folder), int(_agents)))))
