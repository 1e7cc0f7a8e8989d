"""The ids of tool calls as a provider gets them."""

import hashlib
import re

from turnwise.facts.content import ToolCallPart

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}")


class WireIds:
    """The ids in one request to the provider `system`: all providers take them, and each stands for one call.

    A provider gets its own id back where it can, since what it signed covers it.
    """

    def __init__(self, system: str) -> None:
        self._system = system
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, part: ToolCallPart) -> str:
        own = part.seal.data.get("call_id") if part.seal and part.seal.provider == self._system else None
        wanted = own if isinstance(own, str) and own not in self._used else _plain(part.call_id)
        while wanted in self._used:
            wanted = _hashed(wanted)
        self._used.add(wanted)
        self._ids[part.call_id] = wanted
        return wanted

    def of_result(self, call_id: str) -> str:
        """The id of the latest call of that id so far."""
        return self._ids.get(call_id) or _plain(call_id)


def _plain(call_id: str) -> str:
    return call_id if _PLAIN.fullmatch(call_id) else _hashed(call_id)


def _hashed(call_id: str) -> str:
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]
