"""The state that a front end and a session share. Pure."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.ag_ui.wire import Wire, event


def written_in(state: object, shown: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What the front end has written: the keys that are otherwise in its state than in what it is shown of the session's. Keys
    that it does not have stay; null removes one. RequestInvalid for a state that has no keys.
    """
    if state is None:
        return {}
    if not isinstance(state, dict):
        problem = "The state of a session is an object."
        raise RequestInvalid(problem, fix="Send an object, or no state.", where=("body", "state"))
    return {key: value for key, value in state.items() if shown.get(key) != value}


class Mirror:
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
            elif value is not None and self._state.get(key) != value:
                self._state[key] = value
                operations.append({"op": "add", "path": path, "value": value})
        if operations:
            yield event("STATE_DELTA", delta=operations, subagentRunId=tag)

    def become(self, state: Mapping[str, JsonValue]) -> Iterator[Wire]:
        """All of it, if it is otherwise than this."""
        if self._state != state:
            self._state = dict(state)
            yield self.whole()
