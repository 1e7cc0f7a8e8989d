"""An MCP server's tools as a toolset."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from turnwise.facts.errors import ConfigError, MissingExtra, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, ToolCall, ToolRules, ToolSpec
from turnwise.tools.mcp.connection import Connection
from turnwise.tools.mcp.tool import McpTool
from turnwise.tools.mcp.transport import transport_for, without_secrets
from turnwise.tools.names import tool_name

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool as ListedTool

CONNECT_SECONDS = 15.0
WORDS_CHARACTERS = 500

T = TypeVar("T")


class McpServer:
    """A toolset with the tools of an MCP server.

    It connects when its tools are first needed, once for each event loop, and again after the connection broke.
    Standard error of a program is not shown, except its last line in an error. No message and no repr contains values
    of `env` or `headers`.

    Args:
        command: A program to start; it gets only a few of this process's variables, such as PATH.
        args: Arguments of the program.
        env: Further variables of the program.
        cwd: The program's working directory.
        url: A running server, over streamable HTTP.
        headers: Headers of every request.
        name: The name in messages; by default the program's name or the host.
        prefix: A prefix for the names of all tools.
        only: Uses only these tools, by the server's names.
        without: Omits these tools, by the server's names.
        confirm: Requires approval for all calls, for calls of the named tools, or as a function of the call decides.
        seconds: The time limit of a call; None means `limits.tool_seconds`.
        connect_seconds: The time limit for connecting, and for listing the tools.

    Raises:
        ConfigError: The settings are not valid.
        MissingExtra: The MCP library is not installed.
    """

    def __init__(
        self,
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        prefix: str = "",
        only: Collection[str] | None = None,
        without: Collection[str] = (),
        confirm: bool | Collection[str] | Callable[[ToolCall], bool | Awaitable[bool]] = False,
        seconds: float | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        try:
            import mcp  # noqa: F401 - imported here since it takes a second, too long for a turn
        except ImportError as error:
            raise MissingExtra("An MCP server", "mcp") from error
        if connect_seconds <= 0 or (seconds is not None and seconds <= 0):
            raise ConfigError("A time limit of an MCP server is not above 0.", fix="Give seconds, such as 15.")
        folder = None if cwd is None else Path(cwd)
        self._transport = transport_for(command, tuple(args), dict(env or {}), folder, url, dict(headers or {}))
        self.name = name or self._transport.name
        self._prefix, self._confirm = prefix, confirm
        self._only, self._without = only, without
        self._seconds, self._connect_seconds = seconds, connect_seconds
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        listed = await self._request(Connection.tools, again=True)
        return [self._tool(tool) for tool in listed if self._is_used(tool.name)]

    async def close(self) -> None:
        """Closes the connections of all running event loops. Idempotent; a later use connects again."""
        here = asyncio.get_running_loop()
        while self._connections:
            loop, connection = self._connections.popitem()
            if loop is here:
                await connection.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(connection.close(), loop))

    def _is_used(self, name: str) -> bool:
        return (self._only is None or name in self._only) and name not in self._without

    def _tool(self, listed: "ListedTool") -> Tool:
        """Returns one of the server's tools, with its name prefixed and its rules."""
        confirm = self._confirm
        rules = ToolRules(confirm=confirm if isinstance(confirm, bool) or callable(confirm) else listed.name in confirm)
        spec = ToolSpec(
            name=tool_name(listed.name, self._prefix),
            description=listed.description or listed.title or "",
            parameters=listed.input_schema,
        )
        return McpTool(listed.name, spec, replace(rules, seconds=self._seconds), self._call)

    async def _call(self, name: str, arguments: dict[str, Any]) -> "CallToolResult":
        async def call(connection: Connection) -> "CallToolResult":
            return await (await connection.client()).call_tool(name, arguments)

        return await self._request(call, again=False)

    def _connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None or connection.is_closed:
            connection = self._connections[loop] = Connection(self._transport, self._connect_seconds)
        return connection

    async def _request(self, send: Callable[[Connection], Awaitable[T]], *, again: bool, tries: int = 2) -> T:
        """Sends a request and returns its result.

        It is sent once more over a new connection if the first one broke before the server can have received it. With
        `again`, it is also repeated if the server may have received it.
        """
        connection = self._connection()
        try:
            return await send(connection)
        except Exception as error:
            await connection.diagnose(error)
            if tries > 1 and connection.was_connected and (connection.is_undelivered or (again and connection.is_closed)):
                return await self._request(send, again=again, tries=tries - 1)
            raise self._error(connection, error) from error

    def _error(self, connection: Connection, error: Exception) -> ToolFailed:
        """Returns the error that the model reads."""
        if isinstance(error, TimeoutError):
            problem, fix = f"does not answer within {self._connect_seconds:g} s", ""
        elif not connection.was_connected:
            problem, fix = f"cannot be reached: {_message_of(connection.problem)}", ""
        elif connection.is_closed:
            problem, fix = "went away during the call", "Whether it did anything is not known."
        else:
            problem, fix = f"says: {_message_of(error)}", ""
        message = f"The MCP server {self.name!r} {problem}{connection.signals.details()}."
        return ToolFailed(without_secrets(message, self._transport.secrets), fix=fix)


def _message_of(error: BaseException | None) -> str:
    text = str(error) or type(error).__name__
    return (text if len(text) <= WORDS_CHARACTERS else text[: WORDS_CHARACTERS - 1] + "…").rstrip(".")
