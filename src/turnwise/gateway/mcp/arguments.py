"""What the tools take: as schemas for models, and as values."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from turnwise.config.validation import mistakes
from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.errors import RequestInvalid
from turnwise.wire.bounds import MOST_CHARACTERS

CALL_CHARACTERS = 1_000
PROBLEM_CHARACTERS = 300
Model = TypeVar("Model", bound=BaseModel)


class Arguments(BaseModel):
    """What it does not know is a mistake; null is as if it were not there."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AskAgent(Arguments):
    """Of the tool of one agent."""

    message: str = Field(min_length=1, description="What the user says, with all that is needed to answer it.")
    session: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="The conversation that this goes on with, as an answer named it. Leave it out to begin a new one.",
    )
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="A name of your own for this message. The same name again gives the same answer, and does nothing twice.",
    )
    answer_to: str | None = Field(
        default=None,
        min_length=1,
        max_length=CALL_CHARACTERS,
        description="The `call_id` of what an answer waits for, if the message is to answer exactly that. Needs `session`.",
    )
    approved: bool | None = Field(
        default=None,
        description=(
            "Whether the user allows what an answer asks leave for; with `answer_to`, and why as the message. "
            "Ask the user first."
        ),
    )


class Ask(AskAgent):
    """Of `ask`."""

    agent: str | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_CHARACTERS,
        description="The name of the agent that is to answer. Leave it out, and the one that fits best is selected.",
    )


class Select(Arguments):
    """Of `select`."""

    message: str = Field(min_length=1, description="What the user would say.")
    session: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="The conversation in which it would be said. Leave it out for a new one.",
    )


class Explain(Arguments):
    """Of `explain`."""

    session: str = Field(min_length=1, max_length=MOST_CHARACTERS, description="The conversation.")
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="The message whose decision is wanted, by the name that its answer told. Leave it out for the latest.",
    )


def parse_arguments(model: type[Model], given: Mapping[str, Any] | None) -> Model:
    """The arguments as a value. RequestInvalid tells the first mistake."""
    try:
        return model.model_validate(dict(given or {}))
    except ValidationError as error:
        found = mistakes(error, model)
        # A name that is not known is told before one that is missing: the one is often the other, misspelt.
        first = min(found, key=lambda mistake: mistake.where[:1] in {(name,) for name in model.model_fields})
        more = f" (Mistakes in all: {len(found)}.)" if len(found) > 1 else ""
        known = f"The arguments are: {', '.join(model.model_fields)}."
        problem = f"{first.problem[:PROBLEM_CHARACTERS]}{more}"
        raise RequestInvalid(problem, fix=f"{first.fix} {known}".lstrip(), where=("arguments", *first.where[:1])) from None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of that object: without titles that repeat names, and what may be left out is not null."""
    found = model.model_json_schema(schema_generator=_PlainSchema)
    return {name: value for name, value in found.items() if name not in ("title", "description")}


class _PlainSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        if found.get("default", ...) is None:
            del found["default"]
        return found
