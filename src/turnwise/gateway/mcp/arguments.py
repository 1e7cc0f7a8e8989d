"""The arguments of the tools: JSON schemas for models, and parsing."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from turnwise.config.validation import mistakes
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.wire.memories import MOST_QUERY
from turnwise.wire.messages import MOST_CHARACTERS

CALL_CHARACTERS = 1_000
PROBLEM_CHARACTERS = 300
Model = TypeVar("Model", bound=BaseModel)


class Arguments(BaseModel):
    """Base model. Unknown arguments are errors; null counts as absent."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AskAgent(Arguments):
    """Arguments of the tool of one agent."""

    message: str = Field(min_length=1, description="The user's message, with everything needed to answer it.")
    session: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="The conversation to continue, from an earlier answer. Omit it to start a new one.",
    )
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="Your own id for this message. Sending the same id again returns the same answer and runs nothing twice.",
    )
    answer_to: str | None = Field(
        default=None,
        min_length=1,
        max_length=CALL_CHARACTERS,
        description="The `call_id` of the wait that this message answers. Needs `session`.",
    )
    approved: bool | None = Field(
        default=None,
        description=(
            "Whether the user approves the tool call that `answer_to` names; give the reason as the message. "
            "Ask the user first."
        ),
    )


class Recall(Arguments):
    """Arguments of `recall`."""

    query: str = Field(min_length=1, max_length=MOST_QUERY, description="The text to look for, in words or as a question.")
    limit: int = Field(default=5, ge=1, le=50, description="The maximum number of entries.")


class Ask(AskAgent):
    """Arguments of `ask`."""

    agent: str | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_CHARACTERS,
        description="The agent that must answer. Omit it to select the best match.",
    )


class Select(Arguments):
    """Arguments of `select`."""

    message: str = Field(min_length=1, description="The user's message.")
    session: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="The conversation of the message. Omit it for a new one.",
    )


class Explain(Arguments):
    """Arguments of `explain`."""

    session: str = Field(min_length=1, max_length=MOST_CHARACTERS, description="The conversation.")
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="The id of the message to explain, from its answer. Omit it for the latest message.",
    )


def parse_arguments(model: type[Model], arguments: Mapping[str, Any] | None) -> Model:
    """Validates tool arguments. Raises RequestInvalid for the first mistake."""
    try:
        return model.model_validate(dict(arguments or {}))
    except ValidationError as error:
        found_mistakes = mistakes(error, model)
        # Report an unknown name before a missing one: it is often the missing one, misspelt.
        first = min(found_mistakes, key=lambda mistake: mistake.where[:1] in {(name,) for name in model.model_fields})
        more = f" (Mistakes in all: {len(found_mistakes)}.)" if len(found_mistakes) > 1 else ""
        hint = f"The arguments are: {', '.join(model.model_fields)}."
        problem = f"{first.problem[:PROBLEM_CHARACTERS]}{more}"
        raise RequestInvalid(problem, fix=f"{first.fix} {hint}".lstrip(), where=("arguments", *first.where[:1])) from None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Returns a model's JSON schema without titles; optional fields are not nullable."""
    schema = model.model_json_schema(schema_generator=_PlainSchema)
    return {name: value for name, value in schema.items() if name not in ("title", "description")}


class _PlainSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        default = super().default_schema(schema)
        if default.get("default", ...) is None:
            del default["default"]
        return default
