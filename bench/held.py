"""How long agents, models and tools that say very much hold the event loop: CPU between two turns of another task."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

from bench.flood import flooding
from bench.measure import Figure, progress

from turnwise import AgentContext, Limits, LlmAgent, RunConfig, Runner, SqlSessionStore, agent, tool
from turnwise.facts.content import Content, TextPart, ToolCallPart
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest
from turnwise.testing.models import ScriptedModel, calls

MOST_MS = 200.0
_ALLOWED = Limits(answer_bytes=100_000_000, invocation_bytes=400_000_000)
_MB = 1_000_000


class Flood:
    """A model whose answer comes in that many equal pieces, without a pause."""

    name = "flood:model"

    def __init__(self, piece: str, count: int, *, arguments: bool = False) -> None:
        self._piece, self._count, self._arguments = piece, count, arguments

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        for _ in range(self._count):
            yield ModelPiece("arguments" if self._arguments else "text", self._piece, 0, "work")
        whole = self._piece * self._count
        part = ToolCallPart(call_id="c", tool="work", arguments={"text": whole}) if self._arguments else TextPart(text=whole)
        yield ModelReply(Content(role="agent", parts=(part,)))


@tool
async def work(text: str = "") -> str:
    """Takes a text."""
    return f"{len(text)} characters"


@tool
async def texts() -> str:
    """Returns 50 MB."""
    return "a word " * (50 * _MB // 7)


@tool
def objects() -> list[dict[str, Any]]:
    """Returns 50 MB of objects. It is no coroutine: making them would hold the loop."""
    return [{"number": number, "text": "x" * 20} for number in range(_MB)]


@agent
async def writer(context: AgentContext) -> None:
    async with context.stream() as stream:
        for _ in range(80_000):
            await stream.write("word ")


def _calling(name: str, tools: list[Any]) -> LlmAgent:
    return LlmAgent(model=ScriptedModel(calls(name), "done"), tools=tools, name="a")


def _cases() -> dict[str, tuple[Any, Limits]]:
    plain = Limits()
    return {
        "60 MB of a model, pieces of 1 MB": (LlmAgent(model=Flood("a word " * (_MB // 7), 60), name="a"), plain),
        "the same, allowed": (LlmAgent(model=Flood("a word " * (_MB // 7), 60), name="a"), _ALLOWED),
        "60 MB of a model, pieces of 16 bytes": (LlmAgent(model=Flood("word word word x", 60 * _MB // 16), name="a"), plain),
        "1 MB in pieces of 16 bytes": (LlmAgent(model=Flood("word word word x", _MB // 16), name="a"), plain),
        "10 MB of arguments, pieces of 10 bytes": (
            LlmAgent(model=Flood("argumentsx", _MB, arguments=True), tools=[work], name="a"),
            plain,
        ),
        "a tool's result of 50 MB": (_calling("texts", [texts]), plain),
        "a tool's result of a million objects": (_calling("objects", [objects]), plain),
        "80,000 calls of stream.write": (writer, plain),
    }


class Streamed(NamedTuple):
    """What a model's service streams over a socket."""

    piece: str
    pieces: int
    limits: Limits = Limits()
    arguments: bool = False


_KILOBYTES = "a word " * 570
OVER_HTTP = {
    "60 MB over HTTP, pieces of 16 bytes": Streamed("word word word x", 60 * _MB // 16),
    "60 MB over HTTP, pieces of 4 KB": Streamed(_KILOBYTES, 60 * _MB // len(_KILOBYTES)),
    "60 MB over HTTP, pieces of 1 MB": Streamed("a word " * (_MB // 7), 60),
    "the same over HTTP, allowed": Streamed("a word " * (_MB // 7), 60, _ALLOWED),
    "60 MB over HTTP, one piece": Streamed("a word " * (60 * _MB // 7), 1),
    "60 MB of arguments over HTTP, pieces of 4 KB": Streamed(_KILOBYTES, 60 * _MB // len(_KILOBYTES), arguments=True),
}


async def _held(root: Any, limits: Limits) -> tuple[float, str]:
    """Returns the longest time in milliseconds, and how the invocation ended."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            worst, last = max(worst, now - last), now

    runner = Runner(root, store=SqlSessionStore("sqlite://"), config=RunConfig(limits=limits))
    try:
        watching = asyncio.create_task(watch())
        result = await (await runner.start("go", user="u", session="s")).result()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        return 1_000 * worst, result.end.reason if result.end else ""
    finally:
        await runner.close()


def held() -> list[Figure]:
    """The figures with their bounds."""
    cases, figures = _cases(), []

    def measure(name: str, root: Any, limits: Limits) -> None:
        worst, end = asyncio.run(_held(root, limits))
        figures.append(Figure(f"{name}, ms", f"{worst:.0f}", end, f"≤ {MOST_MS:g}", worst <= MOST_MS))
        step(name)

    # The first turns import what a turn needs.
    asyncio.run(_held(LlmAgent(model=ScriptedModel("hello"), name="a"), Limits()))
    with flooding("hello", 1) as model:
        asyncio.run(_held(LlmAgent(model=model, name="a"), Limits()))
    with progress("Very long answers", len(cases) + len(OVER_HTTP)) as step:
        for name, (root, limits) in cases.items():
            measure(name, root, limits)
        for name, (piece, pieces, limits, arguments) in OVER_HTTP.items():
            with flooding(piece, pieces, arguments=arguments) as model:
                measure(name, LlmAgent(model=model, tools=[work], name="a"), limits)
    return figures
