"""The protocol over lines. (Processes: tests/integration/cli/test_mcp.py.)"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server import Server
from mcp_types import CallToolRequestParams, CallToolResult
from runner_play import soon

from turnwise.gateway.mcp.request import Context
from turnwise.gateway.mcp.stdio import StdioServer

GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Wire:
    """Lines that come, and those that were written. gate: what the one tool there is waits for."""

    def __init__(self) -> None:
        self.coming = asyncio.Queue[bytes]()
        self.said: list[dict[str, Any]] = []
        self.gate, self.began, self.is_read = asyncio.Event(), asyncio.Event(), True
        self.over = StdioServer(Server("test", on_call_tool=self._call), self._write)
        self.tell({"id": 0, "method": "initialize", "params": GREETING}, {"method": "notifications/initialized"})

    def tell(self, *messages: Any) -> None:
        for each in messages:
            line = each if isinstance(each, bytes) else json.dumps({"jsonrpc": "2.0", **each}).encode()
            self.coming.put_nowait(line)

    def call(self, id_: int) -> None:
        self.tell({"id": id_, "method": "tools/call", "params": {"name": "wait", "arguments": {}}})

    def end(self) -> None:
        self.coming.put_nowait(b"end")

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self.coming.get()) != b"end":
            yield line

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        self.began.set()
        await self.gate.wait()
        return CallToolResult(content=[])

    async def _write(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        if not self.is_read:
            raise BrokenPipeError
        self.said.append(json.loads(line))


async def test_what_was_asked_is_answered_before_the_end() -> None:
    wire = Wire()
    wire.call(1)
    wire.end()
    serving = asyncio.create_task(wire.over.serve(wire.lines(), 3600))
    await soon(wire.began.wait())
    wire.gate.set()
    await soon(serving)
    assert [each["id"] for each in wire.said] == [0, 1]
    assert not wire.over.is_cut


async def test_whoever_waits_for_quiet_hears_of_it_also_when_more_is_asked_meanwhile() -> None:
    wire = Wire()
    wire.call(1)
    serving = asyncio.create_task(wire.over.serve(wire.lines(), 3600))
    await soon(wire.began.wait())
    quiet = asyncio.create_task(wire.over.wait_idle())
    wire.began.clear()
    wire.call(2)
    await soon(wire.began.wait())
    wire.gate.set()
    await soon(quiet)
    assert {each["id"] for each in wire.said} == {0, 1, 2}
    wire.end()
    await soon(serving)


async def test_what_takes_too_long_then_is_told_so() -> None:
    wire = Wire()
    wire.call(1)
    wire.end()
    await soon(wire.over.serve(wire.lines(), 0.05))
    assert [(each["id"], "error" in each) for each in wire.said] == [(0, False), (1, True)]
    assert wire.over.is_cut


@pytest.mark.parametrize("name", [1, "1"])
async def test_what_is_not_wanted_any_more_is_not_waited_for(name: int | str) -> None:
    """A number as text names the same request: so the library has it."""
    wire = Wire()
    wire.call(1)
    serving = asyncio.create_task(wire.over.serve(wire.lines(), 3600))
    await soon(wire.began.wait())
    wire.tell({"method": "notifications/cancelled", "params": {"requestId": name}})
    wire.end()
    await soon(serving)
    assert [each["id"] for each in wire.said] == [0]


async def test_a_name_that_no_request_has_takes_nothing_back() -> None:
    wire = Wire()
    wire.call(1)
    serving = asyncio.create_task(wire.over.serve(wire.lines(), 3600))
    await soon(wire.began.wait())
    for name in (True, 1.0, None, [1], {"1": 1}, "2"):
        wire.tell({"method": "notifications/cancelled", "params": {"requestId": name}})
    wire.tell({"method": "notifications/cancelled"})
    wire.end()
    await asyncio.sleep(0.05)
    wire.gate.set()
    await soon(serving)
    assert [(each["id"], "result" in each) for each in wire.said] == [(0, True), (1, True)]


async def test_when_nobody_reads_any_more_it_is_over() -> None:
    wire = Wire()
    wire.is_read = False
    await soon(wire.over.serve(wire.lines(), 3600))
    await soon(wire.over.wait_idle())


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", -32700),
        (b"\xff", -32700),
        (b"[" * 10_000, -32700),
        (b'"\\ud800"', -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
    ],
)
async def test_a_line_that_is_no_message(line: bytes, code: int) -> None:
    wire = Wire()
    wire.tell(b"  ", line)
    wire.end()
    await soon(wire.over.serve(wire.lines(), 3600))
    assert [each["error"]["code"] for each in wire.said if each["id"] is None] == [code]
