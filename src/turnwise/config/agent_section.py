"""The keys of agents in a configuration file, by kind."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationInfo
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from turnwise.agents.llm.agent import HISTORY, OUTPUT_RETRIES, RESULT_CHARACTERS
from turnwise.agents.llm.memory import NO_MEMORY, MemoryMode, MemoryUse
from turnwise.config.document import kind_of
from turnwise.config.stage_section import StageItem
from turnwise.config.task_section import StrategyItem, TaskEntry, UntilItem
from turnwise.config.tool_section import ModelItem, ToolItem
from turnwise.config.validation import AFTER_REMOVAL, OneOf, Section, mistake
from turnwise.facts.errors import AgentDefinitionError, ConfigError, FlowDefinitionError
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean
from turnwise.facts.memory import Speaker
from turnwise.facts.tree import COMPOSITES, AgentCard, AgentName, Kind, Pattern
from turnwise.ports.memory import FOUND


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
