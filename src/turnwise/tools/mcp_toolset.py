"""An MCP server's tools as a toolset: checks arguments, calls the server and converts the results."""

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import re2
from pydantic import JsonValue

from turnwise.facts.errors import ArtifactError, ConfigError, MissingExtra, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.tool import Tool, ToolCall, ToolRules, ToolSpec
from turnwise.tools.mcp_connection import Connection, transport_for, without_secrets
from turnwise.tools.names import tool_name

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, Tool as ListedTool

CONNECT_SECONDS = 15.0
MESSAGE_CHARACTERS = 500

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
    return (text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 1] + "…").rstrip(".")


DIALECT = "$schema"
PROBLEMS_SHOWN = 5
PROBLEM_CHARACTERS = 200

CallServer = Callable[[str, dict[str, Any]], Awaitable["CallToolResult"]]
"""Calls a tool by the server's name for it. Raises ToolFailed if the call fails."""


class McpTool:
    """A tool of an MCP server."""

    def __init__(self, name: str, spec: ToolSpec, rules: ToolRules, ask: CallServer) -> None:
        """Creates the tool. `name` is the server's name for it; `spec` has the name for the model."""
        self.spec, self.rules = spec, rules
        self._name, self._ask = name, ask

    def __repr__(self) -> str:
        return f"McpTool({self.spec.name!r})"

    def check_call(self, call: ToolCall) -> None:
        check_arguments(self.spec.parameters, call.arguments)

    async def run(self, call: ToolCall) -> JsonValue:
        self.check_call(call)
        return await result_to_json(await self._ask(self._name, dict(call.arguments)), call, self.spec.name)


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, JsonValue]) -> None:
    """Checks the arguments against the schema; its patterns run in linear time.

    An unusable schema or a pattern that RE2 cannot read accepts everything, because the server checks too.

    Raises:
        ToolFailed: The arguments do not fit; the message names the places and the problems.
    """
    from jsonschema import SchemaError
    from jsonschema.exceptions import relevance
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
        # An empty registry, so a server's schema cannot make this process fetch anything.
        validator = with_safe_patterns(kind)(without_dialect(schema), registry=Registry())
        problems = sorted(validator.iter_errors(dict(arguments)), key=relevance)
    except (SchemaError, Unresolvable, RecursionError):
        return
    if problems:
        lines = [_problem(list(problem.absolute_path), problem.message) for problem in problems[:PROBLEMS_SHOWN]]
        properties = ", ".join(map(str, schema.get("properties", {})))
        raise ToolFailed(
            f"The arguments do not fit: {'; '.join(lines)}.", fix=f"Parameters: {properties}." if properties else ""
        )


def _problem(path: list[str | int], message: str) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    words = message if len(message) <= PROBLEM_CHARACTERS else message[: PROBLEM_CHARACTERS - 1] + "…"
    return f"{json.dumps(place, ensure_ascii=False)}: {words}" if place else words


async def result_to_json(result: "CallToolResult", call: ToolCall, tool: str) -> JsonValue:
    """Converts the result of a call to JSON.

    It is the structured content if there is any, else the text. Several pieces become a list, and none becomes None.
    Images, audio and files are saved as artifacts and replaced with their names. Without an artifact store, a note
    describes them.

    Raises:
        ToolFailed: The server reports a failure; the message is the server's text.
    """
    if result.is_error:
        raise ToolFailed(_text_of(result) or f"{tool} failed and did not say why.")
    pieces: list[JsonValue] = [] if result.structured_content is None else [result.structured_content]
    for number, block in enumerate(result.content):
        # The text beside a structured result repeats it.
        if block.type != "text" or result.structured_content is None:
            pieces.append(await _block_value(block, f"{tool}_{call.id}_{number}", call))
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else pieces


def _text_of(result: "CallToolResult") -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


async def _block_value(block: "ContentBlock", name: str, call: ToolCall) -> JsonValue:
    """Returns a content block of a result as JSON; images, audio and files are saved as artifacts."""
    from mcp_types import AudioContent, ImageContent

    if block.type == "text":
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return await _saved(block.data, block.mime_type, name, call)
    if block.type == "resource_link":
        about = {"resource": block.uri, "name": block.name, "description": block.description, "mime_type": block.mime_type}
        return {key: value for key, value in about.items() if value is not None}
    resource = block.resource
    if hasattr(resource, "text"):
        return {"resource": resource.uri, "text": resource.text}
    return {"resource": resource.uri, **await _saved(resource.blob, resource.mime_type, name, call)}


async def _saved(encoded: str, mime_type: str | None, name: str, call: ToolCall) -> dict[str, JsonValue]:
    """Saves encoded data as an artifact and describes it; a note tells why it was not saved."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return {"note": "Something came that is no valid base64."}
    kind = mime_type or "application/octet-stream"
    info_fields: dict[str, JsonValue] = {"mime_type": kind, "bytes": len(data)}
    try:
        info = await call.context.artifacts.save(name, data, mime_type=kind)
    except (ArtifactError, ConfigError) as error:
        return {**info_fields, "note": f"It was not kept: {error}"}
    return {"artifact": info.name, "version": info.version, **info_fields}


def with_safe_patterns(kind: Any) -> Any:
    """Returns the jsonschema validator class with RE2 for everything that matches patterns.

    `unevaluatedProperties` accepts everything, because its patterns depend on other parts of the schema.
    """
    from jsonschema.validators import extend

    plain = kind.VALIDATORS
    replaced = {"pattern": _pattern, "patternProperties": _pattern_properties, "unevaluatedProperties": _anything}
    if "additionalProperties" in plain:
        replaced["additionalProperties"] = _without_pattern_matches(plain["additionalProperties"])
    return extend(kind, {name: check for name, check in replaced.items() if name in plain})


def without_dialect(schema: Any) -> Any:
    """Removes `$schema` from the schema and its parts; otherwise jsonschema would use another validator class for a part."""
    if isinstance(schema, Mapping):
        return {key: without_dialect(value) for key, value in schema.items() if key != DIALECT or not isinstance(value, str)}
    return [without_dialect(item) for item in schema] if isinstance(schema, list) else schema


def matches(pattern: str, text: str) -> bool | None:
    """Searches the text for the pattern. Returns None if RE2 cannot read one of them."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(text) is not None
    except (re2.error, UnicodeEncodeError):
        return None


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and matches(pattern, instance) is False:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, within in patterns.items():
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from validator.descend(value, within, path=name, schema_path=pattern)


def _without_pattern_matches(plain: Any) -> Any:
    """Returns the check without patterns, for properties that match no pattern."""

    def check(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            patterns = schema.get("patternProperties", {})
            remaining = {key: value for key, value in instance.items() if all(matches(each, key) is False for each in patterns)}
            without_patterns = {key: value for key, value in schema.items() if key != "patternProperties"}
            yield from plain(validator, allowed, remaining, without_patterns)

    return check


def _anything(*_: Any) -> tuple[()]:
    return ()
