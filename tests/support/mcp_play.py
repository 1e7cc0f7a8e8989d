"""A real MCP server to play with, run as a program: over its standard input and output, or over HTTP at `--port`.

`--old` makes it one of before 2026, with sessions. `--deaf` never answers, `--wordy` writes to its standard error, `--fails`
ends at once, with a secret of its environment among its last words.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer

PIXEL = b"\x89PNG\r\n\x1a\n not really"

server = MCPServer("play", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(structured_output=False)
def shout(text: str) -> str:
    """Says it loudly."""
    return text.upper()


@server.tool()
def weather(city: str) -> dict[str, Any]:
    """The weather there."""
    return {"city": city, "degrees": 21}


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """A picture with a title."""
    return ["A pixel", Image(data=PIXEL, format="png")]


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@server.tool()
async def sleep(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "awake"


@server.tool()
def die() -> str:
    """Ends the server in the middle of the call."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def variable(name: str) -> str:
    """What the server's environment holds."""
    return os.environ.get(name, "")


@server.tool(structured_output=False)
def process() -> str:
    """The server's process id."""
    return str(os.getpid())


@server.tool(name="admin.tools/grow")
async def grow(context: Context[Any]) -> str:
    """Makes one tool more, and says so."""
    server.add_tool(lambda: "new", name=f"grown_{len(await server.list_tools())}", description="New.")
    await context.notify_tools_changed()
    if context.request_context.session.protocol_version < "2026":
        await context.request_context.session.send_tool_list_changed()
    return "grown"


Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def http_app(old: bool) -> Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]:
    """The server over HTTP. It refuses a bearer of the word `wrong`; an old one does not know how to be discovered."""
    app = server.streamable_http_app()

    async def answer(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", []))
        refused = 401 if headers.get(b"authorization") == b"Bearer wrong" else 0
        if old and headers.get(b"mcp-method") == b"server/discover":
            refused = 400
        if not refused:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": refused, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    for switch in ("--old", "--deaf", "--wordy", "--fails"):
        parser.add_argument(switch, action="store_true")
    chosen = parser.parse_args()
    if chosen.fails:
        sys.exit(f"RuntimeError: the key {os.environ['PLAY_KEY']} is not known")
    if chosen.wordy:
        print("much ado\n" * 10_000, file=sys.stderr)
    if chosen.deaf:
        time.sleep(60)
    if chosen.port is None:
        server.run()
    else:
        config = uvicorn.Config(http_app(chosen.old), host="127.0.0.1", port=chosen.port, log_level="critical")
        config.timeout_graceful_shutdown = 1
        uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
