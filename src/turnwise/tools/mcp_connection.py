"""One connection to an MCP server, which is a program started here or a URL.

It runs in a separate task, because the library must be entered and left in the same task.
"""

import asyncio
import contextvars
import math
import os
from asyncio import to_thread
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path, PurePath
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import IncomingMessage
    from mcp_types import Tool

Streams = tuple[Any, Any]
"""The library's streams: messages from the server, and messages to it."""

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
LINES_KEPT = 5
LINE_CHARACTERS = 300
SECRET_CHARACTERS = 6


class ServerSignals:
    """Signals of a server outside the protocol, for error messages.

    Args:
        on_forgotten: Called when the server has forgotten the session.

    Attributes:
        lines: The last lines of its standard error.
        status: The status of its last HTTP response, if that was an error.
        forgotten: True if the server has forgotten the session.
    """

    def __init__(self, on_forgotten: Callable[[], None]) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.status: int | None = None
        self.forgotten = False
        self._on_forgotten = on_forgotten

    def answer(self, status: int, *, in_session: bool) -> None:
        """Records the status of an HTTP response."""
        self.status = status if status >= 400 else None
        if status == 404 and in_session:
            self.forgotten = True
            self._on_forgotten()

    def details(self) -> str:
        """Returns the details for the end of an error message; may be empty."""
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{status}; the last that it wrote was: {self.lines[-1]}" if self.lines else status


class Transport(Protocol):
    """A transport to an MCP server."""

    @property
    def name(self) -> str:
        """The server's default name."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show."""
        ...

    def open(self, signals: ServerSignals) -> AbstractAsyncContextManager[Streams]:
        """Opens the streams; they must be closed in the same task."""
        ...


class Program(NamedTuple):
    """A program that is started here and talks over standard input and output."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None

    @property
    def name(self) -> str:
        return PurePath(self.command).name

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.env.values())

    @asynccontextmanager
    async def open(self, signals: ServerSignals) -> AsyncIterator[Streams]:
        """Starts the program and yields its streams. Its error output goes to the log."""
        import anyio
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd)
        read_end, write_end = os.pipe()
        listener = Thread(target=_read_lines, args=(read_end, signals.lines), daemon=True)
        listener.start()
        try:
            with open(write_end, "w") as errors:  # noqa: ASYNC230 - a pipe that only the program writes to
                async with stdio_client(parameters, errors) as streams:
                    errors.close()
                    yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread(listener.join, 0.5)


class Address(NamedTuple):
    """A running server at a URL, over streamable HTTP."""

    url: str
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        parts = urlsplit(self.url)
        return *(word for value in self.headers.values() for word in value.split()), parts.password or "", parts.query

    @asynccontextmanager
    async def open(self, signals: ServerSignals) -> AsyncIterator[Streams]:
        """Connects to the URL and yields its streams."""
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async def record(response: httpx2.Response) -> None:
            signals.answer(response.status_code, in_session="mcp-session-id" in response.request.headers)

        timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout, event_hooks={"response": [record]}) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams


def transport_for(
    command: str | None,
    args: tuple[str, ...],
    env: Mapping[str, str],
    cwd: Path | None,
    url: str | None,
    headers: Mapping[str, str],
) -> Transport:
    """Returns the transport that the settings describe.

    Raises:
        ConfigError: There is neither a command nor a URL, or both, or a value is not valid.
    """
    if (command is None) == (url is None):
        raise ConfigError("An MCP server has either a command or a URL.", fix="Pass command=… or url=….")
    if url is None:
        if headers:
            raise ConfigError("An MCP server with a command has no headers.", fix="Pass env=… instead.")
        if not command:
            raise ConfigError("An MCP server's command is empty.", fix="Name the program.")
        return Program(command, args, env, cwd)
    if args or env or cwd is not None:
        raise ConfigError("An MCP server with a URL has no args, env or cwd.", fix="Leave them out, or pass command=….")
    _check_url(url)
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable() and value == value.strip()):
            raise ConfigError(
                f"The header {name!r} of an MCP server has an invalid value.", fix="Look for space or line breaks."
            )
    return Address(url, headers)


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """Replaces each secret in the text with a dash. Secrets of fewer than 6 characters stay."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_CHARACTERS:
            text = text.replace(secret, "—")
    return text


def _check_url(url: str) -> None:
    """Raises ConfigError for anything but an http or https URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # the error's text shows the URL, which may contain a key
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("An MCP server has no http or https URL.", fix="Give one such as https://host/mcp.")


def _read_lines(descriptor: int, lines: deque[str]) -> None:
    """Reads a program's standard error and keeps the last lines, so they do not appear on the terminal."""
    with open(descriptor, encoding="utf-8", errors="replace") as errors:
        while line := errors.readline(LINE_CHARACTERS):
            if line.strip():
                lines.append(line.strip())


TOOLS = 1_000
PAGES = 100
LEAVING_SECONDS = 10.0


class Connection:
    """A connection for one event loop. It starts to connect at once.

    Args:
        transport: How to reach the server.
        seconds: The time limit for connecting, and for each listing of tools.

    Attributes:
        signals: Signals of the server outside the protocol.
        was_connected: True once it was connected.
        problem: The reason why it could not connect or broke, if it is known.
        is_closed: True if it cannot be used any more.
        is_undelivered: True if it broke before the server can have received the last request.
    """

    def __init__(self, transport: Transport, seconds: float) -> None:
        self.signals = ServerSignals(self._on_lost)
        self.problem: BaseException | None = None
        self.was_connected = self.is_closed = self.is_undelivered = False
        self._transport, self._seconds = transport, seconds
        self._client: Client | None = None
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._cached_tools: tuple[Tool, ...] | None = None
        self._changes = 0
        self._gets_changes = True
        # An empty context: the task outlives the turn that opened the connection.
        self._task = asyncio.create_task(self._run(), context=contextvars.Context())

    async def client(self) -> "Client":
        """Waits for the connection and returns the client. Raises ConnectionError if there is none."""
        await self._ready.wait()
        if self._client is None:
            raise ConnectionError("The server cannot be reached.")
        return self._client

    async def tools(self) -> "tuple[Tool, ...]":
        """Returns the server's tools in its order.

        The list is cached until the server reports a change. It is not cached after the subscription to changes failed.

        Raises:
            ConnectionError: There is no connection.
            TimeoutError: The server did not answer in time.
            ValueError: There are too many tools.
            Exception: Any error of the library.
        """
        client = await self.client()
        if self._cached_tools is not None and self._gets_changes:
            return self._cached_tools
        changes = self._changes
        async with asyncio.timeout(self._seconds):
            listed = await _list_tools(client)
        if changes == self._changes:
            self._cached_tools = listed
        return listed

    async def diagnose(self, error: Exception) -> None:
        """Determines after a failed request whether the connection is closed, and why."""
        import httpx2
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        broken = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
        if broken or self.signals.forgotten or isinstance(error, ConnectionError):
            await self.close()
            is_unreachable = isinstance(self.problem, httpx2.ConnectError | httpx2.ConnectTimeout)
            self.is_undelivered = is_unreachable or self.signals.forgotten or isinstance(error, ConnectionError)

    async def close(self) -> None:
        """Closes the connection and waits for it. May be called from any task of its loop, any number of times."""
        self.is_closed = True
        self._stop.set()
        _, late = await asyncio.wait({self._task}, timeout=LEAVING_SECONDS)
        if late:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=LEAVING_SECONDS)

    async def _run(self) -> None:
        """Opens the connection within the timeout, keeps it until `_stop` is set, and keeps its error as `problem`."""
        import anyio

        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._seconds) as scope:
                async with self._connected() as client:
                    scope.deadline = math.inf
                    self._client, self.was_connected = client, True
                    self._ready.set()
                    await self._wait_for_stop(client)
            if scope.cancelled_caught:
                self.problem = TimeoutError(f"no answer within {self._seconds:g} s")
        except (Exception, BaseExceptionGroup) as error:
            self.problem = _first_of_group(error)
        finally:
            self.is_closed = True
            self._client = None
            self._ready.set()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["Client"]:
        from mcp import Client

        transport: Any = _monitored_streams(self._transport, self.signals, self._on_lost)
        async with Client(transport, message_handler=self._handle_message, cache=None) as client:
            yield client

    async def _wait_for_stop(self, client: "Client") -> None:
        """Waits for `_stop`, and watches the server's list of tools for changes."""
        import anyio

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_changes, client)
            await self._stop.wait()
            tasks.cancel_scope.cancel()

    async def _watch_changes(self, client: "Client") -> None:
        """Subscribes to changes of the tool list. Newer servers notify only subscribers; older ones notify every client."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        offered = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (offered and offered.list_changed):
            return
        self._gets_changes = False
        with suppress(Exception):  # after any end, the tools are listed every time
            async with client.listen(tools_list_changed=True) as changes:
                self._gets_changes = True
                self._drop_cache()
                async for _ in changes:
                    self._drop_cache()
        self._gets_changes = False

    async def _handle_message(self, message: "IncomingMessage") -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._drop_cache()

    def _drop_cache(self) -> None:
        self._changes += 1
        self._cached_tools = None

    def _on_lost(self) -> None:
        self.is_closed = True
        self._stop.set()


@asynccontextmanager
async def _monitored_streams(
    transport: Transport, signals: ServerSignals, on_lost: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Opens the transport's streams.

    Calls `on_lost` when the server stops sending, which the library does not report.
    """
    import anyio

    async def relay() -> None:
        with outward, suppress(anyio.BrokenResourceError):
            async for item in read:
                await outward.send(item)
        on_lost()

    async with transport.open(signals) as (read, write), anyio.create_task_group() as tasks:
        outward, inward = anyio.create_memory_object_stream[Any](0)
        with outward, inward:
            tasks.start_soon(relay)
            try:
                yield inward, write
            finally:
                tasks.cancel_scope.cancel()


async def _list_tools(client: "Client") -> "tuple[Tool, ...]":
    """Returns all tools of the server. Raises ValueError for too many."""
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if len(tools) > TOOLS:
            raise ValueError(f"It has more than {TOOLS:,} tools.")
        if cursor is None:
            return tuple(tools)
    raise ValueError(f"Its list of tools has more than {PAGES} pages.")


def _first_of_group(error: BaseException) -> BaseException:
    """Returns the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
