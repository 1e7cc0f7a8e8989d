"""Streams a response as events of the Responses API, numbered from 0 without gaps.

response.created  response.in_progress
  for each message    output_item.added  content_part.added  output_text.delta …  output_text.done  content_part.done
                      output_item.done
  for each call       output_item.added  function_call_arguments.delta  function_call_arguments.done  output_item.done
response.completed | response.incomplete | response.failed

The stored events determine all events and their numbers; partial events only make them earlier. A client can therefore resume
from a number at any process. There are two exceptions. Text that was never stored, because a process or model
broke off, has numbers that are not sent again. A caller who does not see every tool call gets other numbers than one
who does.
"""

import json
import re
import secrets
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Any

from starlette.requests import HTTPConnection

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.facts.waits import calls_in
from turnwise.gateway.front import Front, redactor_of
from turnwise.gateway.openai.errors import error_of
from turnwise.gateway.openai.responses.response import Items, ResponseId, final_response
from turnwise.gateway.openai.responses.schema import CallItem, MessageItem, OutputText, ResponseObject
from turnwise.gateway.openai.responses.start import StartedResponse
from turnwise.gateway.problems import problem_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import MessageAborted, MessageCompleted, MessageStarted, TextPiece

PIECE_CHARACTERS = 8
"""The maximum number of non-space characters in a delta, usually a word."""

_PIECE = re.compile(rf"\s*\S{{1,{PIECE_CHARACTERS}}}|\s+")


def pieces_of(text: str) -> Iterator[str]:
    """Yields the deltas of a complete text."""
    for match in _PIECE.finditer(text):
        yield match[0]


class DeltaSplitter:
    """Splits a text that arrives in pieces into its deltas."""

    def __init__(self) -> None:
        self._tail = ""

    def feed(self, text: str) -> list[str]:
        """Returns the deltas that more text cannot change."""
        self._tail += text
        ready = list(pieces_of(self._tail))
        if ready and len(ready[-1].strip()) < PIECE_CHARACTERS:
            ready.pop()
        self._tail = self._tail[sum(map(len, ready)) :]
        return ready


Wire = dict[str, Any]
"""An event of the Responses API as JSON."""

_LAST = {"completed": "response.completed", "failed": "response.failed"}


class ResponseEvents:
    """Converts the events of one response to events of the Responses API, for one client. `blank` is the response
    without output.
    """

    def __init__(self, name: ResponseId, blank: ResponseObject, view: Redactor) -> None:
        self._name, self._blank, self.items = name, blank, Items(name, view)
        self._number, self._index = 0, 0
        self._open: _MessageInProgress | None = None

    def begin(self) -> Iterator[Wire]:
        """Yields the first events."""
        begun = self._blank.model_dump(mode="json")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def tell(self, event: Event) -> Iterator[Wire]:
        """Yields the events for a stored or partial event of the log."""
        for each in self.items.stream.feed(event):
            match each:
                case MessageStarted(partial):
                    blank = MessageItem(id=self._name.item(partial), status="in_progress", content=[], agent=partial.author)
                    self._open = yield from self._begin(blank)
                case TextPiece(_, text) if self._open is not None:
                    yield from self._deltas(self._open, self._open.splitter.feed(text))
                case MessageAborted() | MessageCompleted(_, ""):
                    yield from self._break_off()
            match self.items.item(each):
                case CallItem() as call:
                    yield from self._call(call)
                case MessageItem() as message:
                    yield from self._message(message)

    def end(self, response: ResponseObject) -> Iterator[Wire]:
        """Yields the last events, with the final response."""
        yield from self._break_off()
        yield self._event(_LAST.get(response.status, "response.incomplete"), response=response.model_dump(mode="json"))

    def problem(self, code: str | None, message: str, param: str | None = None) -> Wire:
        """Returns an event that ends the stream with an error."""
        return self._event("error", code=code, message=message, param=param)

    def _message(self, item: MessageItem) -> Iterator[Wire]:
        """Yields the events that complete a message: its beginning if it was not open, the missing text, the end."""
        if self._open is not None and self._open.item.id == item.id:
            message, self._open = self._open, None
        else:
            message = yield from self._begin(replaced(item, status="in_progress", content=[]))
        sent = "".join(message.sent)
        yield from self._deltas(message, pieces_of(item.text[len(sent) :]) if item.text.startswith(sent) else ())
        yield from self._done(message, item)

    def _begin(self, blank: MessageItem) -> Generator[Wire, None, "_MessageInProgress"]:
        """Yields the events that begin a message, and returns the message in progress."""
        message = _MessageInProgress(blank, self._index)
        self._index += 1
        yield self._event("response.output_item.added", output_index=message.index, item=blank.model_dump(mode="json"))
        part = OutputText(text="").model_dump()
        yield self._event("response.content_part.added", **message.place, part=part)
        return message

    def _deltas(self, message: "_MessageInProgress", pieces: Iterable[str]) -> Iterator[Wire]:
        for piece in pieces:
            message.sent.append(piece)
            yield self._event("response.output_text.delta", **message.place, delta=piece, logprobs=[])

    def _done(self, message: "_MessageInProgress", item: MessageItem) -> Iterator[Wire]:
        said = item.model_dump(mode="json")
        yield self._event("response.output_text.done", **message.place, text=item.text, logprobs=[])
        yield self._event("response.content_part.done", **message.place, part=said["content"][0])
        yield self._event("response.output_item.done", output_index=message.index, item=said)

    def _break_off(self) -> Iterator[Wire]:
        """Ends the open message as incomplete."""
        if self._open is not None:
            message, self._open = self._open, None
            text = "".join(message.sent)
            left = replaced(message.item, status="incomplete", content=[OutputText(text=text)])
            yield from self._done(message, left)

    def _call(self, item: CallItem) -> Iterator[Wire]:
        """Yields the events of a complete function call."""
        place = {"item_id": item.id, "output_index": self._index}
        blank = replaced(item, status="in_progress", arguments="")
        self._index += 1
        yield self._event("response.output_item.added", output_index=place["output_index"], item=blank.model_dump(mode="json"))
        yield self._event("response.function_call_arguments.delta", **place, delta=item.arguments)
        yield self._event("response.function_call_arguments.done", **place, name=item.name, arguments=item.arguments)
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item.model_dump(mode="json"))

    def _event(self, type_: str, **fields: Any) -> Wire:
        number = self._number
        self._number += 1
        return {"type": type_, "sequence_number": number, **fields}


class _MessageInProgress:
    """A message that is being sent. `sent` holds the deltas that were sent."""

    def __init__(self, item: MessageItem, index: int) -> None:
        self.item, self.index = item, index
        self.splitter, self.sent = DeltaSplitter(), list[str]()

    @property
    def place(self) -> dict[str, Any]:
        return {"item_id": self.item.id, "output_index": self.index, "content_index": 0}


PADDING = 16
"""Deltas are padded to a multiple of this length, so that their size reveals nothing."""


class ResponseStream:
    """Streams one response to one client. The run continues if the client disconnects.

    Args:
        front: The app's services.
        connection: The client's request.
        asked: The response.
        after: The last sequence number that the client has; -1 for none.
        padded: Whether to pad deltas, so that their size reveals nothing.
        ended: The final response, if it was refused before it started.
    """

    def __init__(
        self,
        front: Front,
        connection: HTTPConnection,
        asked: StartedResponse,
        *,
        after: int = -1,
        padded: bool = False,
        ended: ResponseObject | None = None,
    ) -> None:
        self._front, self._connection, self._asked = front, connection, asked
        self._after, self._padded, self._ended = after, padded, ended
        self._builder = ResponseEvents(asked.name, asked.blank, redactor_of(connection))

    async def events(self) -> AsyncIterator[Wire]:
        """Yields the events above the number that the client has."""
        async for wire in self._all_events():
            if wire["sequence_number"] > self._after:
                yield _padded(wire) if self._padded and "delta" in wire else wire

    async def _all_events(self) -> AsyncIterator[Wire]:
        """Yields all events from the first; an error becomes the last one."""
        for wire in self._builder.begin():
            yield wire
        try:
            if self._ended is None:
                async for wire in self._invocation_events():
                    yield wire
            for wire in self._builder.end(self._ended or await outcome(self._connection, self._asked)):
                yield wire
        except TurnwiseError as error:
            yield self.problem(error)

    async def _invocation_events(self) -> AsyncIterator[Wire]:
        """Yields the events of the running invocation. The earlier calls of a continued one are known first."""
        invocation, first = self._asked.invocation, True
        async for event in invocation.events():
            if first:
                self._builder.items.stream.know(calls_in(await self._asked.services.threads.before(invocation)))
                first = False
            for wire in self._builder.tell(event):
                yield wire

    def problem(self, error: TurnwiseError) -> Wire:
        """Returns an event that ends the stream with an error. The response itself may still succeed."""
        details = error_of(problem_of(error, self._connection))
        return self._builder.problem(details.code, details.message, details.param)

    def closing(self) -> Wire:
        """Returns the event that ends the stream at shutdown. The client resumes it at another process."""
        return self.problem(Closing("This process is being stopped.", fix="Retrieve the response with starting_after."))


async def outcome(connection: HTTPConnection, asked: StartedResponse) -> ResponseObject:
    """Waits until the response is answered or waits, and returns it."""
    await asked.invocation.feed.complete()
    before = calls_in(await asked.services.threads.before(asked.invocation))
    return final_response(asked.name, asked.blank, asked.invocation.feed.stored, redactor_of(connection), before)


def sse_event(wire: Wire) -> bytes:
    """Returns the event as a server-sent event."""
    return f"event: {wire['type']}\ndata: {as_json(wire)}\n\n".encode()


def as_json(wire: Wire) -> str:
    """Returns the event as JSON."""
    return json.dumps(wire, ensure_ascii=False, separators=(",", ":"))


def _padded(wire: dict[str, Any]) -> Wire:
    missing = PADDING - len(wire["delta"]) % PADDING
    return {**wire, "obfuscation": secrets.token_urlsafe(missing)[:missing]}
