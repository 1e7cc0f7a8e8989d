"""The part that all adapters share: the check of the library, the card, one turn of the agent, and the conversion of errors.

A turn streams chunks, records the answer, and asks the agent's questions.
"""

import importlib.util
import inspect
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents.function import make_card
from turnwise.agents.history import HistoryReader
from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, Part, TextPart, text_content
from turnwise.facts.errors import (
    AgentDefinitionError,
    AgentFailed,
    ConfigError,
    LimitReached,
    MissingExtra,
    ModelRefused,
    ModelUnavailable,
    TurnwiseError,
)
from turnwise.facts.events import USER, End, Event
from turnwise.facts.tree import AgentCard
from turnwise.facts.usage import Usage
from turnwise.ports.context import AgentContext, Show
from turnwise.tools.built_in import transfer_description
from turnwise.transcript.compile import compile_transcript
from turnwise.transcript.fences import PREAMBLE, attributed, escape_fences
from turnwise.transcript.view import Budget, as_text

ERROR_CHARACTERS = 500
_TRANSIENT = frozenset({408, 409, 425, 429})
_CONNECTION_ERRORS = frozenset(
    {"APIConnectionError", "APITimeoutError", "TransportError", "ServiceUnavailable", "ModelTimeoutError"}
)
"""Class names of client errors without a response: those of httpx and of the model libraries."""

NO_TARGETS = "No other agent can take over now. Answer yourself."

Explain = Callable[[Exception], TurnwiseError]
HISTORY = Budget(tokens=24_000, events=200)
"""The default budget of the conversation."""
_MARK = "<said "


def require_library(module: str, package: str, extra: str, minimum: tuple[int, ...]) -> None:
    """Checks that the library is installed in a recent version.

    pip does not refuse an older version that is installed already, and that version fails in the middle of a turn.

    Raises:
        MissingExtra: The module cannot be found.
        ConfigError: The package is older than `minimum`.
    """
    try:
        is_installed = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing too
        is_installed = False
    if not is_installed:
        raise MissingExtra(f"An agent of {package}", extra)
    try:
        installed = version(package)
    except PackageNotFoundError:  # a source checkout on the path has no version
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[: len(minimum)])
    if numbers < minimum:
        wanted = ".".join(map(str, minimum))
        raise ConfigError(
            f"{package} {installed} is installed; its agents need {wanted} or newer.",
            fix=f"Install it with: pip install '{package}>={wanted}'",
        )


def card_of(wrapped: object, name: str | None, description: str | None, fields: Mapping[str, Any]) -> AgentCard:
    """Builds the card of an adapter; name and description default to those of the wrapped object.

    Raises:
        AgentDefinitionError: There is no name.
    """
    card_name = name or getattr(wrapped, "name", None)
    if not isinstance(card_name, str) or not card_name:
        raise AgentDefinitionError(f"The {type(wrapped).__name__} has no name.", fix="Give the adapter a name.")
    about = getattr(wrapped, "description", None) if description is None else description
    return make_card({"kind": "llm", "name": card_name, "description": about if isinstance(about, str) else "", **fields})


def not_an_agent(wrapped: object, wanted: str) -> AgentDefinitionError:
    """Returns the error for an object that cannot be wrapped."""
    return AgentDefinitionError(f"A {type(wrapped).__name__} cannot be wrapped here.", fix=f"Give {wanted}.")


def model_error(agent: str, error: Exception) -> TurnwiseError:
    """Converts an error to one of ours.

    A service's message may repeat the conversation, so only the error's class and status are shown.

    Returns:
        ModelUnavailable or ModelRefused if the class or the HTTP status shows an error of a model service; AgentFailed
            otherwise.
    """
    first = _first_of_group(error)
    kind = type(first).__name__
    status = _status(first)
    if _is_connection_error(first) or (status is not None and (status in _TRANSIENT or status >= 500)):
        return ModelUnavailable(
            f"Agent {agent!r}: a model is not available: {_with_status(kind, status)}.", fix="Try again later."
        )
    if status is not None and status >= 400:
        return ModelRefused(
            f"Agent {agent!r}: a model refused the request: {_with_status(kind, status)}.",
            fix="The cause of this error says why.",
        )
    return AgentFailed(f"Agent {agent!r} raised {kind}: {error_text(first)}")


def too_many_steps(agent: str, error: Exception, raise_what: str) -> LimitReached:
    """Returns the error for a library's own limit of model calls; `raise_what` names its setting."""
    return LimitReached("steps", f"Agent {agent!r} did not come to an end: {error_text(error)}", fix=f"Raise {raise_what}.")


def error_text(error: BaseException) -> str:
    """Returns the error's message, cut to a limit, in a form that can be stored."""
    try:
        text = str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        text = "it cannot say what went wrong"
    return text if len(text) <= ERROR_CHARACTERS else f"{text[:ERROR_CHARACTERS]}…"


class Target(NamedTuple):
    """The agent that takes over."""

    agent: str
    message: str | None = None
    """The message that this agent answers instead of the user's; None means the user's message."""

    def to_json(self) -> JsonValue:
        """Returns the target as JSON, for the session state."""
        return {"agent": self.agent, "message": self.message}


class Targets:
    """The agents that may take over in this turn, and the one that was chosen.

    The transfer follows once the answer is recorded, so a resumed turn transfers without another run of the library.
    Tools of a library may run in several threads.
    """

    def __init__(self, described: Mapping[str, str], description: str) -> None:
        self.described, self.description = described, description
        self.chosen: Target | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, context: AgentContext) -> "Targets | None":
        """Returns the targets of this turn, or None if there are none."""
        return cls.even_none(context) if context.transfer_targets else None

    @classmethod
    def even_none(cls, context: AgentContext) -> "Targets":
        """Returns the targets of this turn. If there are none, every choice is refused."""
        described = {name: context.tree.card(name).description for name in context.transfer_targets}
        return cls(described, transfer_description(context))

    def schema(self) -> dict[str, JsonValue]:
        """Returns the tool's parameters as a JSON schema."""
        return transfer_schema(list(self.described))

    def choose(self, agent: object, message: object = None) -> str | None:
        """Stores the agent that takes over. The first choice counts.

        Returns:
            None, or the error text for the model if that agent cannot take over.
        """
        if not self.described:
            return NO_TARGETS
        if not isinstance(agent, str) or agent not in self.described:
            return f"There is no agent {agent!r} that could take over. Choose one of: {', '.join(self.described)}."
        with self._lock:
            if self.chosen is not None:
                return f"{self.chosen.agent} takes over already."
            self.chosen = Target(agent, message if isinstance(message, str) and message else None)
        return None


def transfer_schema(names: Sequence[str]) -> dict[str, JsonValue]:
    """Returns the parameters of a transfer tool as a JSON schema. Without names, any name is a valid argument."""
    agent: dict[str, JsonValue] = {"type": "string", "description": "Who is to answer."}
    if names:
        agent["enum"] = list(names)
    about = "The text to answer instead of the user's message. Leave it out as a rule."
    message: JsonValue = {"type": ["string", "null"], "description": about}
    return {"type": "object", "properties": {"agent": agent, "message": message}, "required": ["agent"]}


class TurnAnswer(NamedTuple):
    """The outcome of a run: an answer, a question to the user, or a transfer."""

    parts: Sequence[Part] = ()
    usage: Usage | None = None
    """The usage of its models; None if it is unknown."""
    question: str | None = None
    """The question to the user; None if the run is complete."""
    checkpoint: JsonValue = None
    """The data that the run needs to continue after the reply."""
    target: Target | None = None
    """The agent that takes over, if there is one."""


class ResumedRun(NamedTuple):
    """A run that continues after a question."""

    checkpoint: Any
    """The data that it stored with its question."""
    reply: Content
    """The user's reply."""


class PieceWriter:
    """Streams text chunks as partial events.

    A library may produce several texts before its answer, each under a different `key`. Only the text that becomes the
    answer keeps the event id of its chunks.
    """

    def __init__(self, context: AgentContext, show: Show) -> None:
        self._context, self._show = context, show
        self._shown: dict[str, tuple[Event, str]] = {}

    async def piece(self, text: str, key: str = "") -> None:
        """Emits the next chunk of the text with that key."""
        if not text or not self._context.config.streaming:
            return
        event, before = self._shown.get(key) or (self._context.event(), "")
        self._shown[key] = event, before + text
        await self._show(event.replace(content=text_content(text), partial=True))

    async def whole(self, parts: Sequence[Part], usage: Usage | None, *, ends: bool = True) -> Event:
        """Returns the event of the answer. Its text equals the chunks that were shown under its id."""
        content = Content(parts=tuple(parts))
        event = await self._event_of(content.text)
        actions = event.actions.replace(usage=usage, end=End() if ends else None)
        return event.replace(content=content, actions=actions)

    async def _event_of(self, text: str) -> Event:
        """Returns the event of a complete text: that of its streamed pieces, which get the missing rest, or a new one."""
        candidates = [(key, shown) for key, (_, shown) in self._shown.items() if shown and text.startswith(shown)]
        if not candidates:
            return self._context.event()
        key, shown = max(candidates, key=lambda each: len(each[1]))
        await self.piece(text[len(shown) :], key)
        return self._shown[key][0]


Work = Callable[[PieceWriter, ResumedRun | None], Awaitable[TurnAnswer]]


async def take_turn(context: AgentContext, work: Work, explain: Explain) -> None:
    """Runs `work` and emits its outcome. After a question, it waits and runs `work` again with the reply.

    Each run is recorded with its outcome, so a resumed turn does not repeat it. An exception of `work` is converted by
    `explain`; a TurnwiseError is raised unchanged.
    """
    place = f"waits:{context.invocation_id}:{context.event().branch}"
    resumed: ResumedRun | None = None
    for number in count(1):
        await context.once(f"answer#{number}", _event_maker(context, work, explain, place, resumed))
        waits = context.state.get(place)
        if waits is None:
            return
        if (target := waits.get("target")) is not None:
            del context.state[place]
            await context.transfer(target["agent"], message=target["message"])
            return
        reply = await context.ask(waits["question"])
        resumed = ResumedRun(waits["kept"], reply)


async def resolved(value: Any, context: AgentContext) -> Any:
    """Returns the value, or the result of the value if it is a function of the context, sync or async."""
    result = value(context) if callable(value) else value
    return await result if inspect.isawaitable(result) else result


def text_parts(text: str) -> tuple[Part, ...]:
    """Returns the text as parts: none if it is empty."""
    return (TextPart(text=text),) if text else ()


class ReadConversation(NamedTuple):
    """The conversation for one request."""

    messages: tuple[Content, ...]
    """Alternating messages of user and agent; the first and the last are the user's."""
    until: int
    """The sequence number of the newest event that was read."""


async def read_conversation(context: AgentContext, budget: Budget) -> ReadConversation:
    """Reads the conversation as this agent sees it. Other agents' words are marked, and the marks are explained."""
    events, until, reader = await _read(context, budget)
    return ReadConversation(
        _with_preamble(compile_transcript(events, reader.view, context.message, budget).messages, context), until
    )


async def new_message(context: AgentContext, budget: Budget, since: int) -> ReadConversation:
    """Reads only the new message, for an agent that stores the conversation itself.

    The message includes the words that others said after the event with sequence number `since`.
    """
    events, until, reader = await _read(context, budget)
    unheard = [event for event in events if (event.sequence or 0) > since and event.author != context.card.name]
    messages = compile_transcript(unheard, reader.view, context.message, budget).messages
    parts = [part for message in messages if message.role == "user" for part in message.parts]
    return ReadConversation(
        _with_preamble((Content(role="user", parts=tuple(_attributed(parts, context.message))),), context), until
    )


def usable_parts(content: Content) -> list[str | BlobPart]:
    """Returns the texts and files of a content. Our own tool calls are omitted."""
    return [piece for piece in map(_piece, content.parts) if piece]


def joined(pieces: Iterable[str | BlobPart]) -> str:
    """Joins the pieces to one text; a file becomes its name."""
    return "\n".join(each if isinstance(each, str) else f"[file: {each.name or each.mime_type}]" for each in pieces)


def _with_status(kind: str, status: int | None) -> str:
    return kind if status is None else f"{kind}, status {status}"


def _first_of_group(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_connection_error(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(base.__name__ in _CONNECTION_ERRORS for base in type(error).__mro__)


def _status(error: BaseException) -> int | None:
    """Returns the HTTP status of the error, under any of the attribute names that model clients use."""
    response = getattr(error, "response", None)
    for value in (getattr(error, "status_code", None), getattr(error, "code", None), getattr(response, "status_code", None)):
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
            return value
    return None


def _event_maker(
    context: AgentContext, work: Work, explain: Explain, place: str, resumed: ResumedRun | None
) -> Callable[[Show], Awaitable[Event]]:
    """Returns a function that does the work and makes the event that records it: answer, question or transfer."""

    async def make(show: Show) -> Event:
        writer = PieceWriter(context, show)
        began = time.perf_counter()
        try:
            answer = await work(writer, resumed)
        except TurnwiseError:
            raise
        except Exception as error:
            raise explain(error) from error
        usage = answer.usage and answer.usage.replace(ms=(time.perf_counter() - began) * 1000)
        if answer.question is not None:
            context.state[place] = {"question": answer.question, "kept": answer.checkpoint}
            return context.event(usage=usage)
        if answer.target is not None:
            context.state[place] = {"target": answer.target.to_json()}
            return await writer.whole(answer.parts, usage, ends=False)
        if resumed is not None:
            del context.state[place]
        return await writer.whole(answer.parts, usage)

    return make


def _attributed(parts: Sequence[Part], message: Content) -> list[Part]:
    """Returns the parts, with the user's earlier messages marked as earlier."""
    new_texts = {escape_fences(part.text) for part in message.parts if isinstance(part, TextPart)}
    plain = [place for place, part in enumerate(parts) if isinstance(part, TextPart) and not part.text.startswith(_MARK)]
    earlier = [place for place in plain[:-1] if getattr(parts[place], "text", "") not in new_texts]
    return [
        TextPart(text=attributed(USER, part.text)) if place in earlier and isinstance(part, TextPart) else part
        for place, part in enumerate(parts)
    ]


async def _read(context: AgentContext, budget: Budget) -> tuple[Sequence[Event], int, HistoryReader]:
    reader = HistoryReader(context, budget)
    events = await reader.events()
    return events, max((event.sequence or 0 for event in events), default=0), reader


def _with_preamble(messages: tuple[Content, ...], context: AgentContext) -> tuple[Content, ...]:
    """Explains the marks of other agents' text in the first message, if any message has such marks."""
    marked = any(
        isinstance(part, TextPart) and _MARK in part.text
        for message in messages
        if message.role == "user"
        for part in message.parts
    )
    if not marked:
        return messages
    first = messages[0]
    preamble = TextPart(text=f'You are "{context.card.name}".\n{PREAMBLE}')
    return (first.with_parts((preamble, *first.parts)), *messages[1:])


def _piece(part: Part) -> str | BlobPart:
    """Returns a part as text or blob; empty for parts that other libraries do not get."""
    match part:
        case TextPart(text=text):
            return text
        case DataPart(data=data):
            return as_text(data)
        case BlobPart():
            return part
        case ArtifactPart():
            return f"[file: {part.title or part.name}]"
    return ""
