"""How much agents and models may say, and that they do not hold the event loop while they say it (J1)."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from runner_play import ask, log, reason

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import BlobPart, Content, DataPart, TextPart, ThinkingPart
from turnwise.testing.models import ScriptedModel, calls

Process = Callable[..., Runner]
SMALL = RunConfig(limits=Limits(answer_bytes=10_000, invocation_bytes=30_000, blob_bytes=5_000))


def content(*parts: Any) -> Content:
    return Content(role="agent", parts=parts)


async def said_in_one_piece(context: AgentContext) -> None:
    await context.say("x" * 20_000)


async def said_as_data(context: AgentContext) -> None:
    await context.say(content(DataPart(name="all", data=["x" * 100] * 200)))


async def said_in_many_parts(context: AgentContext) -> None:
    await context.say(content(*(TextPart(text="x" * 500) for _ in range(40))))


async def written_for_ever(context: AgentContext) -> None:
    async with context.stream() as answer:
        while True:
            await answer.write("and so on ")


async def written_in_letters(context: AgentContext) -> None:
    async with context.stream() as answer:
        while True:
            await answer.write("")


async def kept_as_a_step(context: AgentContext) -> None:
    await context.step("all", lambda: "x" * 20_000)
    await context.say("done")


async def of_two_bytes_a_letter(context: AgentContext) -> None:
    await context.say("é" * 6_000)


TOO_MUCH = [
    said_in_one_piece,
    said_as_data,
    said_in_many_parts,
    written_for_ever,
    written_in_letters,
    kept_as_a_step,
    of_two_bytes_a_letter,
]


@pytest.mark.parametrize("way", TOO_MUCH)
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_answer_that_is_too_long_ends_with_the_limit(
    process: Process, way: Callable[[AgentContext], Any], streaming: bool
) -> None:
    """The end is typed, nothing of it is stored, and the session goes on."""

    @agent
    async def clerk(message: str, context: AgentContext) -> str | None:
        return "well" if message == "again" else await way(context)

    runner = process(clerk, config=SMALL.replace(streaming=streaming))
    result = await ask(runner, "go")
    assert reason(result) == "limit:answer_bytes"
    assert sum(len(event.model_dump_json()) for event in result.events) < 10_000
    assert (await ask(runner, "again")).text == "well"
    assert [text for _, text in await log(runner) if text and len(text) > 1_000] == []


async def test_what_is_returned_counts_too(process: Process) -> None:
    @agent
    def clerk() -> str:
        return "x" * 20_000

    assert reason(await ask(process(clerk, config=SMALL), "go")) == "limit:answer_bytes"


async def test_an_answer_at_the_limit_is_kept(process: Process) -> None:
    @agent
    async def clerk(context: AgentContext) -> None:
        async with context.stream() as answer:
            for _ in range(9):
                await answer.write("x" * 1_000)

    result = await ask(process(clerk, config=SMALL), "go")
    assert (len(result.text), reason(result)) == (9_000, "completed")


async def test_all_answers_of_an_invocation_are_bounded_together(process: Process) -> None:
    @agent
    async def clerk(context: AgentContext) -> None:
        for _ in range(100):
            await context.say("x" * 8_000)

    result = await ask(process(clerk, config=SMALL), "go")
    assert reason(result) == "limit:invocation_bytes"
    assert len([event for event in result.events if event.author == "clerk" and event.text]) == 3


async def test_files_are_bounded_by_their_own_limit(process: Process) -> None:
    @agent
    async def clerk(message: str, context: AgentContext) -> None:
        files = 1 if message == "one" else 2
        await context.say(content(*(BlobPart(data=b"x" * 4_000, mime_type="image/png") for _ in range(files))))

    runner = process(clerk, config=SMALL)
    assert reason(await ask(runner, "one")) == "completed"
    assert reason(await ask(runner, "two")) == "limit:blob_bytes"


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    "reply",
    ["x" * 20_000, calls("look", {"for": "x" * 20_000}), calls("look", "x" * 20_000), [ThinkingPart(text="x" * 20_000), "so"]],
    ids=["text", "arguments", "broken arguments", "thoughts"],
)
async def test_a_model_that_writes_too_much_is_stopped(process: Process, reply: Any, streaming: bool) -> None:
    made: list[str] = []

    def look(for_: str = "") -> str:
        """Looks for it."""
        made.append(for_)
        return "found"

    clerk = LlmAgent("clerk", model=ScriptedModel(reply, "never asked", "well"), tools=[look])
    runner = process(clerk, config=SMALL.replace(streaming=streaming))
    assert reason(await ask(runner, "go")) == "limit:answer_bytes"
    assert made == []
    assert max(len(text) for _, text in await log(runner)) < 1_000


async def test_an_endless_stream_lets_others_run_and_ends_in_time(process: Process) -> None:
    """The time limit of the invocation counts though the agent awaits nothing but its own writes."""
    others = asyncio.Event()

    @agent
    async def clerk(context: AgentContext) -> None:
        asyncio.get_running_loop().call_later(0.05, others.set)
        async with context.stream() as answer:
            while True:
                await answer.write("and so on ")

    limits = Limits(invocation_seconds=0.3, answer_bytes=10**9)
    result = await ask(process(clerk, config=RunConfig(limits=limits)), "go")
    assert reason(result) == "limit:invocation_seconds"
    assert others.is_set()


class Counted(list[str]):
    """A list that counts how many of its values are read."""

    read = 0

    def __iter__(self) -> Iterator[str]:
        for value in super().__iter__():
            self.read += 1
            yield value


@pytest.mark.parametrize("way", ["step", "state"])
async def test_a_huge_value_is_refused_before_it_is_read(process: Process, way: str) -> None:
    """J1: what writing all of it as JSON would take, the loop would be held."""
    value = Counted(["x" * 1_000] * 10_000)

    @agent
    async def clerk(context: AgentContext) -> None:
        if way == "step":
            await context.step("all", lambda: value)
        context.state["all"] = value

    result = await ask(process(clerk, config=SMALL), "go")
    assert reason(result) == {"step": "limit:answer_bytes", "state": "limit:state_bytes"}[way]
    assert value.read <= 100
