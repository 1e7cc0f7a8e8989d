"""One connection to an MCP server, in a separate task, because the library must be entered and left in the same task."""

import asyncio
import contextvars
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from turnwise.tools.mcp.transport import ServerSignals, Streams, Transport

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import IncomingMessage
    from mcp_types import Tool

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
