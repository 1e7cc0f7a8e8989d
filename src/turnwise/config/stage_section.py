"""The keys of selectors in a configuration file: stages of a policy, and the selector of a team."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, create_model

from turnwise.config.tool_section import PlainModelItem
from turnwise.config.validation import OneOf, Section
from turnwise.facts.fact import Fact
from turnwise.selection.policy import StageSpec
from turnwise.selection.stages import STAGE_OPTIONS


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
