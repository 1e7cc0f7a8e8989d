"""The tools of an MCP server, as a toolset."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from turnwise.facts.errors import ConfigError, MissingExtra, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, ToolCall, ToolRules, ToolSpec
from turnwise.tools.mcp.connection import Connection
from turnwise.tools.mcp.tool import McpTool
from turnwise.tools.mcp.transport import way_to, without_secrets
from turnwise.tools.names import tool_name

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool as ListedTool

CONNECT_SECONDS = 15.0
WORDS_CHARACTERS = 500

T = TypeVar("T")


class McpServer:
    """A toolset: what an MCP server offers. It connects when its tools are first asked for, once for each event loop, and
    again when the connection broke.

    command, args, env, cwd: a program to start and speak to; of this process's variables it gets only a few such as PATH.
    url, headers: a server that is there, over streamable HTTP. name: what messages call it; by default the program's name
    or the host. prefix: put before the name of every tool. only, without: which of its tools, by the server's names.
    confirm: whether a person must agree to a call: to all, to those of these names, or as a function decides by the call.
    seconds: the time limit of a call, None = limits.tool_seconds; connect_seconds: of connecting, and of listing the tools.

    What a program writes to its standard error is not shown, but for its last line when it fails. Values of `env` and
    `headers` are in no message and no repr. Raises ConfigError, MissingExtra without the library.
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
            import mcp  # noqa: F401 - it takes a second, which no turn should
        except ImportError as error:
            raise MissingExtra("An MCP server", "mcp") from error
        if connect_seconds <= 0 or (seconds is not None and seconds <= 0):
            raise ConfigError("A time limit of an MCP server is not above 0.", fix="Give seconds, such as 15.")
        folder = None if cwd is None else Path(cwd)
        self._way = way_to(command, tuple(args), dict(env or {}), folder, url, dict(headers or {}))
        self.name = name or self._way.name
        self._prefix, self._confirm = prefix, confirm
        self._only, self._without = only, without
        self._seconds, self._connect_seconds = seconds, connect_seconds
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        listed = await self._asked(Connection.tools, again=True)
        return [self._tool(tool) for tool in listed if self._wants(tool.name)]

    async def close(self) -> None:
        """Ends the connections of all event loops that still run. Idempotent; a later use connects anew."""
        here = asyncio.get_running_loop()
        while self._connections:
            loop, connection = self._connections.popitem()
            if loop is here:
                await connection.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(connection.close(), loop))

    def _wants(self, name: str) -> bool:
        return (self._only is None or name in self._only) and name not in self._without

    def _tool(self, listed: "ListedTool") -> Tool:
        confirm = self._confirm
        rules = ToolRules(confirm=confirm if isinstance(confirm, bool) or callable(confirm) else listed.name in confirm)
        spec = ToolSpec(
            name=tool_name(listed.name, self._prefix),
            description=listed.description or listed.title or "",
            parameters=listed.input_schema,
        )
        return McpTool(listed.name, spec, rules._replace(seconds=self._seconds), self._call)

    async def _call(self, name: str, arguments: dict[str, Any]) -> "CallToolResult":
        async def call(connection: Connection) -> "CallToolResult":
            return await (await connection.client()).call_tool(name, arguments)

        return await self._asked(call, again=False)

    def _connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None or connection.over:
            connection = self._connections[loop] = Connection(self._way, self._connect_seconds)
        return connection

    async def _asked(self, question: Callable[[Connection], Awaitable[T]], *, again: bool, tries: int = 2) -> T:
        """The answer; asked once more, over a new connection, when this one broke before the server can have heard.

        again: also when it may have heard.
        """
        connection = self._connection()
        try:
            return await question(connection)
        except Exception as error:
            await connection.settle(error)
            if tries > 1 and connection.stood and (connection.unheard or (again and connection.over)):
                return await self._asked(question, again=again, tries=tries - 1)
            raise self._failed(connection, error) from error

    def _failed(self, connection: Connection, error: Exception) -> ToolFailed:
        """The error in words for the model."""
        if isinstance(error, TimeoutError):
            problem, fix = f"does not answer within {self._connect_seconds:g} s", ""
        elif not connection.stood:
            problem, fix = f"cannot be reached: {_words(connection.problem)}", ""
        elif connection.over:
            problem, fix = "went away during the call", "Whether it did anything is not known."
        else:
            problem, fix = f"says: {_words(error)}", ""
        words = f"The MCP server {self.name!r} {problem}{connection.seen.words()}."
        return ToolFailed(without_secrets(words, self._way.secrets), fix=fix)


def _words(error: BaseException | None) -> str:
    text = str(error) or type(error).__name__
    return (text if len(text) <= WORDS_CHARACTERS else text[: WORDS_CHARACTERS - 1] + "…").rstrip(".")
