"""Log lines of messages that are really answered."""

import asyncio
import io
import json
import logging
from collections.abc import Callable

from runner_play import Gate, soon, until

from turnwise import (
    Runner,
    agent,
)
from turnwise.telemetry.logs import JsonLines, request_context

Make = Callable[..., Runner]


async def test_log_lines_say_what_was_being_done(make_runner: Make) -> None:
    """Those of a message that waited behind another, too."""
    stream, gate = io.StringIO(), Gate()

    @agent(name="gated")
    async def logs(message: str) -> str:
        gate.began.set()
        await gate.go.wait()
        logging.getLogger("turnwise.shop").warning("answering")
        return message

    runner = make_runner(logs)

    async def request(text: str) -> str:
        with request_context(f"r-{text}"):
            return (await (await runner.start(text, user="ada", session="s")).result()).invocation_id

    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.getLogger("turnwise").addHandler(handler)
    try:
        first = asyncio.create_task(request("one"))
        await gate.began.wait()
        second = asyncio.create_task(request("two"))
        await until(runner, lambda session: session.queued)
        gate.go.set()
        invocations = [await soon(first), await soon(second)]
    finally:
        logging.getLogger("turnwise").removeHandler(handler)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    told = [(line["request"], line["session"], line["invocation"], line["app"]) for line in lines]
    assert told == [("r-one", "s", invocations[0], "app"), ("r-two", "s", invocations[1], "app")]
