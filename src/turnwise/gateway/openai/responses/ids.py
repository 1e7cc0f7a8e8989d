"""Ids of responses and their items. Each contains the session's id, so that it is found by its id alone.

The encoding is that of `gateway/shared/packed_ids.py`.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer, is_storable_id
from turnwise.gateway.shared.packed_ids import GENERATED_ID, digest, pack_ids, unpack_ids

RESPONSE, MESSAGE, CALL, FUNCTION = "resp_", "msg_", "call_", "fc_"
UNSTORED = "unstored"
"""The prefix of message ids of unstored responses, and of sessions that hold nothing else."""


class ResponseId(NamedTuple):
    """Identifies a response: the session and the message that it answers."""

    session: str
    message: str
    user: str | None = None
    """The session's user; None for the caller."""

    @property
    def stored(self) -> bool:
        """Whether the response can be retrieved later."""
        return not self.message.startswith(UNSTORED)

    @property
    def id(self) -> str:
        """The response's id."""
        return RESPONSE + pack_ids(self.session, self.message, *self._user_part)

    def item(self, event: Event) -> str:
        """Returns the id of the output item for an event."""
        return MESSAGE + pack_ids(self.session, self.message, event.id, *self._user_part)

    def given(self, place: int) -> str:
        """Returns the id of the input item at this position."""
        return MESSAGE + pack_ids(self.session, self.message, f"given-{place}", *self._user_part)

    def function(self, call_id: str) -> str:
        """Returns the id of the output item for a tool call."""
        return FUNCTION + pack_ids(self.session, self.message, call_id, *self._user_part)

    def call(self, call_id: str) -> str:
        """Returns the id of a tool call as the caller sees it."""
        return CALL + pack_ids(self.session, call_id, *self._user_part)

    @property
    def _user_part(self) -> tuple[str, ...]:
        return () if self.user is None else (self.user,)


class CallId(NamedTuple):
    """Identifies a tool call that waits for its result."""

    session: str
    id: str
    """The call's id in the session."""
    user: str | None = None
    """The session's user; None for the caller."""


def parse_response_id(id_: str) -> ResponseId | None:
    """Parses the id of a response or of one of its items; None if it is not valid."""
    for prefix, parts in ((RESPONSE, 2), (MESSAGE, 3), (FUNCTION, 3)):
        if id_.startswith(prefix) and (found := unpack_ids(id_.removeprefix(prefix), parts)):
            name = ResponseId(found[0], found[1], *found[parts:])
            return name if all(map(is_storable_id, (name.session, name.message, name.user or "-"))) else None
    return None


def parse_call_id(call_id: str) -> CallId | None:
    """Parses the id of a tool call as the caller sees it; None if it is not valid."""
    found = unpack_ids(call_id.removeprefix(CALL), 2) if call_id.startswith(CALL) else None
    call = CallId(*found) if found else None
    return call if call and is_storable_id(call.session) and is_storable_id(call.user or "-") else None


def new_message(key: str | None = None, *, stored: bool = True) -> str:
    """Returns the id of a new message; the same for the same key. Without a key, the id contains the time of its creation."""
    if key is None:
        return SystemIssuer().new_id("message" if stored else UNSTORED)
    return f"keyed-{digest(key)}" if stored else f"{UNSTORED}-keyed-{digest(key)}"


def unstored_session(key: str | None = None) -> str:
    """Returns the id of a session that is deleted after its response; the same for the same key."""
    return SystemIssuer().new_id(UNSTORED) if key is None else f"{UNSTORED}-{digest(key)}"


def created_at(message_id: str) -> datetime | None:
    """Returns when a message id was generated; None for an id that was derived or comes from elsewhere."""
    made = GENERATED_ID.fullmatch(message_id)
    if made is None or made[1] not in ("message", UNSTORED) or made[3] or made[2][0] > "1":
        return None
    return datetime.fromtimestamp(int(made[2][:12], 16) / 1000, UTC)
