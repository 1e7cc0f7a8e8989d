"""The keys of language models and tools in a configuration file."""

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from turnwise.config.document import kind_of
from turnwise.config.validation import OneOf, Section, mistake
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean

TOOL_NAMES = ("artifacts", "ask_user")
"""The built-in tools."""
_TOOL_FORMS = f"Write module:attribute, {', '.join(TOOL_NAMES)}, `{{mcp: …}}`, or `{{agent: name}}`."
_MODEL_FORMS = 'Write provider:name, or `{model: …, url: …, key: "${NAME}"}`, or a list of those.'


# Language models


class Endpoint(Section):
    """A language model at an OpenAI-compatible URL."""

    thing: ClassVar[str] = "A model"
    form: ClassVar[str] = _MODEL_FORMS
    model: str
    """The model's name at the service."""
    url: str
    """The base URL of an OpenAI-compatible service."""
    key: str | None = None
    """None or empty = no API key is sent."""


class ImportedModel(Section):
    """A language model of the user's code."""

    thing: ClassVar[str] = "A model with 'import'"
    path: str = Field(alias="import")
    """The import path of a language model, as module:attribute."""


_NO_MODEL = ("Here a model was expected, but this is {given}.", _MODEL_FORMS)
_OneModel = Annotated[Any, OneOf({str: str, "import": ImportedModel, dict: Endpoint}, _NO_MODEL)]
ModelItem = Annotated[Any, OneOf({list: tuple[_OneModel, ...], object: _OneModel}, _NO_MODEL)]
"""A model, or a list of models, tried in order."""
_PlainModel = Annotated[Any, OneOf({str: str, dict: Endpoint}, _NO_MODEL)]
PlainModelItem = Annotated[Any, OneOf({list: tuple[_PlainModel, ...], object: _PlainModel}, _NO_MODEL)]
"""As `ModelItem`, without models of the user's code."""


# Tools


class AgentTool(Section):
    """Another agent as a tool."""

    agent: str
    """The agent's name."""
    description: str | None = None
    """None = the agent's own description."""


class McpConnection(Fact):
    """How an MCP server is reached: a command that starts it, or its URL."""

    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The program to start and its arguments; in place of `url`."""
    env: dict[str, str] = {}
    """Further environment variables of the program."""
    cwd: str | None = None
    """The program's working directory; None means this process's."""
    url: str | None = None
    """The URL of a running server, over streamable HTTP; in place of `command`."""
    headers: dict[str, str] = {}
    """Headers of every request to `url`."""


_NO_CONFIRMATION = ("{name}: write true, false, or a list of tools that have to be confirmed.", "")
ConfirmItem = Annotated[Any, OneOf({bool: bool, list: tuple[str, ...]}, _NO_CONFIRMATION)]


class McpTools(Section):
    """The tools of an MCP server."""

    mcp: McpConnection
    """How the server is reached."""
    name: str | None = None
    """The server's name in messages; None means the program's name or the host."""
    prefix: str = ""
    """A prefix for the names of all its tools."""
    only: tuple[str, ...] | None = None
    """The tools that are used, by the server's names; None means all."""
    without: tuple[str, ...] = ()
    """The tools that are left out, by the server's names."""
    confirm: ConfirmItem = False
    """Calls that need a person's approval: true for all, or a list of tools."""
    seconds: float | None = Field(default=None, gt=0)
    """The time limit of a call in seconds; None means `limits.tool_seconds`."""
    connect_seconds: float | None = Field(default=None, gt=0)
    """The time limit in seconds for connecting and listing tools; None means the standard one."""


def _no_tool(value: Any) -> PydanticCustomError:
    if isinstance(value, dict) and value:
        key = next(iter(value))
        return mistake(f"This is no tool: it has the key {key!r}.", did_you_mean(key, ("mcp", "agent")))
    return mistake(f"This is no tool: it is {kind_of(value)}.", _TOOL_FORMS)


def _known_tool(name: str) -> str:
    if name not in TOOL_NAMES and ":" not in name:
        fix = f"{did_you_mean(name, TOOL_NAMES)} Or write an import path, module:attribute."
        raise mistake(f"There is no tool {name!r}.", fix)
    return name


_TOOL_PATTERN = f"^({'|'.join(TOOL_NAMES)})$|:"
_ToolName = Annotated[str, AfterValidator(_known_tool), Field(json_schema_extra={"pattern": _TOOL_PATTERN})]
ToolItem = Annotated[Any, OneOf({str: _ToolName, "mcp": McpTools, "agent": AgentTool}, _no_tool)]
