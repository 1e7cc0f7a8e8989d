"""A process of its own that sends one message to an agent with a model: `python -m llm_process SETTING`, which is JSON.

It prints how that ended. Its agent's tools write every call of them into a file.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from turnwise import Runner, SqlSessionStore
from turnwise.agents.llm import LlmAgent
from turnwise.facts.limits import ProcessConfig
from turnwise.models.by_name import ModelEndpoint
from turnwise.tools.function import tool

_FOLDER = Path(__file__).resolve().parent


class Setting(NamedTuple):
    """model, url: as `ModelEndpoint`; without a URL the model's name says it all. confirms: whether a person has to agree
    to `second`. stalls: whether `second` never comes to an end.
    """

    folder: str
    model: str
    url: str = ""
    key: str = ""
    confirms: bool = False
    stalls: bool = False

    @property
    def effects(self) -> list[str]:
        """What the tools did, in all processes."""
        path = Path(self.folder, "effects")
        return path.read_text().split() if path.exists() else []


def clerk(setting: Setting) -> LlmAgent:
    """With the tools `first` and `second`."""

    def note(what: str) -> None:
        with Path(setting.folder, "effects").open("a") as file:
            file.write(what + "\n")

    async def first() -> str:
        note("first")
        return "first done"

    @tool(confirm=setting.confirms)
    async def second() -> str:
        note("second")
        if setting.stalls:
            await asyncio.Event().wait()
        return "second done"

    model: Any = ModelEndpoint(setting.model, setting.url, setting.key) if setting.url else setting.model
    return LlmAgent("clerk", model=model, tools=[first, second])


def runner_of(setting: Setting) -> Runner:
    """On the store that all processes of this setting share; a process that dies is missed soon."""
    store = SqlSessionStore(f"sqlite:///{setting.folder}/s.db")
    return Runner(clerk(setting), store=store, process=ProcessConfig(lease_seconds=1.0))


@asynccontextmanager
async def started(setting: Setting, text: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that sends the text. It is gone when the block is left."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "llm_process", json.dumps([setting, text])),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def finished(setting: Setting, text: str) -> dict[str, Any]:
    """What such a process printed when it ended by itself."""
    async with started(setting, text) as process:
        printed, _ = await process.communicate()
        result: dict[str, Any] = json.loads(printed)
        return result


async def _main(setting: Setting, text: str) -> None:
    runner = runner_of(setting)
    invocation = await runner.start(text, user="ada", session="s")
    result = await invocation.result()
    calls = [call.call_id for e in result.events if e.content for call in e.content.tool_calls]
    end = result.end.reason if result.end else "waiting"
    print(json.dumps({"end": end, "text": result.text, "calls": calls}))
    await runner.close()


if __name__ == "__main__":
    _setting, _text = json.loads(sys.argv[1])
    asyncio.run(_main(Setting(*_setting), _text))
