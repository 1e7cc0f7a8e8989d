"""Builds the parts that a configuration file names: language models, tools and guardrails."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.config.app_file import GUARDRAILS, GuardrailSection
from turnwise.config.document import Document, Where
from turnwise.config.importing import resolve
from turnwise.config.part_section import TOOL_NAMES, AgentTool, Endpoint, ImportedModel, McpTools
from turnwise.facts.errors import AgentDefinitionError, TurnwiseError
from turnwise.guardrails.injection import InjectionMarks
from turnwise.guardrails.length import Length
from turnwise.guardrails.personal_data import PersonalData
from turnwise.guardrails.secrets import Secrets
from turnwise.guardrails.topics import BannedTopics
from turnwise.models.by_name import ModelEndpoint, model_of
from turnwise.ports.encoder import Encoder
from turnwise.ports.guardrail import Guardrail
from turnwise.ports.model import Model
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.built_in import ArtifactTools, ask_user
from turnwise.tools.function import FunctionTool
from turnwise.tools.mcp_toolset import McpServer


def build_model(document: Document, where: Where, item: Any) -> Model | None:
    """Builds the model of a `ModelItem`. Returns None if it has a problem. Opens no connection.

    In a list, later models are fallbacks of the first.
    """
    if isinstance(item, tuple):
        item = [build_model(document, (*where, index), each) for index, each in enumerate(item)]
    if document.has_problem(where):
        return None
    try:
        if isinstance(item, ImportedModel):
            return model_of(resolve(item.path, document.folder))
        return model_of(ModelEndpoint(item.model, item.url, item.key or "") if isinstance(item, Endpoint) else item)
    except TurnwiseError as error:
        document.report_error((*where, "import") if isinstance(item, ImportedModel) else where, error)
        return None


_BUILT_IN: Mapping[str, Callable[[], Tool | Toolset]] = {"artifacts": ArtifactTools, "ask_user": lambda: ask_user}
assert tuple(_BUILT_IN) == TOOL_NAMES


class AgentReference(NamedTuple):
    """Another agent used as a tool, or named by a flow."""

    name: str
    description: str | None
    """None = the agent's own description."""
    where: Where


def build_tools(document: Document, where: Where, items: Sequence[Any]) -> list[Tool | Toolset | AgentReference]:
    """Builds the tools of a list of `ToolItem`, in order. Reports and omits those with problems.

    Imports the modules they name; opens no connection.
    """
    found = [build_tool(document, (*where, index), item) for index, item in enumerate(items)]
    return [tool for tool in found if tool is not None]


def build_tool(document: Document, where: Where, item: Any) -> Tool | Toolset | AgentReference | None:
    """Builds the tool of a `ToolItem`. Returns None if it has a problem."""
    if document.has_problem(where):
        return None
    if isinstance(item, AgentTool):
        return AgentReference(item.agent, item.description, (*where, "agent"))
    try:
        if isinstance(item, McpTools):
            return _mcp_server(document, item)
        return _BUILT_IN[item]() if item in _BUILT_IN else _tool_from(resolve(item, document.folder), item)
    except TurnwiseError as error:
        document.report_error((*where, "mcp") if isinstance(item, McpTools) else where, error)
        return None


def built_in_tools() -> Mapping[str, Tool | Toolset]:
    """The built-in tools, by name."""
    return {name: make() for name, make in _BUILT_IN.items()}


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


def _mcp_server(document: Document, item: McpTools) -> McpServer:
    """Builds an MCP server from its section."""
    connection = item.mcp.model_dump(exclude_unset=True, exclude={"command"})
    if item.mcp.command is not None:
        program, *arguments = item.mcp.command
        folder = document.folder.resolve() / (item.mcp.cwd or ".")
        connection |= {"command": program, "args": arguments, "cwd": folder}
    return McpServer(**connection, **item.model_dump(exclude_unset=True, exclude={"mcp"}))


_CLASSES: Mapping[str, Callable[..., Guardrail]] = {
    "length": Length,
    "personal_data": PersonalData,
    "secrets": Secrets,
    "injection_marks": InjectionMarks,
    "banned_topics": BannedTopics,
}
assert _CLASSES.keys() == GUARDRAILS.keys()


def build_guardrail(item: str | GuardrailSection, encoder: Encoder | None) -> Guardrail:
    """Builds a built-in guardrail from its name, or from its name and options.

    Args:
        encoder: for guardrails that compare meanings; None = the built-in encoder.

    Raises:
        ConfigError: if its options are invalid.
    """
    options = {"use": item} if isinstance(item, str) else item.model_dump(exclude_unset=True)
    made = _CLASSES[options.pop("use")]
    needs = {"encoder": encoder} if made is BannedTopics else {}
    return made(**options, **needs)
