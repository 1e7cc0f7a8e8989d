"""Pieces of what is said on the tasks of a flow say so: whoever reads a flow's answer is not shown them."""

import asyncio
from collections.abc import Callable

from runner_play import soon

from turnwise import AgentContext, Runner, agent
from turnwise.facts.events import Event
from turnwise.flows.flow import Flow
from turnwise.flows.tasks import Task

MakeRunner = Callable[..., Runner]


async def test_pieces_have_the_labels_of_what_they_are_pieces_of(process: MakeRunner) -> None:
    heard = asyncio.Event()

    @agent
    async def worker(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("Working")
            await heard.wait()
            await out.write(" on it.")
        assert context.assignment is not None
        await context.assignment.succeed("done")

    runner = process(Flow("works", [Task("it", "Do it.")], agents=[worker]))

    async def read() -> list[Event]:
        found = []
        async for event in (await runner.start("please", user="ada", session="s")).events():
            found.append(event)
            if event.partial:
                heard.set()
        return found

    events = await soon(read())
    (whole,) = [event for event in events if event.text == "Working on it."]
    pieces = [event for event in events if event.partial]
    assert "".join(event.text for event in pieces) == whole.text
    assert {event.scope for event in pieces} == {whole.scope} != {()}
