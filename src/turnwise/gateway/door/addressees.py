"""Whom a caller may address by name, past the selectors."""

from collections.abc import Collection, Sequence

from turnwise.access.rights import roles_of
from turnwise.facts.callers import Caller
from turnwise.gateway.door.whose import Whose
from turnwise.runner import Runner
from turnwise.selection.eligibility import eligible

DIRECT = "direct"
"""The selector that lets a caller choose (behaviour C1); a policy without it decides for every message."""


class Addressees:
    """The agents that answer a caller who names them; any other is as if it did not exist."""

    def __init__(self, runner: Runner, whose: Whose) -> None:
        self._runner, self._whose = runner, whose

    def names(self, caller: Caller) -> Sequence[str]:
        """Their names in the tree's order. Forbidden."""
        self._whose.require(caller, "agents:read")
        return tuple(self._names(caller))

    def has(self, caller: Caller, name: str) -> bool:
        """Whether that is one of them, for a message."""
        return name in self._names(caller)

    def _names(self, caller: Caller) -> Collection[str]:
        if not any(stage.selector == DIRECT for stage in self._runner.cascade.spec.stages):
            return ()
        return eligible(self._runner.tree, roles=roles_of(caller)).names
