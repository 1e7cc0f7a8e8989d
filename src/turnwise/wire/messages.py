"""The bodies of the native API for messages. Facts appear as they are in the log."""

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
from turnwise.facts.waits import WaitKind

MOST_CHARACTERS = 200
MOST_ROWS = 200
MOST_SEQUENCE = 2**63 - 1
MOST_CURSOR = 2_000
SEGMENT = r"^[^/\x00]*[^/.\x00][^/\x00]*$"
"""The pattern of an id that is one path segment: no slash, and not `.` or `..`, which clients resolve."""
PLAIN = r"^[^\x00]+$"


AnyFact = TypeVar("AnyFact", bound=Fact)


def _read(fact: type[AnyFact]) -> Callable[[Any], AnyFact]:
    """Returns a validator that reads JSON values as JSON: facts are strict and would reject them as Python values."""

    def read(value: Any) -> AnyFact:
        try:
            return fact.model_validate_json(_as_json(value), extra="forbid")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            place = ".".join(map(str, _skip_tags(first["loc"])))
            text = f"{place}: {first['msg']}" if place else first["msg"]
            # pydantic would treat braces as placeholders.
            raise PydanticCustomError("fact", text.replace("{", "(").replace("}", ")")) from None

    return read


def _skip_tags(place: Sequence[str | int]) -> Iterator[str | int]:
    """Removes the part kinds from an error location, where they follow a part's index as if they were fields."""
    return (each for index, each in enumerate(place) if index < 2 or place[index - 2] != "parts")


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticCustomError("json", "It holds a number that is no JSON") from None


def _read_content(value: Any) -> str | Content:
    return value if isinstance(value, str) else _content(value)


_content = _read(Content)
ContentInput = Annotated[str | Content, PlainValidator(_read_content, json_schema_input_type=str | Content)]
"""Text, or content with parts. An error is reported once, not for each of the two alternatives."""
ContextInput = Annotated[MessageContext, BeforeValidator(_read(MessageContext))]
OptionalId = Annotated[str | None, Field(default=None, min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN)]
OptionalSessionId = Annotated[str | None, Field(default=None, min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT)]


class Body(BaseModel):
    """A request body. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class SendMessage(Body):
    """A message. `id` is the sender's: the same id is the same message, and gets the same answer."""

    content: ContentInput = Field(examples=["Where is my order 1001?"])
    id: OptionalId = Field(default=None, examples=["m-1"])
    context: ContextInput = MessageContext()
    when_busy: Literal["queue", "reject", "interrupt"] | None = Field(
        default=None, description="What to do while another message of the session is answered; null = as configured."
    )
    deadline_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class SelectAgent(Body):
    """A message to select an agent for, without sending it."""

    content: ContentInput = Field(examples=["Where is my order 1001?"])
    session_id: OptionalSessionId = None
    context: ContextInput = MessageContext()


class AnswerCall(Body):
    """An answer to an open wait. `call_id` is one of the invocation's `waits`.

    `id` is the sender's id of this message; null derives one from the invocation and the call.
    """

    call_id: str = Field(min_length=1, max_length=1_000)
    id: OptionalId = None


class AnswerWithText(AnswerCall):
    """Answers a `reply` with the user's text."""

    text: str = Field(min_length=1, examples=["Order 1001."])


class AnswerWithResult(AnswerCall):
    """Answers a `tool_result` with the tool's result. `failed` means that `result` describes an error."""

    result: JsonValue
    failed: bool = False


class AnswerWithWord(AnswerCall):
    """Answers a `confirmation`: whether the tool may be called, and why not."""

    approved: bool
    reason: str = Field(default="", max_length=MOST_CHARACTERS)


def _answer_tag(value: Any) -> str | None:
    """Returns the kind of answer, by its distinctive field."""
    return next((name for name in ("text", "result", "approved") if isinstance(value, dict) and name in value), None)


AnyAnswer = Annotated[
    Annotated[AnswerWithText, Tag("text")]
    | Annotated[AnswerWithResult, Tag("result")]
    | Annotated[AnswerWithWord, Tag("approved")],
    Discriminator(
        _answer_tag,
        custom_error_type="answer",
        custom_error_message="It needs one of the fields 'text', 'result' and 'approved'",
    ),
]


class OpenCall(BaseModel):
    """A call or question that the invocation waits for.

    `kind` is `reply` for any message of the user, `tool_result` for a tool's result, or `confirmation` for the approval
    of a call.
    """

    invocation_id: str
    call_id: str
    kind: WaitKind
    agent: str
    tool: str = ""
    arguments: dict[str, JsonValue] = {}
    text: str = ""


class Answer(BaseModel):
    """The status and answer of a message. `state` is `running` also while it is queued. `text` is the agents' text for the
    user so far.

    `end` is null unless this message's run has ended; a question that was answered since is no end.
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
    """An invocation that was asked to stop. `end` says how it ended; null while it has not."""

    session_id: str
    invocation_id: str
    state: Literal["running", "waiting", "ended"]
    end: End | None = None
