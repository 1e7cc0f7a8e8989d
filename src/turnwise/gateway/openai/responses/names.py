"""The ids of responses and of what they hold. Each names the session that it belongs to, so that it is found by its id alone.

They only name: whose session it is comes from who asks, so an id that somebody made up, or has from another, finds nothing.
Ids that were made here are 14 bytes behind a word; of those only the bytes are written, so that most ids are short.
"""

import base64
import binascii
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer, is_storable_id

RESPONSE, MESSAGE, CALL, FUNCTION = "resp_", "msg_", "call_", "fc_"
_MOST_CHARACTERS = 4_000
_MADE_HERE = re.compile(r"([a-z]+)-([0-9a-f]{28})(?:-([0-9]{1,2}))?")
_WORDS = ("session", "message", "call", "event")
_PLAIN = len(_WORDS)


class Name(NamedTuple):
    """Which message a response answers: the session's id, the message's, and whose session it is; None = of whoever asks."""

    session: str
    message: str
    user: str | None = None

    @property
    def id(self) -> str:
        """The response's id."""
        return RESPONSE + _packed(self.session, self.message, *self._whose)

    def item(self, event: Event) -> str:
        """The id of the item by which the response says what that event says."""
        return MESSAGE + _packed(self.session, self.message, event.id, *self._whose)

    def given(self, place: int) -> str:
        """The id of the item at that place of the message."""
        return MESSAGE + _packed(self.session, self.message, f"given-{place}", *self._whose)

    def function(self, call_id: str) -> str:
        """The id of the item by which the response tells of that call."""
        return FUNCTION + _packed(self.session, self.message, call_id, *self._whose)

    def call(self, call_id: str) -> str:
        """The call's own id, as the caller is given it."""
        return CALL + _packed(self.session, call_id, *self._whose)

    @property
    def _whose(self) -> tuple[str, ...]:
        return () if self.user is None else (self.user,)


class Call(NamedTuple):
    """A call that waits for its result: in which session, its id there, and whose session it is as of `Name`."""

    session: str
    id: str
    user: str | None = None


def read_name(id_: str) -> Name | None:
    """What the id of a response, or of an item of one, names; None for what can be no such id."""
    for prefix, parts in ((RESPONSE, 2), (MESSAGE, 3), (FUNCTION, 3)):
        if id_.startswith(prefix) and (found := _unpacked(id_.removeprefix(prefix), parts)):
            name = Name(found[0], found[1], *found[parts:])
            return name if all(map(is_storable_id, (name.session, name.message, name.user or "-"))) else None
    return None


def read_call(call_id: str) -> Call | None:
    """The call whose id that is, as a caller was given it; None for what can be no such id."""
    found = _unpacked(call_id.removeprefix(CALL), 2) if call_id.startswith(CALL) else None
    call = Call(*found) if found else None
    return call if call and is_storable_id(call.session) and is_storable_id(call.user or "-") else None


def new_session(key: str | None = None) -> str:
    """The id of a session that a response begins; the same for the same key."""
    return SystemIssuer().new_id("session") if key is None else f"session-{_digest(key)}"


def new_message(key: str | None = None) -> str:
    """The id of a message that comes as a request for a response; the same for the same key. In one without a key stands the
    time, so that it need not be kept.
    """
    return SystemIssuer().new_id("message") if key is None else f"keyed-{_digest(key)}"


def asked_at(message_id: str) -> datetime | None:
    """When a message came whose id was made here; None for any other."""
    made = _MADE_HERE.fullmatch(message_id)
    if made is None or made[1] != "message" or made[3] or made[2][0] > "1":
        return None
    return datetime.fromtimestamp(int(made[2][:12], 16) / 1000, UTC)


def _digest(key: str) -> str:
    return sha256(key.encode(errors="replace")).hexdigest()[:28]


def _packed(*ids: str) -> str:
    return base64.urlsafe_b64encode(b"".join(map(_pack, ids))).decode().rstrip("=")


def _pack(id_: str) -> bytes:
    made = _MADE_HERE.fullmatch(id_)
    if made is None or made[1] not in _WORDS or (made[3] or "0") != str(int(made[3] or 0)):
        plain = id_.encode("utf-8", "surrogatepass")
        return bytes((_PLAIN,)) + len(plain).to_bytes(2) + plain
    number = b"" if made[3] is None else bytes((int(made[3]),))
    kind = _WORDS.index(made[1]) + (0 if made[3] is None else _PLAIN + 1)
    return bytes((kind,)) + bytes.fromhex(made[2]) + number


def _unpacked(text: str, count: int) -> list[str] | None:
    """So many ids, or one more, the user's."""
    if not text.isascii() or len(text) > _MOST_CHARACTERS:
        return None
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        ids: list[str] = []
        while packed:
            id_, packed = _unpack(packed)
            ids.append(id_)
    except (binascii.Error, ValueError, IndexError):
        return None
    # One thing has one id: what reads the same but was not written here is none.
    return ids if len(ids) - count in (0, 1) and all(ids) and _packed(*ids) == text else None


def _unpack(packed: bytes) -> tuple[str, bytes]:
    kind, rest = packed[0], packed[1:]
    if kind == _PLAIN:
        end = 2 + int.from_bytes(rest[:2])
        return rest[2:end].decode(), rest[end:]
    id_ = f"{_WORDS[kind % (_PLAIN + 1)]}-{rest[:14].hex()}"
    if kind < _PLAIN:
        return id_, rest[14:]
    return f"{id_}-{rest[14]}", rest[15:]
