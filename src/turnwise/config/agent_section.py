"""The keys of agents in a configuration file, by kind, with the models, tools and tasks that they name."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, JsonValue, RootModel, ValidationInfo, create_model
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from turnwise.agents.llm.agent import HISTORY, OUTPUT_RETRIES, RESULT_CHARACTERS
from turnwise.agents.llm.memory import NO_MEMORY, MemoryMode, MemoryUse
from turnwise.config.document import kind_of
from turnwise.config.validation import AFTER_REMOVAL, OneOf, Section, keys_of, mistake, required_keys
from turnwise.facts.cards import COMPOSITES, AgentCard, AgentName, Kind, Pattern
from turnwise.facts.errors import AgentDefinitionError, ConfigError, FlowDefinitionError, PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.memory import Speaker
from turnwise.facts.spelling import did_you_mean
from turnwise.flows.strategies import STRATEGY_OPTIONS, named_strategy
from turnwise.ports.memory import FOUND
from turnwise.selection.policy import StageSpec
from turnwise.selection.stages import STAGE_OPTIONS

TOOL_NAMES = ("artifacts", "ask_user")
"""The built-in tools."""
_TOOL_FORMS = f"Write module:attribute, {', '.join(TOOL_NAMES)}, `{{mcp: …}}`, or `{{agent: name}}`."
_MODEL_FORMS = 'Write provider:name, or `{model: …, url: …, key: "${NAME}"}`, or a list of those.'
_RESULT_FORMS = "Write text, `{labels: [one, other]}`, `{schema: …}`, or the import path of a type, such as `builtins:int`."


# Language models


class Endpoint(Section):
    """A language model at an OpenAI-compatible URL."""

    thing: ClassVar[str] = "A model"
    form: ClassVar[str] = _MODEL_FORMS
    model: str
    url: str
    key: str | None = None
    """None or empty = no API key is sent."""


class ImportedModel(Section):
    """A language model of the user's code."""

    thing: ClassVar[str] = "A model with 'import'"
    path: str = Field(alias="import")


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
    description: str | None = None
    """None = the agent's own description."""


class McpConnection(Fact):
    """How an MCP server is reached: a command that starts it, or its URL."""

    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}


_NO_CONFIRMATION = ("{name}: write true, false, or a list of tools that have to be confirmed.", "")
ConfirmItem = Annotated[Any, OneOf({bool: bool, list: tuple[str, ...]}, _NO_CONFIRMATION)]


class McpTools(Section):
    """The tools of an MCP server."""

    mcp: McpConnection
    name: str | None = None
    prefix: str = ""
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    confirm: ConfirmItem = False
    seconds: float | None = Field(default=None, gt=0)
    connect_seconds: float | None = Field(default=None, gt=0)


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


# Selectors: stages of a policy, and the selector of a team


class OwnStage(Section):
    """A stage with a selector of the user's code."""

    thing: ClassVar[str] = "A stage"
    selector: str = Field(json_schema_extra={"not": {"enum": [*STAGE_OPTIONS]}})
    options: dict[str, JsonValue] = {}
    name: str | None = None


ModelOptions = create_model("ModelOptions", __base__=STAGE_OPTIONS["model"], model=(PlainModelItem, ...))
"""The options of the selector `model`. Its models are written like those of agents."""


def _stage_section(selector: str, options: type[Fact]) -> type[Section]:
    fields: dict[str, Any] = {
        "thing": (ClassVar[str], "A stage"),
        "selector": (Literal[selector], ...),
        "options": (options, Field(default={})),
        "name": (str | None, None),
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


# Flows: tasks and conditions


class Labels(Section):
    """A result that is one of some labels."""

    labels: list[JsonValue]


class ResultSchema(Section):
    """A result with a JSON schema."""

    json_schema: dict[str, JsonValue] = Field(alias="schema")


def _is_result_name(value: Any) -> bool:
    return isinstance(value, str) and (value == "text" or ":" in value)


_ResultName = Annotated[str, Field(json_schema_extra={"pattern": "^text$|:"})]
_RESULTS: Mapping[Any, Any] = {_is_result_name: _ResultName, "labels": Labels, "schema": ResultSchema}
ResultItem = Annotated[Any, OneOf(_RESULTS, ("This is no kind of result.", _RESULT_FORMS))]


class TaskEntry(Section):
    """A task of a flow."""

    thing: ClassVar[str] = "A task"
    form: ClassVar[str] = "Write `name:`, and what is to be done as `objective:`."
    name: str
    objective: str = ""
    agents: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    parent: str | None = None
    interactive: bool = False
    run_if: Literal["success", "always"] = "success"
    result: ResultItem = "text"
    tools: tuple[ToolItem, ...] = ()


class UntilList(RootModel["tuple[UntilItem, ...]"]):
    """Conditions of which one is enough."""

    root: "tuple[UntilItem, ...]" = Field(min_length=1)


class UntilKeys(Section):
    """Conditions of which one is enough, by key."""

    model_config = {"json_schema_extra": {"minProperties": 1}}
    thing: ClassVar[str] = "A condition"
    any_complete: "TaskNames" = []
    any_failed: "TaskNames" = []
    max_turns: int = Field(default=0, ge=1)
    max_model_calls: int = Field(default=0, ge=1)
    any: "tuple[UntilItem, ...]" = Field(default=(), min_length=1)
    all: "tuple[UntilItem, ...]" = Field(default=(), min_length=1)


def _one_name(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TaskNames = Annotated[list[str], BeforeValidator(_one_name, json_schema_input_type=str | list[str])]
UNTIL_NAMES = ("all_complete", "any_complete", "any_failed")


def _known_condition(name: str) -> str:
    if name not in UNTIL_NAMES:
        raise mistake(
            f"There is no condition {name!r}.", did_you_mean(name, dict.fromkeys((*UNTIL_NAMES, *keys_of(UntilKeys))))
        )
    return name


def _no_condition(value: Any) -> PydanticCustomError:
    found = kind_of(value or None)
    return mistake(f"A condition is a name, or keys and values; this is {found}.", "Write `any_failed`, or `max_turns: 20`.")


def _has_keys(value: Any) -> bool:
    return isinstance(value, dict) and bool(value)


_Condition = Annotated[str, AfterValidator(_known_condition), Field(json_schema_extra={"enum": [*UNTIL_NAMES]})]
_CONDITIONS: Mapping[Any, Any] = {str: _Condition, list: UntilList, _has_keys: UntilKeys}
UntilItem = Annotated[Any, OneOf(_CONDITIONS, _no_condition)]


def _known_strategy(name: str) -> str:
    try:
        named_strategy(name)
    except PolicyError as error:
        raise mistake(error.problem, error.fix) from None
    return name


def _strategy_section(name: str, options: type[Fact]) -> type[Section]:
    fields: dict[str, Any] = {"__base__": (Section, options), "use": (Literal[name], ...)}
    model: type[Section] = create_model(f"{name.title()}Strategy", **fields)
    return model


def _no_strategy(value: Any) -> PydanticCustomError:
    use = value.get("use") if isinstance(value, dict) else None
    if isinstance(use, str):
        return mistake(f"There is no strategy {use!r}.", did_you_mean(use, STRATEGY_OPTIONS), "use")
    if isinstance(value, dict):
        return mistake("A strategy has its name below 'use'.", "Write `{use: popcorn}`.")
    return mistake(f"{{name}} should be a name or keys and values, but is {kind_of(value)}.", "Write `strategy: popcorn`.")


_PLAIN_STRATEGIES = [name for name, options in STRATEGY_OPTIONS.items() if not required_keys(options)]
_Strategy = Annotated[str, AfterValidator(_known_strategy), Field(json_schema_extra={"enum": _PLAIN_STRATEGIES})]
_STRATEGIES = {("use", name): _strategy_section(name, options) for name, options in STRATEGY_OPTIONS.items()}
StrategyItem = Annotated[Any, OneOf({str: _Strategy, **_STRATEGIES}, _no_strategy)]


# Agents


def _regex_alone(value: Any) -> Any:
    return {"regex": value} if isinstance(value, str) else value


_PatternItem = Annotated[Pattern, BeforeValidator(_regex_alone, json_schema_input_type=str | Pattern)]


class AgentSection(Section, AgentCard):
    """The keys that agents of all kinds have."""

    error: ClassVar[type[ConfigError] | None] = AgentDefinitionError
    patterns: tuple[_PatternItem, ...] = ()
    children: "tuple[AgentItem, ...]" = ()

    @classmethod
    def fix_of_unknown(cls, key: str) -> str:
        """Names the kind that has the key, or the closest key."""
        kind = next((kind for kind, section in AGENT_SECTIONS.items() if key in section.model_fields), None)
        return f"It belongs to agents of kind {kind}." if kind else super().fix_of_unknown(key)


class FunctionSection(AgentSection):
    """A function or an agent of the user's code, with the fields of its card that differ."""

    form: ClassVar[str] = "Write `run: module:attribute`, the function that answers."
    name: AgentName = ""
    """By default the name that it has in code."""
    kind: Literal["function", "remote", "llm"] = "function"
    run: str


class CompositeSection(AgentSection):
    """A composite: runs its children."""

    children: "tuple[AgentItem, ...]"


class SequentialSection(CompositeSection):
    """Runs its children one after the other."""

    kind: Literal["sequential"]


class ParallelSection(CompositeSection):
    """Runs its children at the same time."""

    kind: Literal["parallel"]


class LoopSection(CompositeSection):
    """Runs its children again and again."""

    kind: Literal["loop"]
    max_iterations: int = Field(default=10, ge=1)


class TeamSection(CompositeSection):
    """Its children talk in turns."""

    kind: Literal["team"]
    selector: StageItem = "conversational"
    lead: str | None = None
    ends: Literal["untagged", "escalated"] = "untagged"


class HistoryEntry(Fact):
    """How much of the conversation a model gets."""

    tokens: int = Field(default=HISTORY.tokens, ge=1)
    events: int = Field(default=HISTORY.events, ge=1)


class MemoryUseEntry(Section):
    """How a model uses what is known of the user beyond the session."""

    thing: ClassVar[str] = "The use of the memory"
    mode: MemoryMode
    tokens: int = Field(default=NO_MEMORY.tokens, ge=1)
    entries: int = Field(default=NO_MEMORY.entries, ge=1, le=FOUND)
    said_by: tuple[Speaker, ...] = Field(default=NO_MEMORY.said_by, min_length=1)

    def use(self) -> MemoryUse:
        return MemoryUse(self.mode, self.tokens, self.entries, self.said_by)


_NO_MEMORY_USE = ("{name} should be a mode or keys and values; this is {given}.", f"Use {', '.join(get_args(MemoryMode))}.")
MemoryUseItem = Annotated[Any, OneOf({str: MemoryMode, dict: MemoryUseEntry}, _NO_MEMORY_USE)]


class ImportedInstructions(Section):
    """Instructions that a function of the context gives."""

    path: str = Field(alias="import")


_NO_INSTRUCTIONS = (
    "{name} should be text, but is {given}.",
    "Write text, below `instructions: |` if it has several lines, or `{import: module:function}`.",
)
_Instructions = Annotated[Any, OneOf({str: str, "import": ImportedInstructions}, _NO_INSTRUCTIONS)]


class LlmSection(AgentSection):
    """An agent that uses a language model."""

    kind: Literal["llm"]
    model: ModelItem
    instructions: _Instructions = ""
    turn_instructions: _Instructions = ""
    tools: tuple[ToolItem, ...] = ()
    output: str = ""
    """The import path of the type of its answers."""
    output_key: str | None = None
    output_retries: int = Field(default=OUTPUT_RETRIES, ge=0)
    settings: dict[str, JsonValue] = {}
    max_steps: int | None = Field(default=None, ge=1)
    history: HistoryEntry = HistoryEntry()
    result_characters: int = Field(default=RESULT_CHARACTERS, ge=1)
    summary_model: ModelItem = None
    names_next: bool = False
    callers_tools: bool = True
    memory: MemoryUseItem = NO_MEMORY.mode


class FlowSection(AgentSection):
    """Tasks that other agents do."""

    error: ClassVar[type[ConfigError] | None] = FlowDefinitionError
    kind: Literal["flow"]
    tasks: tuple[TaskEntry, ...] = Field(min_length=1)
    agents: tuple[str, ...] = ()
    strategy: StrategyItem = None
    until: UntilItem = None
    side_by_side: int = Field(default=1, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    targets: tuple[str, ...] | None = None


AGENT_SECTIONS: Mapping[str, type[AgentSection]] = {
    "function": FunctionSection,
    "llm": LlmSection,
    "sequential": SequentialSection,
    "parallel": ParallelSection,
    "loop": LoopSection,
    "team": TeamSection,
    "flow": FlowSection,
}
"""The keys of agents, by kind."""


def _is_imported(value: Any) -> bool:
    """Whether an agent has the keys of a function. An imported agent has them, whatever kind its card names."""
    kind = value.get("kind", "function") if isinstance(value, dict) else None
    return kind in ("function", "remote") or (kind == "llm" and "run" in value and "model" not in value)


def _no_agent(value: Any) -> PydanticCustomError:
    if isinstance(value, dict):
        names = ", ".join(map(repr, get_args(Kind)))
        return mistake(f"'kind' should be one of {names}.", did_you_mean(str(value["kind"]), get_args(Kind)), "kind")
    problem = f"An agent is an import path or keys and values; this is {kind_of(value)}."
    return mistake(problem, "Write module:attribute, or `name:` and `run:`.")


def _removed(value: None, info: ValidationInfo) -> None:
    if info.context != AFTER_REMOVAL:
        raise _no_agent(value)


_Removed = SkipJsonSchema[Annotated[None, AfterValidator(_removed)]]
_BY_KIND = {("kind", kind): section for kind, section in AGENT_SECTIONS.items() if kind != "function"}
_AGENTS: Mapping[Any, Any] = {str: str, type(None): _Removed, _is_imported: FunctionSection, **_BY_KIND}
AgentItem = Annotated[Any, OneOf(_AGENTS, _no_agent)]
"""An agent: an import path, or keys and values. None takes the place of one that is invalid."""
assert set(AGENT_SECTIONS) - {"function", "llm"} == COMPOSITES
for _kind, _section in AGENT_SECTIONS.items():
    _section.thing = f"An agent of kind {_kind!r}"
_RECURSIVE: tuple[type[BaseModel], ...] = (UntilList, UntilKeys, *AGENT_SECTIONS.values())
for _each in _RECURSIVE:
    _each.model_rebuild()
