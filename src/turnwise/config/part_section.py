"""The keys of an agent's parts in a configuration file: language models, tools and selectors."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, JsonValue, create_model
from pydantic_core import PydanticCustomError

from turnwise.config.document import kind_of
from turnwise.config.validation import OneOf, Section, mistake
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean
from turnwise.selection.policy import StageSpec
from turnwise.selection.stages import STAGE_OPTIONS

TOOL_NAMES = ("artifacts", "ask_user")
"""The built-in tools."""
_TOOL_FORMS = f"Write module:attribute, {', '.join(TOOL_NAMES)}, `{{mcp: …}}`, or `{{agent: name}}`."
_MODEL_FORMS = 'Write provider:name, or `{model: …, url: …, key: "${NAME}"}`, or a list of those.'


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


class OwnStage(Section):
    """A stage with a selector of the user's code."""

    thing: ClassVar[str] = "A stage"
    selector: str = Field(json_schema_extra={"not": {"enum": [*STAGE_OPTIONS]}})
    """The selector: a name from `selectors`, or module:attribute."""
    options: dict[str, JsonValue] = {}
    """Keyword arguments for the selector."""
    name: str | None = None
    """The stage's name; None means that of the selector."""


_MODELS_TRIED = "The language model, or a list of models that are tried in order."
ModelOptions = create_model(
    "ModelOptions", __base__=STAGE_OPTIONS["model"], model=(PlainModelItem, Field(description=_MODELS_TRIED))
)
"""The options of the selector `model`. Its models are written like those of agents."""


def _stage_section(selector: str, options: type[Fact]) -> type[Section]:
    """Creates the section model of one selector's stage."""
    fields: dict[str, Any] = {
        "thing": (ClassVar[str], "A stage"),
        "selector": (Literal[selector], Field(description="The selector of this stage.")),
        "options": (options, Field(default={}, description="The options of the selector.")),
        "name": (str | None, Field(default=None, description="The stage's name; None means that of the selector.")),
    }
    return create_model(f"{selector.capitalize()}Stage", __base__=Section, **fields)


_STAGE_OPTIONS = {**STAGE_OPTIONS, "model": ModelOptions}
_STAGES = {("selector", name): _stage_section(name, options) for name, options in _STAGE_OPTIONS.items()}
_NO_STAGE = ("A stage is a selector's name or keys and values; this is {given}.", "Write `- selector: name`.")
StageItem = Annotated[Any, OneOf({str: str, **_STAGES, dict: OwnStage}, _NO_STAGE)]


def stage_of(item: Any) -> StageSpec:
    """The stage of a policy that a `StageItem` describes."""
    if isinstance(item, str):
        return StageSpec(selector=item)
    return StageSpec(**item.model_dump(mode="json", by_alias=True, exclude_unset=True))
