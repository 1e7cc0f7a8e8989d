"""The keys of agents in a configuration file, by kind, and of a flow's tasks, conditions and strategies."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, RootModel, ValidationInfo, create_model
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from turnwise.agents.llm.agent import HISTORY, OUTPUT_RETRIES, RESULT_CHARACTERS
from turnwise.agents.llm.memory import NO_MEMORY, MemoryMode, MemoryUse
from turnwise.config.document import kind_of
from turnwise.config.part_section import ModelItem, StageItem, ToolItem
from turnwise.config.validation import AFTER_REMOVAL, OneOf, Section, keys_of, mistake, required_keys
from turnwise.facts.errors import AgentDefinitionError, ConfigError, FlowDefinitionError, PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean
from turnwise.facts.memory import Speaker
from turnwise.facts.tree import COMPOSITES, AgentCard, AgentName, Kind, Pattern
from turnwise.flows.strategies import STRATEGY_OPTIONS, named_strategy
from turnwise.ports.memory import FOUND

_RESULT_FORMS = "Write text, `{labels: [one, other]}`, `{schema: …}`, or the import path of a type, such as `builtins:int`."


class Labels(Section):
    """A result that is one of some labels."""

    labels: list[JsonValue]
    """The possible results."""


class ResultSchema(Section):
    """A result with a JSON schema."""

    json_schema: dict[str, JsonValue] = Field(alias="schema")
    """The JSON schema of the result."""


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
    """The task's name, unique in its flow."""
    objective: str = ""
    """The task in words."""
    agents: tuple[str, ...] = ()
    """The agents that may do it, by name; by default the flow's."""
    depends_on: tuple[str, ...] = ()
    """Tasks that have to end before it begins."""
    parent: str | None = None
    """The task that it is a part of; None means none."""
    interactive: bool = False
    """True if the agent may ask the user."""
    run_if: Literal["success", "always"] = "success"
    """`success` skips the task when a dependency fails; `always` does it anyway."""
    result: ResultItem = "text"
    """The type of the result: `text`, labels, a JSON schema, or an import path."""
    tools: tuple[ToolItem, ...] = ()
    """Tools for a model that works on it."""


class UntilList(RootModel["tuple[UntilItem, ...]"]):
    """Conditions of which one is enough."""

    root: "tuple[UntilItem, ...]" = Field(min_length=1)


class UntilKeys(Section):
    """Conditions of which one is enough, by key."""

    model_config = {"json_schema_extra": {"minProperties": 1}}
    thing: ClassVar[str] = "A condition"
    any_complete: "TaskNames" = []
    """Ends when one of these tasks is complete."""
    any_failed: "TaskNames" = []
    """Ends when one of these tasks has failed."""
    max_turns: int = Field(default=0, ge=1)
    """Ends after this many turns."""
    max_model_calls: int = Field(default=0, ge=1)
    """Ends after this many calls of models."""
    any: "tuple[UntilItem, ...]" = Field(default=(), min_length=1)
    """Ends when one of these conditions is met."""
    all: "tuple[UntilItem, ...]" = Field(default=(), min_length=1)
    """Ends when all of these conditions are met."""


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
    use = (Literal[name], Field(description="The strategy that picks the next agent."))
    fields: dict[str, Any] = {"__base__": (Section, options), "use": use}
    model: type[Section] = create_model(f"{name.title()}Strategy", **fields)
    return model


def _no_strategy(value: Any) -> PydanticCustomError:
    """Returns the mistake of a value that is no strategy."""
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

UntilList.model_rebuild()
UntilKeys.model_rebuild()


def _regex_alone(value: Any) -> Any:
    return {"regex": value} if isinstance(value, str) else value


_PatternItem = Annotated[Pattern, BeforeValidator(_regex_alone, json_schema_input_type=str | Pattern)]


class AgentSection(Section, AgentCard):
    """The keys that agents of all kinds have."""

    error: ClassVar[type[ConfigError] | None] = AgentDefinitionError
    patterns: tuple[_PatternItem, ...] = ()
    """RE2 expressions that mark a message as this agent's: text, or keys and values."""
    children: "tuple[AgentItem, ...]" = ()
    """The agents below it, nested or by name."""

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
    """The kind of agent that the code has."""
    run: str
    """The function or agent, as module:attribute."""


class CompositeSection(AgentSection):
    """A composite: runs its children."""

    children: "tuple[AgentItem, ...]"
    """The agents that it runs, nested or by name."""


class SequentialSection(CompositeSection):
    """Runs its children one after the other."""

    kind: Literal["sequential"]
    """Runs its children one after the other."""


class ParallelSection(CompositeSection):
    """Runs its children at the same time."""

    kind: Literal["parallel"]
    """Runs its children at the same time."""


class LoopSection(CompositeSection):
    """Runs its children again and again."""

    kind: Literal["loop"]
    """Runs its children again and again."""
    max_iterations: int = Field(default=10, ge=1)
    """The most rounds."""


class TeamSection(CompositeSection):
    """Its children talk in turns."""

    kind: Literal["team"]
    """Lets its children talk in turns."""
    selector: StageItem = "conversational"
    """The selector of the next speaker: a selector, as in a policy."""
    lead: str | None = None
    """The child that works when the selector picks none; None means the first child."""
    ends: Literal["untagged", "escalated"] = "untagged"
    """When the team is done: `untagged` = an answer names no next speaker, `escalated` = an agent says so."""


class HistoryEntry(Fact):
    """How much of the conversation a model gets."""

    tokens: int = Field(default=HISTORY.tokens, ge=1)
    """The most tokens of one request, by estimate, with instructions and tools."""
    events: int = Field(default=HISTORY.events, ge=1)
    """The most events of one request."""


class MemoryUseEntry(Section):
    """How a model uses what is known of the user beyond the session."""

    thing: ClassVar[str] = "The use of the memory"
    mode: MemoryMode
    """`tool`: tools that recall and remember. `preload`: fitting entries come with the message. `both`, or `none`."""
    tokens: int = Field(default=NO_MEMORY.tokens, ge=1)
    """The most tokens of preloaded entries, by estimate."""
    entries: int = Field(default=NO_MEMORY.entries, ge=1, le=FOUND)
    """The most preloaded entries."""
    said_by: tuple[Speaker, ...] = Field(default=NO_MEMORY.said_by, min_length=1)
    """The speakers that preloaded entries come from."""

    def use(self) -> MemoryUse:
        return MemoryUse(self.mode, self.tokens, self.entries, self.said_by)


_NO_MEMORY_USE = ("{name} should be a mode or keys and values; this is {given}.", f"Use {', '.join(get_args(MemoryMode))}.")
MemoryUseItem = Annotated[Any, OneOf({str: MemoryMode, dict: MemoryUseEntry}, _NO_MEMORY_USE)]


class ImportedInstructions(Section):
    """Instructions that a function of the context gives."""

    path: str = Field(alias="import")
    """The import path of a function of the context, as module:function."""


_NO_INSTRUCTIONS = (
    "{name} should be text, but is {given}.",
    "Write text, below `instructions: |` if it has several lines, or `{import: module:function}`.",
)
_Instructions = Annotated[Any, OneOf({str: str, "import": ImportedInstructions}, _NO_INSTRUCTIONS)]


class LlmSection(AgentSection):
    """An agent that uses a language model."""

    kind: Literal["llm"]
    """Answers with a language model."""
    model: ModelItem
    """The language model, or a list of models that are tried in order."""
    instructions: _Instructions = ""
    """The system instructions: text with `{key}` for values of the state, or a function."""
    turn_instructions: _Instructions = ""
    """Instructions that change from turn to turn. They come last, so that the provider's cache of the rest stays valid."""
    tools: tuple[ToolItem, ...] = ()
    """What the model may call."""
    output: str = ""
    """The import path of the type of its answers."""
    output_key: str | None = None
    """The key of the state that gets the answer; None stores none."""
    output_retries: int = Field(default=OUTPUT_RETRIES, ge=0)
    """How often the model may try again when an answer does not have the type of `output`."""
    settings: dict[str, JsonValue] = {}
    """Settings that are passed on to the provider, such as `temperature`."""
    max_steps: int | None = Field(default=None, ge=1)
    """The most model calls in one run; None means `limits.steps`."""
    history: HistoryEntry = HistoryEntry()
    """How much of the conversation the model gets."""
    result_characters: int = Field(default=RESULT_CHARACTERS, ge=1)
    """The most characters of a tool's result that the model gets."""
    summary_model: ModelItem = None
    """The model that summarizes what soon exceeds the history; None summarizes nothing."""
    names_next: bool = False
    """True lets the model name the next speaker, in teams and policies that obey it."""
    callers_tools: bool = True
    """False ignores the tools that callers offer with their messages."""
    memory: MemoryUseItem = NO_MEMORY.mode
    """How the model uses what is remembered of the user."""


class FlowSection(AgentSection):
    """Tasks that other agents do."""

    error: ClassVar[type[ConfigError] | None] = FlowDefinitionError
    kind: Literal["flow"]
    """Does tasks with its agents."""
    tasks: tuple[TaskEntry, ...] = Field(min_length=1)
    """The tasks; their order decides between those that are ready."""
    agents: tuple[str, ...] = ()
    """Agents from anywhere in the tree, for tasks that name none; by default the children."""
    strategy: StrategyItem = None
    """Picks the next agent when none is working and none was named; None means `popcorn`."""
    until: UntilItem = None
    """Ends the flow before all tasks are complete; None never does."""
    side_by_side: int = Field(default=1, ge=1)
    """How many agents may work at the same time."""
    max_turns: int | None = Field(default=None, ge=1)
    """The most turns, after which it ends as `limit:turns`; None means 10 for each task."""
    targets: tuple[str, ...] | None = None
    """Only these tasks and their dependencies are done; None means all."""


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
    """Whether an agent has the keys of a function. An imported agent has them, even if its card names another kind."""
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
for _each in AGENT_SECTIONS.values():
    _each.model_rebuild()
