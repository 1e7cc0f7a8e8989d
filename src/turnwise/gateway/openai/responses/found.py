"""A response by its id, as it is now."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.events import Event
from turnwise.gateway.door.sessions import Window
from turnwise.gateway.door.threads import QUEUED, REFUSED, Known
from turnwise.gateway.front import Front
from turnwise.gateway.openai.responses.body import Placed
from turnwise.gateway.openai.responses.kept import blank_of
from turnwise.gateway.openai.responses.names import RESPONSE, Name, read_name
from turnwise.gateway.openai.responses.settled import settled
from turnwise.gateway.openai.responses.shape import ResponseObject
from turnwise.gateway.shown import View
from turnwise.gateway.speech.calls import made_in

CANCELLED = "cancelled"


class Found(NamedTuple):
    """A response that there is. blank: as it was begun. user: whose it is; None = of whoever asks."""

    name: Name
    blank: ResponseObject
    known: Known
    user: str | None


async def find(front: Front, caller: Caller, response_id: str, user: str | None, *, to: Permission = "sessions:read") -> Found:
    """The response with that id, for doing that with it. NothingHere when there is none, or it is another user's; Forbidden
    whether there is one or not.
    """
    name = read_name(response_id) if response_id.startswith(RESPONSE) else None
    try:
        if name is None or not name.stored:
            raise InvocationMissing("This is no id of a stored response.")
        with as_missing(user, name):
            front.whose.session(caller, to, name.session, whom(user, name))
            known = await front.threads.known(caller, name.session, name.message, whom(user, name))
    except (InvocationMissing, SessionMissing):
        raise NothingHere(f"There is no response {response_id[:200]!r}.", fix="Check the id.") from None
    result = known.reading.result if known.reading else None
    begun = result.events[0].created_at if result else None
    return Found(name, blank_of(name, known.receipt.message, begun), known, whom(user, name))


def whom(user: str | None, name: Name) -> str | None:
    """Whose response that is: whom the request names, else whom its id does."""
    return name.user if user is None else user


@contextmanager
def as_missing(user: str | None, name: Name) -> Iterator[None]:
    """What is another's by its id alone is not there for who may not reach it."""
    try:
        yield
    except Forbidden:
        if user is None and name.user is not None:
            raise InvocationMissing("It is another user's.") from None
        raise


def as_it_is(found: Found, view: View) -> ResponseObject:
    """The response as it is now."""
    receipt, reading, before = found.known
    if receipt.state == REFUSED and receipt.problem != CANCELLED:
        return found.blank.model_copy(update={"status": "failed"})
    if receipt.state == REFUSED:
        return settled(found.name, found.blank, (), view)
    if receipt.state == QUEUED or reading is None or reading.result is None:
        return found.blank.model_copy(update={"status": "queued"})
    now = settled(found.name, found.blank, reading.result.events, view, made_in(before))
    if reading.state == "running":
        return now.model_copy(update={"status": "in_progress", "completed_at": None, "error": None, "usage": None})
    return now


async def previous(front: Front, caller: Caller, response_id: str, user: str | None) -> Found:
    """The response that a request goes on from. NothingHere, which names the parameter."""
    try:
        return await find(front, caller, response_id, user)
    except NothingHere as error:
        raise NothingHere(error.problem, fix=error.fix, where=("body", "previous_response_id")) from None


async def history(front: Front, caller: Caller, body: Placed, user: str | None) -> Sequence[Event]:
    """What agents would find on record of the conversation that the request goes on with, as far as they look."""
    window, session = Window(last=front.runner.config.limits.history_events), body.conversation
    if body.previous_response_id is not None:
        found = await previous(front, caller, body.previous_response_id, user)
        result = found.known.reading.result if found.known.reading else None
        last = result.events[-1].sequence if result else None
        session, user, window = found.name.session, found.user, window._replace(before=last + 1 if last else None)
    if session is None:
        return ()
    try:
        return (await front.sessions.events(caller, session, window, user)).events
    except SessionMissing:
        raise NothingHere("There is no such conversation.", fix="Check the id.", where=("body", "conversation")) from None
