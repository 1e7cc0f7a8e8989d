"""The bodies of our own API about messages. Facts stand in them as they are in the log."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from turnwise.facts.content import Content
from turnwise.facts.events import End, ErrorInfo
from turnwise.facts.fact import Fact
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.wire.bounds import MOST_CHARACTERS, PLAIN, SEGMENT

AnyFact = TypeVar("AnyFact", bound=Fact)
Kind = Literal["reply", "tool_result", "confirmation"]
"""What is waited for: any words of the user's, what a tool gave, or a person's leave to call it."""


def _read(fact: type[AnyFact]) -> Callable[[Any], AnyFact]:
    """Facts are strict: what came as JSON has to be read as JSON, not as Python's values."""

    def read(given: Any) -> AnyFact:
        try:
            return fact.model_validate_json(_as_json(given), extra="forbid")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            place = ".".join(map(str, _without_tags(first["loc"])))
            told = f"{place}: {first['msg']}" if place else first["msg"]
            # Braces would be taken for places to fill in.
            raise PydanticCustomError("fact", told.replace("{", "(").replace("}", ")")) from None

    return read


def _without_tags(place: Sequence[str | int]) -> Iterator[str | int]:
    """The kind of a part stands in the place behind its number, as if it were a field."""
    return (each for index, each in enumerate(place) if index < 2 or place[index - 2] != "parts")


def _as_json(given: Any) -> str:
    try:
        return json.dumps(given, allow_nan=False)
    except ValueError:
        raise PydanticCustomError("json", "It holds a number that is no JSON") from None


def _read_content(given: Any) -> str | Content:
    return given if isinstance(given, str) else _content(given)


_content = _read(Content)
Said = Annotated[str | Content, PlainValidator(_read_content, json_schema_input_type=str | Content)]
"""A text, or content with parts. One mistake is told, at its place, and not one for each of the two."""
Known = Annotated[MessageContext, BeforeValidator(_read(MessageContext))]
GivenId = Annotated[str | None, Field(default=None, min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN)]
GivenSessionId = Annotated[str | None, Field(default=None, min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT)]


class Body(BaseModel):
    """A request's body: what it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid")


class SendMessage(Body):
    """A message. `id` is the sender's own: the same id again is the same message, and gives the same answer."""

    content: Said = Field(examples=["Where is my order 1001?"])
    id: GivenId = Field(default=None, examples=["m-1"])
    context: Known = MessageContext()
    when_busy: Literal["queue", "reject", "interrupt"] | None = Field(
        default=None, description="What to do while another message of the session is answered; null = as configured."
    )
    deadline_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class SelectAgent(Body):
    """A message that is only judged."""

    content: Said = Field(examples=["Where is my order 1001?"])
    session_id: GivenSessionId = None
    context: Known = MessageContext()


class AnswerCall(Body):
    """An answer to what an invocation waits for. `call_id` is one of its `waits`.

    `id` is the sender's own of this message, as of any other; null = one made of invocation and call.
    """

    call_id: str = Field(min_length=1, max_length=1_000)
    id: GivenId = None


class AnswerWithText(AnswerCall):
    """For a `reply`: what the user says."""

    text: str = Field(min_length=1, examples=["Order 1001."])


class AnswerWithResult(AnswerCall):
    """For a `tool_result`: what the tool gave; `failed` says that `result` describes an error."""

    result: JsonValue
    failed: bool = False


class AnswerWithWord(AnswerCall):
    """For a `confirmation`: whether the tool may be called, and why not."""

    approved: bool
    reason: str = Field(default="", max_length=MOST_CHARACTERS)


def _which(given: Any) -> str | None:
    """Which answer it is, by what only that has."""
    return next((name for name in ("text", "result", "approved") if isinstance(given, dict) and name in given), None)


AnyAnswer = Annotated[
    Annotated[AnswerWithText, Tag("text")]
    | Annotated[AnswerWithResult, Tag("result")]
    | Annotated[AnswerWithWord, Tag("approved")],
    Discriminator(
        _which, custom_error_type="answer", custom_error_message="It needs one of the fields 'text', 'result' and 'approved'"
    ),
]


class OpenCall(BaseModel):
    """What an invocation waits for from outside: the result of this call, or the user's reply.

    kind: `reply`, any message of the user's; `tool_result`, what the tool gave; `confirmation`, whether it may be called.
    """

    invocation_id: str
    call_id: str
    kind: Kind
    agent: str
    tool: str = ""
    arguments: dict[str, JsonValue] = {}
    text: str = ""


class Answer(BaseModel):
    """What became of a message. `state` is `running` also while it is queued. `text` is what was said to the user so far.

    `end` is null unless it has ended by itself: not when it asked something that was answered since.
    """

    session_id: str
    message_id: str
    invocation_id: str | None
    state: Literal["running", "waiting", "ended"]
    text: str = ""
    end: End | None = None
    error: ErrorInfo | None = None
    selection: Selection | None = None
    waits: list[OpenCall] = []


class Stopping(BaseModel):
    """An invocation that was to be stopped. `end` says how it ended; null while it has not."""

    session_id: str
    invocation_id: str
    state: Literal["running", "waiting", "ended"]
    end: End | None = None
