"""The policies that decide beside the served one: those of an experiment's arms, the shadow's, and the app's others."""

import logging
from collections.abc import Iterable, Mapping

from turnwise.facts.errors import PolicyError
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import NAMED
from turnwise.selection.policy import PolicySpec

log = logging.getLogger("turnwise.selection")


def alternatives(
    cascade: Cascade, wanted: Iterable[str], policies: Mapping[str, PolicySpec] | None = None
) -> dict[str, Cascade]:
    """Returns the wanted policies, the shadow's and the app's, bound to the cascade's agents, with what is fitted to these.

    An app's policy that is not wanted is left out if it cannot decide over these agents: a later experiment may name others.

    Args:
        cascade: The served policy.
        wanted: The names of the policies of an experiment's arms.
        policies: The app's policies by name. Any other name is that of a named policy.

    Raises:
        PolicyError: A wanted policy does not exist, or cannot decide over the agents.
    """
    names = dict.fromkeys([*wanted, *([cascade.spec.shadow] if cascade.spec.shadow is not None else [])])
    known = {**NAMED, **(policies or {})}
    for name in names:
        if name not in known:
            raise PolicyError(f"There is no policy named {name!r}.", fix=f"Policies: {', '.join(known)}.")
    found = {name: cascade.with_policy(known[name]) for name in names}
    for name, spec in (policies or {}).items():
        if name not in found:
            try:
                found[name] = cascade.with_policy(spec)
            except PolicyError as problem:
                log.info("The policy %r is left out: %s", name, problem)
    return found
