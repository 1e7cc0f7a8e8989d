"""The keys of a flow's tasks, conditions and strategies in a configuration file."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, RootModel, create_model
from pydantic_core import PydanticCustomError

from turnwise.config.document import kind_of
from turnwise.config.tool_section import ToolItem
from turnwise.config.validation import OneOf, Section, keys_of, mistake, required_keys
from turnwise.facts.errors import PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean
from turnwise.flows.strategies import STRATEGY_OPTIONS, named_strategy

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
