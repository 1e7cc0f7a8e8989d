"""A response as a sequence of events of the wire, numbered from 0 without a gap.

response.created  response.in_progress
  for each message    output_item.added  content_part.added  output_text.delta …  output_text.done  content_part.done
                      output_item.done
  for each call       output_item.added  function_call_arguments.delta  function_call_arguments.done  output_item.done
response.completed | response.incomplete | response.failed

What is told, and under which number, follows from what is stored: live pieces only tell it sooner. So who comes again, to
whichever process, goes on behind the number that he has. Only what was never stored, because an agent's process or model broke
off in the middle, has numbers that nobody is given again, and who is not told of every call counts without those.
"""

import json
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from starlette.requests import HTTPConnection

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.facts.events import Event
from turnwise.gateway.front import Front, redactor_of
from turnwise.gateway.openai.errors import error_of
from turnwise.gateway.openai.responses.ids import ResponseId
from turnwise.gateway.openai.responses.result import Items, final_response
from turnwise.gateway.openai.responses.schema import CallItem, MessageItem, OutputText, ResponseObject
from turnwise.gateway.openai.responses.start import StartedResponse
from turnwise.gateway.problems import problem_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.tool_calls import calls_in
from turnwise.gateway.shared.utterances import is_shown_to_user

PIECE_CHARACTERS = 8
"""How many characters besides space a piece holds at most: a word as a rule."""

_PIECE = re.compile(rf"\s*\S{{1,{PIECE_CHARACTERS}}}|\s+")


def pieces_of(text: str, start: int = 0) -> Iterator[str]:
    """The pieces of a whole text from that place on, where one begins."""
    for match in _PIECE.finditer(text, start):
        yield match[0]


class OpenText:
    """A text that comes bit by bit. gone: how many characters of it were given out."""

    def __init__(self) -> None:
        self._text = ""
        self.gone = 0

    def feed(self, text: str, offset: int | None) -> list[str]:
        """The pieces that are whole with this: more text cannot change them.

        offset: where in the text it stands; None = next. What leaves a gap is put aside: the whole will tell it.
        """
        known = len(self._text) if offset is None else offset
        if known > len(self._text):
            return []
        self._text += text[len(self._text) - known :]
        ready = []
        for match in _PIECE.finditer(self._text, self.gone):
            if match.end() == len(self._text) and len(match[0].strip()) < PIECE_CHARACTERS:
                break
            ready.append(match[0])
        self.gone += sum(map(len, ready))
        return ready

    def rest(self, whole: str) -> list[str]:
        """The pieces that are still missing of the text as it is in the end; none if that begins otherwise."""
        return list(pieces_of(whole, self.gone)) if whole.startswith(self._text[: self.gone]) else []


Wire = dict[str, Any]
"""An event as it is written: `type`, `sequence_number`, and what it tells."""

_LAST = {"completed": "response.completed", "failed": "response.failed"}


class ResponseEvents:
    """Tells one response to one reader. blank: as it was begun."""

    def __init__(self, name: ResponseId, blank: ResponseObject, view: Redactor) -> None:
        self._name, self._blank, self.items = name, blank, Items(name, view)
        self._number, self._index = 0, 0
        self._open: _MessageInProgress | None = None

    def begin(self) -> Iterator[Wire]:
        """What comes first."""
        begun = self._blank.model_dump(mode="json")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def tell(self, event: Event) -> Iterator[Wire]:
        """What that event of the log, or that piece of one, adds."""
        if event.partial:
            yield from self._piece(event)
            return
        for item in self.items.of(event):
            if isinstance(item, CallItem):
                yield from self._call(item)
            else:
                yield from self._message(item)
        if event.actions.rewind is not None:
            yield from self._break_off()

    def end(self, response: ResponseObject) -> Iterator[Wire]:
        """What comes last: the response as it is now."""
        yield from self._break_off()
        yield self._event(_LAST.get(response.status, "response.incomplete"), response=response.model_dump(mode="json"))

    def problem(self, code: str | None, message: str, param: str | None = None) -> Wire:
        """That it cannot be told on."""
        return self._event("error", code=code, message=message, param=param)

    def _piece(self, event: Event) -> Iterator[Wire]:
        # Children of a parallel agent speak at once: whose words come first, the log says.
        if not event.text or not is_shown_to_user(event) or "~" in event.branch:
            return
        id_ = self._name.item(event)
        if self._open is not None and self._open.item.id != id_:
            yield from self._break_off()
        if self._open is None:
            blank = MessageItem(id=id_, status="in_progress", content=[], agent=event.author)
            yield from self._begin(blank)
        assert self._open is not None
        yield from self._deltas(self._open, self._open.coming.feed(event.text, event.offset))

    def _message(self, item: MessageItem) -> Iterator[Wire]:
        if self._open is not None and self._open.item.id == item.id:
            saying, self._open = self._open, None
            yield from self._deltas(saying, saying.coming.rest(item.text))
            yield from self._done(saying, item)
            return
        yield from self._begin(item.model_copy(update={"status": "in_progress", "content": []}), stays=False)
        saying = _MessageInProgress(item, self._index - 1)
        yield from self._deltas(saying, pieces_of(item.text))
        yield from self._done(saying, item)

    def _begin(self, blank: MessageItem, *, stays: bool = True) -> Iterator[Wire]:
        saying = _MessageInProgress(blank, self._index)
        self._index += 1
        if stays:
            self._open = saying
        yield self._event("response.output_item.added", output_index=saying.index, item=blank.model_dump(mode="json"))
        part = OutputText(text="").model_dump()
        yield self._event("response.content_part.added", **saying.place, part=part)

    def _deltas(self, saying: "_MessageInProgress", pieces: Iterable[str]) -> Iterator[Wire]:
        for piece in pieces:
            saying.told.append(piece)
            yield self._event("response.output_text.delta", **saying.place, delta=piece, logprobs=[])

    def _done(self, saying: "_MessageInProgress", item: MessageItem) -> Iterator[Wire]:
        said = item.model_dump(mode="json")
        yield self._event("response.output_text.done", **saying.place, text=item.text, logprobs=[])
        yield self._event("response.content_part.done", **saying.place, part=said["content"][0])
        yield self._event("response.output_item.done", output_index=saying.index, item=said)

    def _break_off(self) -> Iterator[Wire]:
        """Whoever was speaking will not come to an end."""
        if self._open is not None:
            saying, self._open = self._open, None
            text = "".join(saying.told)
            left = saying.item.model_copy(update={"status": "incomplete", "content": [OutputText(text=text)]})
            yield from self._done(saying, left)

    def _call(self, item: CallItem) -> Iterator[Wire]:
        place = {"item_id": item.id, "output_index": self._index}
        blank = item.model_copy(update={"status": "in_progress", "arguments": ""})
        self._index += 1
        yield self._event("response.output_item.added", output_index=place["output_index"], item=blank.model_dump(mode="json"))
        yield self._event("response.function_call_arguments.delta", **place, delta=item.arguments)
        yield self._event("response.function_call_arguments.done", **place, name=item.name, arguments=item.arguments)
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item.model_dump(mode="json"))

    def _event(self, type_: str, **told: Any) -> Wire:
        number = self._number
        self._number += 1
        return {"type": type_, "sequence_number": number, **told}


class _MessageInProgress:
    """A message while it is told. told: the pieces that are out."""

    def __init__(self, item: MessageItem, index: int) -> None:
        self.item, self.index = item, index
        self.coming, self.told = OpenText(), list[str]()

    @property
    def place(self) -> dict[str, Any]:
        return {"item_id": self.item.id, "output_index": self.index, "content_index": 0}


PADDED = 16
"""To a multiple of how many characters pieces are filled up, for who asks that their size tells nothing."""


class ResponseStream:
    """Tells one response to one reader, who can leave at any time: the run goes on.

    after: the last number that he has. padded: whether pieces are filled up to sizes that tell nothing. ended: what became of
    a response that is never begun to be made.
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
        self._narration = ResponseEvents(asked.name, asked.blank, redactor_of(connection))

    async def events(self) -> AsyncIterator[Wire]:
        """What is told, above the number that the reader has."""
        async for wire in self._all():
            if wire["sequence_number"] > self._after:
                yield _padded(wire) if self._padded and "delta" in wire else wire

    async def _all(self) -> AsyncIterator[Wire]:
        for wire in self._narration.begin():
            yield wire
        try:
            if self._ended is None:
                async for wire in self._said():
                    yield wire
            for wire in self._narration.end(self._ended or await outcome(self._front, self._connection, self._asked)):
                yield wire
        except TurnwiseError as error:
            yield self.problem(error)

    async def _said(self) -> AsyncIterator[Wire]:
        invocation, first = self._asked.invocation, True
        async for event in invocation.events():
            if first:
                self._narration.items.know(calls_in(await self._front.threads.before(invocation)))
                first = False
            for wire in self._narration.tell(event):
                yield wire

    def problem(self, error: TurnwiseError) -> Wire:
        """That it cannot be told on, and why; the response itself may be well."""
        told = error_of(problem_of(error, self._connection))
        return self._narration.problem(told.code, told.message, told.param)

    def closing(self) -> Wire:
        """That this process is being stopped: whoever is there then tells the rest."""
        return self.problem(Closing("This process is being stopped.", fix="Retrieve the response with starting_after."))


async def outcome(front: Front, connection: HTTPConnection, asked: StartedResponse) -> ResponseObject:
    """The response once it is answered, or waits."""
    await asked.invocation.feed.closed()
    before = calls_in(await front.threads.before(asked.invocation))
    return final_response(asked.name, asked.blank, asked.invocation.feed.stored, redactor_of(connection), before)


def sse_event(wire: Wire) -> bytes:
    """The event as a server-sent one."""
    return f"event: {wire['type']}\ndata: {as_json(wire)}\n\n".encode()


def as_json(wire: Wire) -> str:
    return json.dumps(wire, ensure_ascii=False, separators=(",", ":"))


def _padded(wire: dict[str, Any]) -> Wire:
    missing = PADDED - len(wire["delta"]) % PADDED
    return {**wire, "obfuscation": secrets.token_urlsafe(missing)[:missing]}
