"""The policies that decide beside the served one: those of an experiment's arms, and the shadow's."""

from collections.abc import Iterable, Mapping

from turnwise.facts.errors import PolicyError
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import NAMED
from turnwise.selection.policy import PolicySpec


def alternatives(
    cascade: Cascade, wanted: Iterable[str], policies: Mapping[str, PolicySpec] | None = None
) -> dict[str, Cascade]:
    """Returns the wanted policies and the shadow's, bound to the cascade's agents. They share what is fitted to the agents.

    Args:
        cascade: The served policy.
        wanted: The names of the policies of an experiment's arms.
        policies: The app's policies by name. Any other name is that of a named policy.

    Raises:
        PolicyError: A policy does not exist, or cannot decide over the agents.
    """
    names = dict.fromkeys([*wanted, *([cascade.spec.shadow] if cascade.spec.shadow is not None else [])])
    known = {**NAMED, **(policies or {})}
    for name in names:
        if name not in known:
            raise PolicyError(f"There is no policy named {name!r}.", fix=f"Policies: {', '.join(known)}.")
    return {name: cascade.with_policy(known[name]) for name in names}
