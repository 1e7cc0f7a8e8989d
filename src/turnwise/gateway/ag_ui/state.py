"""The state that a front end and a session share. Pure."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from turnwise.facts.errors import RequestInvalid
from turnwise.facts.sessions import APP_PREFIX
from turnwise.gateway.ag_ui.schema import Wire, event


def changed_keys(state: object, shown: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What the front end has written: the keys that are otherwise in its state than in what it is shown of the session's. Keys
    that it does not have stay; null removes one. What all users share is not among them: a client sends back all that it was
    told, and others may have written since. RequestInvalid for a state that has no keys.
    """
    if state is None:
        return {}
    if not isinstance(state, dict):
        problem = "The state of a session is an object."
        raise RequestInvalid(problem, fix="Send an object, or no state.", where=("body", "state"))
    own = ((key, value) for key, value in state.items() if not key.startswith(APP_PREFIX))
    return {key: value for key, value in own if not _is_same(shown.get(key), value)}


def _is_same(one: object, other: object) -> bool:
    """Whether two values of JSON are equal: for Python true is one, and false is zero."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


class ClientStateMirror:
    """The state as the front end has it, after what it was told."""

    def __init__(self, state: Mapping[str, JsonValue]) -> None:
        self._state = dict(state)

    def whole(self) -> Wire:
        """All of it."""
        return event("STATE_SNAPSHOT", snapshot=dict(self._state))

    def change(self, delta: Mapping[str, JsonValue], tag: str | None = None) -> Iterator[Wire]:
        """What that delta changes, if anything; None removes a key."""
        operations: list[Wire] = []
        for key, value in delta.items():
            path = "/" + key.replace("~", "~0").replace("/", "~1")
            if value is None and key in self._state:
                del self._state[key]
                operations.append({"op": "remove", "path": path})
            elif value is not None and not _is_same(self._state.get(key), value):
                self._state[key] = value
                operations.append({"op": "add", "path": path, "value": value})
        if operations:
            yield event("STATE_DELTA", delta=operations, subagentRunId=tag)

    def become(self, state: Mapping[str, JsonValue]) -> Iterator[Wire]:
        """All of it, if it is otherwise than this."""
        if not _is_same(self._state, dict(state)):
            self._state = dict(state)
            yield self.whole()
