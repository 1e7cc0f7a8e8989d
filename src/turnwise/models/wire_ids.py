"""Tool call ids as a provider receives them."""

import hashlib
import re

from turnwise.facts.content import ToolCallPart

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}")


class WireIds:
    """Maps our call ids to unique ids that every provider accepts, within one request to the provider `system`.

    A provider gets its own id back where possible, since its signature covers the id.
    """

    def __init__(self, system: str) -> None:
        self._system = system
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, part: ToolCallPart) -> str:
        own = part.seal.data.get("call_id") if part.seal and part.seal.provider == self._system else None
        id_ = own if isinstance(own, str) and own not in self._used else _plain(part.call_id)
        while id_ in self._used:
            id_ = _hashed(id_)
        self._used.add(id_)
        self._ids[part.call_id] = id_
        return id_

    def of_result(self, call_id: str) -> str:
        """Returns the id of the latest call with this call id."""
        return self._ids.get(call_id) or _plain(call_id)


def _plain(call_id: str) -> str:
    return call_id if _PLAIN.fullmatch(call_id) else _hashed(call_id)


def _hashed(call_id: str) -> str:
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]
