"""A response while it comes: its events as they are written, up to its end or its first wait."""

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import HTTPConnection

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.front import Front, view_of
from turnwise.gateway.openai.form import error_of
from turnwise.gateway.openai.responses.asking import Asked
from turnwise.gateway.openai.responses.narration import Narration, Wire
from turnwise.gateway.openai.responses.settled import settled
from turnwise.gateway.openai.responses.shape import ResponseObject
from turnwise.gateway.problems import problem_of
from turnwise.gateway.speech.calls import made_in

PADDED = 16
"""To a multiple of how many characters pieces are filled up, for who asks that their size tells nothing."""


class Telling:
    """Tells one response to one reader, who can leave at any time: the run goes on.

    after: the last number that he has. padded: whether pieces are filled up to sizes that tell nothing. ended: what became of
    a response that is never begun to be made.
    """

    def __init__(
        self,
        front: Front,
        connection: HTTPConnection,
        asked: Asked,
        *,
        after: int = -1,
        padded: bool = False,
        ended: ResponseObject | None = None,
    ) -> None:
        self._front, self._connection, self._asked = front, connection, asked
        self._after, self._padded, self._ended = after, padded, ended
        self._narration = Narration(asked.name, asked.blank, view_of(connection))

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
                self._narration.items.know(made_in(await self._front.threads.before(invocation)))
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


async def outcome(front: Front, connection: HTTPConnection, asked: Asked) -> ResponseObject:
    """The response once it is answered, or waits."""
    await asked.invocation.feed.closed()
    before = made_in(await front.threads.before(asked.invocation))
    return settled(asked.name, asked.blank, asked.invocation.feed.stored, view_of(connection), before)


def written(wire: Wire) -> bytes:
    """The event as a server-sent one."""
    return f"event: {wire['type']}\ndata: {as_json(wire)}\n\n".encode()


def as_json(wire: Wire) -> str:
    return json.dumps(wire, ensure_ascii=False, separators=(",", ":"))


def _padded(wire: dict[str, Any]) -> Wire:
    missing = PADDED - len(wire["delta"]) % PADDED
    return {**wire, "obfuscation": secrets.token_urlsafe(missing)[:missing]}
