"""One tool of an MCP server."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import re2
from pydantic import JsonValue

from turnwise.facts.errors import ArtifactError, ConfigError, ToolFailed
from turnwise.ports.tool import ToolCall

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from turnwise.ports.tool import ToolRules, ToolSpec

if TYPE_CHECKING:
    from mcp_types import CallToolResult

DIALECT = "$schema"


def with_safe_patterns(kind: Any) -> Any:
    """That validator class of jsonschema with all that matches patterns replaced.

    `unevaluatedProperties` lets everything through: whether it asks for a pattern cannot be told from where it stands.
    """
    from jsonschema.validators import extend

    plain = kind.VALIDATORS
    made = {"pattern": _pattern, "patternProperties": _pattern_properties, "unevaluatedProperties": _anything}
    if "additionalProperties" in plain:
        made["additionalProperties"] = _further_properties(plain["additionalProperties"])
    return extend(kind, {name: check for name, check in made.items() if name in plain})


def of_one_dialect(schema: Any) -> Any:
    """The schema without any word on its dialect: jsonschema would take a class of its own for a part that names one."""
    if isinstance(schema, Mapping):
        return {key: of_one_dialect(value) for key, value in schema.items() if key != DIALECT or not isinstance(value, str)}
    return [of_one_dialect(item) for item in schema] if isinstance(schema, list) else schema


def matches(pattern: str, text: str) -> bool | None:
    """Whether the pattern is found in the text; None when RE2 cannot read one of them."""
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


def _further_properties(plain: Any) -> Any:
    """The same check without patterns, of what no pattern takes."""

    def check(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            patterns = schema.get("patternProperties", {})
            left = {key: value for key, value in instance.items() if all(matches(each, key) is False for each in patterns)}
            named = {key: value for key, value in schema.items() if key != "patternProperties"}
            yield from plain(validator, allowed, left, named)

    return check


def _anything(*_: Any) -> tuple[()]:
    return ()


PROBLEMS_SHOWN = 5
WORDS_CHARACTERS = 200


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, JsonValue]) -> None:
    """ToolFailed says what does not fit, and where. A schema that cannot be used lets everything through: the server checks
    for itself; so does a pattern that RE2 cannot read. No pattern takes longer than its text is long."""
    from jsonschema import SchemaError
    from jsonschema.exceptions import relevance
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
        # An empty registry of its own: a schema of a server must not make this process fetch anything.
        validator = with_safe_patterns(kind)(of_one_dialect(schema), registry=Registry())
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
    words = message if len(message) <= WORDS_CHARACTERS else message[: WORDS_CHARACTERS - 1] + "…"
    return f"{json.dumps(place, ensure_ascii=False)}: {words}" if place else words


async def json_of(result: "CallToolResult", call: ToolCall, tool: str) -> JsonValue:
    """The structured result if there is one, else the text; a list when there is more than one piece, None for nothing.

    Images, sounds and files are saved as artifacts, and the model is told their names; without an artifact store it is
    told what there was. ToolFailed with the server's words when it says that the call failed.
    """
    if result.is_error:
        raise ToolFailed(_text_of(result) or f"{tool} failed and did not say why.")
    pieces: list[JsonValue] = [] if result.structured_content is None else [result.structured_content]
    for number, block in enumerate(result.content):
        # The text beside a structured result says the same once more.
        if block.type != "text" or result.structured_content is None:
            pieces.append(await _piece(block, f"{tool}_{call.id}_{number}", call))
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else pieces


def _text_of(result: "CallToolResult") -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


async def _piece(block: "ContentBlock", name: str, call: ToolCall) -> JsonValue:
    from mcp_types import AudioContent, ImageContent

    if block.type == "text":
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return await _saved(block.data, block.mime_type, name, call)
    if block.type == "resource_link":
        about = {"resource": block.uri, "name": block.name, "description": block.description, "mime_type": block.mime_type}
        return {key: value for key, value in about.items() if value is not None}
    held = block.resource
    if hasattr(held, "text"):
        return {"resource": held.uri, "text": held.text}
    return {"resource": held.uri, **await _saved(held.blob, held.mime_type, name, call)}


async def _saved(encoded: str, mime_type: str | None, name: str, call: ToolCall) -> dict[str, JsonValue]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return {"note": "Something came that is no valid base64."}
    kind = mime_type or "application/octet-stream"
    told: dict[str, JsonValue] = {"mime_type": kind, "bytes": len(data)}
    try:
        info = await call.context.artifacts.save(name, data, mime_type=kind)
    except (ArtifactError, ConfigError) as error:
        return {**told, "note": f"It was not kept: {error}"}
    return {"artifact": info.name, "version": info.version, **told}


Ask = Callable[[str, dict[str, Any]], Awaitable["CallToolResult"]]
"""Calls a tool of the server by the server's name for it; ToolFailed when that cannot be done."""


class McpTool:
    def __init__(self, name: str, spec: ToolSpec, rules: ToolRules, ask: Ask) -> None:
        """`name` is the server's, the one of `spec` the model's."""
        self.spec, self.rules = spec, rules
        self._name, self._ask = name, ask

    def __repr__(self) -> str:
        return f"McpTool({self.spec.name!r})"

    def check_call(self, call: ToolCall) -> None:
        check_arguments(self.spec.parameters, call.arguments)

    async def run(self, call: ToolCall) -> JsonValue:
        self.check_call(call)
        return await json_of(await self._ask(self._name, dict(call.arguments)), call, self.spec.name)
