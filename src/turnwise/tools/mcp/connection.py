"""One connection to an MCP server, in a task of its own: what the library enters there it has to leave there."""

import asyncio
import contextvars
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from turnwise.tools.mcp.transport import Seen, Streams, Way

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import IncomingMessage
    from mcp_types import Tool

TOOLS = 1_000
PAGES = 100
LEAVING_SECONDS = 10.0


class Connection:
    """Begins to connect at once; for one event loop. `seconds` bounds connecting, and each listing of tools.

    seen: what the server shows beside the protocol. stood: whether it was connected once. problem: why it could not be, or
    why it broke, as far as that is known. over: whether it is of no more use. unheard: whether it broke in a way that the
    server cannot have heard what was asked last.
    """

    def __init__(self, way: Way, seconds: float) -> None:
        self.seen = Seen(self._gone)
        self.problem: BaseException | None = None
        self.stood = self.over = self.unheard = False
        self._way, self._seconds = way, seconds
        self._client: Client | None = None
        self._settled, self._leave = asyncio.Event(), asyncio.Event()
        self._listed: tuple[Tool, ...] | None = None
        self._changes = 0
        self._hears_of_changes = True
        # Without the variables of whoever came first: it outlives their turn.
        self._task = asyncio.create_task(self._hold(), context=contextvars.Context())

    async def client(self) -> "Client":
        """The client, once it is connected. ConnectionError when it cannot be, or is no more."""
        await self._settled.wait()
        if self._client is None:
            raise ConnectionError("The server cannot be reached.")
        return self._client

    async def tools(self) -> "tuple[Tool, ...]":
        """The server's tools in its order, asked for again when it said that they changed, or would not say so.

        ConnectionError, TimeoutError, ValueError when there are too many, and what the library raises.
        """
        client = await self.client()
        if self._listed is not None and self._hears_of_changes:
            return self._listed
        changes = self._changes
        async with asyncio.timeout(self._seconds):
            listed = await _listed(client)
        if changes == self._changes:
            self._listed = listed
        return listed

    async def settle(self, error: Exception) -> None:
        """Told what came of a question: finds out whether the connection is over, and why."""
        import httpx2
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        broken = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
        if broken or self.seen.forgotten or isinstance(error, ConnectionError):
            await self.close()
            unreached = isinstance(self.problem, httpx2.ConnectError | httpx2.ConnectTimeout)
            self.unheard = unreached or self.seen.forgotten or isinstance(error, ConnectionError)

    async def close(self) -> None:
        """Leaves, and returns when that is done. From any task of its loop, any number of times."""
        self.over = True
        self._leave.set()
        _, late = await asyncio.wait({self._task}, timeout=LEAVING_SECONDS)
        if late:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=LEAVING_SECONDS)

    async def _hold(self) -> None:
        import anyio

        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._seconds) as scope:
                async with self._connected() as client:
                    scope.deadline = math.inf
                    self._client, self.stood = client, True
                    self._settled.set()
                    await self._stay(client)
            if scope.cancelled_caught:
                self.problem = TimeoutError(f"no answer within {self._seconds:g} s")
        except (Exception, BaseExceptionGroup) as error:
            self.problem = _first(error)
        finally:
            self.over = True
            self._client = None
            self._settled.set()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["Client"]:
        from mcp import Client

        transport: Any = _overheard(self._way, self.seen, self._gone)
        async with Client(transport, message_handler=self._notice, cache=None) as client:
            yield client

    async def _stay(self, client: "Client") -> None:
        import anyio

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear_of_changes, client)
            await self._leave.wait()
            tasks.cancel_scope.cancel()

    async def _hear_of_changes(self, client: "Client") -> None:
        """Servers of today tell of changes only whom they are asked to tell; those of yesterday tell everyone."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        offered = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (offered and offered.list_changed):
            return
        self._hears_of_changes = False
        with suppress(Exception):  # whatever ends it: from then on the tools are asked for every time
            async with client.listen(tools_list_changed=True) as changes:
                self._hears_of_changes = True
                self._changed()
                async for _ in changes:
                    self._changed()
        self._hears_of_changes = False

    async def _notice(self, message: "IncomingMessage") -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        self._listed = None

    def _gone(self) -> None:
        self.over = True
        self._leave.set()


@asynccontextmanager
async def _overheard(way: Way, seen: Seen, gone: Callable[[], None]) -> AsyncIterator[Streams]:
    """The way's streams; `gone` is called when the server stops speaking, which the library keeps to itself."""
    import anyio

    async def relay() -> None:
        with outward, suppress(anyio.BrokenResourceError):
            async for item in read:
                await outward.send(item)
        gone()

    async with way.open(seen) as (read, write), anyio.create_task_group() as tasks:
        outward, inward = anyio.create_memory_object_stream[Any](0)
        with outward, inward:
            tasks.start_soon(relay)
            try:
                yield inward, write
            finally:
                tasks.cancel_scope.cancel()


async def _listed(client: "Client") -> "tuple[Tool, ...]":
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


def _first(error: BaseException) -> BaseException:
    """What went wrong first, out of the groups that task groups raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
