"""The ids of responses and of what they hold. Each names the session that it belongs to, so that it is found by its id alone,
as `speech/naming.py` packs it.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer, is_storable_id
from turnwise.gateway.shared.packed_ids import MADE_HERE, digest, pack_ids, unpack_ids

RESPONSE, MESSAGE, CALL, FUNCTION = "resp_", "msg_", "call_", "fc_"
UNSTORED = "unstored"
"""How the ids of messages begin whose responses are not to be stored, and of sessions that hold nothing else."""


class ResponseId(NamedTuple):
    """Which message a response answers: the session's id, the message's, and whose session it is; None = of whoever asks."""

    session: str
    message: str
    user: str | None = None

    @property
    def stored(self) -> bool:
        """Whether the response can be retrieved later."""
        return not self.message.startswith(UNSTORED)

    @property
    def id(self) -> str:
        """The response's id."""
        return RESPONSE + pack_ids(self.session, self.message, *self._whose)

    def item(self, event: Event) -> str:
        """The id of the item by which the response says what that event says."""
        return MESSAGE + pack_ids(self.session, self.message, event.id, *self._whose)

    def given(self, place: int) -> str:
        """The id of the item at that place of the message."""
        return MESSAGE + pack_ids(self.session, self.message, f"given-{place}", *self._whose)

    def function(self, call_id: str) -> str:
        """The id of the item by which the response tells of that call."""
        return FUNCTION + pack_ids(self.session, self.message, call_id, *self._whose)

    def call(self, call_id: str) -> str:
        """The call's own id, as the caller is given it."""
        return CALL + pack_ids(self.session, call_id, *self._whose)

    @property
    def _whose(self) -> tuple[str, ...]:
        return () if self.user is None else (self.user,)


class CallId(NamedTuple):
    """A call that waits for its result: in which session, its id there, and whose session it is as of `ResponseId`."""

    session: str
    id: str
    user: str | None = None


def parse_response_id(id_: str) -> ResponseId | None:
    """What the id of a response, or of an item of one, names; None for what can be no such id."""
    for prefix, parts in ((RESPONSE, 2), (MESSAGE, 3), (FUNCTION, 3)):
        if id_.startswith(prefix) and (found := unpack_ids(id_.removeprefix(prefix), parts)):
            name = ResponseId(found[0], found[1], *found[parts:])
            return name if all(map(is_storable_id, (name.session, name.message, name.user or "-"))) else None
    return None


def parse_call_id(call_id: str) -> CallId | None:
    """The call whose id that is, as a caller was given it; None for what can be no such id."""
    found = unpack_ids(call_id.removeprefix(CALL), 2) if call_id.startswith(CALL) else None
    call = CallId(*found) if found else None
    return call if call and is_storable_id(call.session) and is_storable_id(call.user or "-") else None


def new_message(key: str | None = None, *, stored: bool = True) -> str:
    """The id of a message that comes as a request for a response; the same for the same key. Without a key it contains the
    time, so that the time need not be kept.
    """
    if key is None:
        return SystemIssuer().new_id("message" if stored else UNSTORED)
    return f"keyed-{digest(key)}" if stored else f"{UNSTORED}-keyed-{digest(key)}"


def unstored_session(key: str | None = None) -> str:
    """The id of a session that is deleted once its response is told; the same for the same key."""
    return SystemIssuer().new_id(UNSTORED) if key is None else f"{UNSTORED}-{digest(key)}"


def created_at(message_id: str) -> datetime | None:
    """When a message came whose id was made here; None for any other."""
    made = MADE_HERE.fullmatch(message_id)
    if made is None or made[1] not in ("message", UNSTORED) or made[3] or made[2][0] > "1":
        return None
    return datetime.fromtimestamp(int(made[2][:12], 16) / 1000, UTC)
