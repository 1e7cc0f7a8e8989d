"""Packs several ids into one URL-safe text, so that a resource can be found by this text alone.

The text grants no rights: the caller's rights decide, so an invented or copied text gives no access. Most ids are a
word with 14 bytes; only these bytes are encoded, which keeps the text short.
"""

import base64
import binascii
import re
from hashlib import sha256

from turnwise.facts.ids import SystemIssuer

MOST_CHARACTERS = 4_000
GENERATED_ID = re.compile(r"([a-z]+)-([0-9a-f]{28})(?:-([0-9]{1,2}))?")
"""An id in the format of `SystemIssuer`, optionally with a number suffix."""
_WORDS = ("session", "message", "call", "event")
_PLAIN = len(_WORDS)


def pack_ids(*ids: str) -> str:
    """Returns the ids as one text of letters, digits, `-` and `_`."""
    return base64.urlsafe_b64encode(b"".join(map(_pack, ids))).decode().rstrip("=")


def unpack_ids(text: str, count: int) -> list[str] | None:
    """Returns the ids in the text: `count` of them, or one more, which is the user's. None if the text is invalid."""
    if not text.isascii() or len(text) > MOST_CHARACTERS:
        return None
    try:
        left = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        ids: list[str] = []
        while left:
            id_, left = _unpack(left)
            ids.append(id_)
    except (binascii.Error, ValueError, IndexError):
        return None
    # Accept only the canonical encoding, so that each resource has exactly one id.
    return ids if len(ids) - count in (0, 1) and all(ids) and pack_ids(*ids) == text else None


def new_session(key: str | None = None) -> str:
    """Returns a new session id; always the same for the same key."""
    return SystemIssuer().new_id("session") if key is None else f"session-{digest(key)}"


def digest(key: str) -> str:
    """Returns a digest of the key with 28 characters."""
    return sha256(key.encode(errors="replace")).hexdigest()[:28]


def _pack(id_: str) -> bytes:
    """Packs one id into bytes: generated ids without their text, others as length and text."""
    made = GENERATED_ID.fullmatch(id_)
    if made is None or made[1] not in _WORDS or (made[3] or "0") != str(int(made[3] or 0)):
        plain = id_.encode("utf-8", "surrogatepass")
        return bytes((_PLAIN,)) + len(plain).to_bytes(2) + plain
    number = b"" if made[3] is None else bytes((int(made[3]),))
    kind = _WORDS.index(made[1]) + (0 if made[3] is None else _PLAIN + 1)
    return bytes((kind,)) + bytes.fromhex(made[2]) + number


def _unpack(left: bytes) -> tuple[str, bytes]:
    """Returns the first id of the bytes, and the rest."""
    kind, rest = left[0], left[1:]
    if kind == _PLAIN:
        end = 2 + int.from_bytes(rest[:2])
        return rest[2:end].decode(), rest[end:]
    id_ = f"{_WORDS[kind % (_PLAIN + 1)]}-{rest[:14].hex()}"
    if kind < _PLAIN:
        return id_, rest[14:]
    return f"{id_}-{rest[14]}", rest[15:]
