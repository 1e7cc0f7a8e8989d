"""Reads the tools of an LLM agent or a task in a configuration file."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from turnwise.config.document import kind_of
from turnwise.config.importing import resolve
from turnwise.config.places import Document, Where
from turnwise.config.validation import validated
from turnwise.facts.errors import AgentDefinitionError, TurnwiseError
from turnwise.facts.fact import Fact
from turnwise.facts.spelling import did_you_mean
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.built_in import ArtifactTools, ask_user
from turnwise.tools.function import FunctionTool
from turnwise.tools.mcp import McpServer

BUILT_IN: Mapping[str, Callable[[], Tool | Toolset]] = {"artifacts": ArtifactTools, "ask_user": lambda: ask_user}
_FORMS = f"Write module:attribute, {', '.join(BUILT_IN)}, `{{mcp: …}}`, or `{{agent: name}}`."


class AgentReference(NamedTuple):
    """Another agent used as a tool, or named by a flow."""

    name: str
    description: str | None
    """None = the agent's own description."""
    where: Where


def read_tools(document: Document, where: Where, value: Any) -> list[Tool | Toolset | AgentReference] | None:
    """Reads a list of tools, in order. Returns None after it reported the problems.

    Imports the modules it names; opens no connection.
    """
    if not isinstance(value, list):
        document.report(where, f"'tools' should be a list, but is {kind_of(value)}.", "Write `- ` before each tool.")
        return None
    found = [_read(document, (*where, index), each) for index, each in enumerate(value)]
    tools = [tool for tool in found if tool is not None]
    return tools if len(tools) == len(found) else None


def _read(document: Document, where: Where, value: Any) -> Tool | Toolset | AgentReference | None:
    if isinstance(value, str):
        return _tool_by_name(document, where, value)
    if isinstance(value, dict) and "mcp" in value:
        return _mcp_server(document, where, value)
    if isinstance(value, dict) and "agent" in value:
        entry = validated(document, where, AgentToolEntry, value, AgentDefinitionError)
        return AgentReference(entry.agent, entry.description, (*where, "agent")) if entry else None
    close = did_you_mean(next(iter(value)), ("mcp", "agent")) if isinstance(value, dict) and value else _FORMS
    what = f"has the key {next(iter(value))!r}" if isinstance(value, dict) and value else f"is {kind_of(value)}"
    document.report(where, f"This is no tool: it {what}.", close, AgentDefinitionError)
    return None


def _tool_by_name(document: Document, where: Where, name: str) -> Tool | Toolset | None:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if ":" not in name:
        fix = f"{did_you_mean(name, BUILT_IN)} Or write an import path, module:attribute."
        document.report(where, f"There is no tool {name!r}.", fix, AgentDefinitionError)
        return None
    try:
        return _tool_from(resolve(name, document.folder), name)
    except TurnwiseError as error:
        document.report_error(where, error)
        return None


def _tool_from(imported: Any, path: str) -> Tool | Toolset:
    """Turns the object of an import path into a tool or a toolset.

    Raises:
        AgentDefinitionError: if the object is neither, nor a function.
    """
    if inspect.isclass(imported):
        raise AgentDefinitionError(f"{path} is a class, not a tool.", fix="Name a function, or an object made of that class.")
    if hasattr(imported, "spec") and hasattr(imported, "rules"):
        tool: Tool = imported
        return tool
    if callable(getattr(imported, "tools", None)):
        toolset: Toolset = imported
        return toolset
    if hasattr(imported, "card"):
        raise AgentDefinitionError(f"{path} is an agent.", fix="As a tool it is written `{agent: name}`, with its name.")
    if not callable(imported):
        raise AgentDefinitionError(
            f"{path} is of the type {type(imported).__name__}, not a tool.", fix="Name a function, a tool, or a toolset."
        )
    return FunctionTool(imported)


class AgentToolEntry(Fact):
    agent: str
    description: str | None = None


def _valid_confirmation(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        return value
    raise ValueError("write true, false, or a list of tools that have to be confirmed")


class _Reached(Fact):
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}


class McpServerEntry(Fact):
    mcp: _Reached
    name: str | None = None
    prefix: str = ""
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    confirm: Annotated[Any, AfterValidator(_valid_confirmation)] = False
    seconds: float | None = Field(default=None, gt=0)
    connect_seconds: float | None = Field(default=None, gt=0)


def _mcp_server(document: Document, where: Where, value: dict[str, Any]) -> McpServer | None:
    read = validated(document, where, McpServerEntry, value, AgentDefinitionError)
    if read is None:
        return None
    connection = read.mcp.model_dump(exclude_unset=True, exclude={"command"})
    if read.mcp.command is not None:
        program, *arguments = read.mcp.command
        folder = document.folder.resolve() / (read.mcp.cwd or ".")
        connection |= {"command": program, "args": arguments, "cwd": folder}
    try:
        return McpServer(**connection, **read.model_dump(exclude_unset=True, exclude={"mcp"}))
    except TurnwiseError as error:
        document.report_error((*where, "mcp"), error)
        return None
