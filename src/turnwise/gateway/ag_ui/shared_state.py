"""The session state that the front end shares. Pure."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from turnwise.facts.errors import RequestInvalid
from turnwise.facts.sessions import APP_PREFIX
from turnwise.gateway.ag_ui.schema import Wire, event


def changed_keys(state: object, shown: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Returns the keys that the front end changed: those that differ from the state it was shown.

    Absent keys stay unchanged, and null removes a key. App-wide keys are ignored, because a client sends back old values that
    others may have changed since.

    Raises:
        RequestInvalid: The state is not an object.
    """
    if state is None:
        return {}
    if not isinstance(state, dict):
        problem = "The state must be an object."
        raise RequestInvalid(problem, fix="Send an object, or no state.", where=("body", "state"))
    own = ((key, value) for key, value in state.items() if not key.startswith(APP_PREFIX))
    return {key: value for key, value in own if not _is_same(shown.get(key), value)}


def _is_same(one: object, other: object) -> bool:
    """Returns whether two JSON values are equal. In Python `True == 1`, so types are compared too."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


class ClientStateMirror:
    """The front end's copy of the state."""

    def __init__(self, state: Mapping[str, JsonValue]) -> None:
        self._state = dict(state)

    def snapshot(self) -> Wire:
        """Returns the snapshot event."""
        return event("STATE_SNAPSHOT", snapshot=dict(self._state))

    def apply(self, delta: Mapping[str, JsonValue], tag: str | None = None) -> Iterator[Wire]:
        """Applies a state delta and yields the change event, if anything differs. None removes a key."""
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

    def replace(self, state: Mapping[str, JsonValue]) -> Iterator[Wire]:
        """Replaces the copy and yields a snapshot event, if it differs."""
        if not _is_same(self._state, dict(state)):
            self._state = dict(state)
            yield self.snapshot()
