"""The named policies: ours, and those that reproduce the behaviour of other systems unchanged."""

from collections.abc import Mapping

from pydantic import JsonValue

from turnwise.facts.errors import PolicyError
from turnwise.selection import clarify, model
from turnwise.selection.patterns import PLAINLY_NEW
from turnwise.selection.policy import PolicySpec, StageSpec

MARGIN = 0.1
"""Minimum lead of the best pattern match over the second."""


def _by_meaning(name: str, *, margin: float, ties: str = "", between: tuple[StageSpec, ...] = ()) -> PolicySpec:
    """Builds a default policy.

    Args:
        name: The policy's name.
        margin: Near ties within this margin are left to the stages after `contextual`.
        ties: Which near ties these are; empty = those of other agents than the active one.
        between: Stages right after `contextual`.
    """
    stages = (
        StageSpec(selector="direct"),
        StageSpec(name="choice", selector="clarify", options={"only": "answer"}),
        StageSpec(name="plainly-new", selector="patterns", options={"threshold": PLAINLY_NEW, "margin": MARGIN}),
        StageSpec(selector="patterns", options={"margin": MARGIN, "yields": "asks"}),
        StageSpec(selector="contextual", options={"margin": margin} | ({"ties": ties} if ties else {})),
        *between,
        StageSpec(name="awaited", selector="resume", options={"only": "awaiting"}),
        StageSpec(selector="clarify", options={"only": "question", "stage": "contextual"}),
        StageSpec(selector="resume", options={"stage": "contextual"}),  # messages that it abstained on
    )
    return PolicySpec(name=name, stages=stages)


_POLICIES = (
    _by_meaning("default", margin=clarify.MARGIN),
    _by_meaning(
        "default-with-model",
        margin=model.MARGIN,
        ties="all",
        between=(StageSpec(selector="model", options={"margin": model.MARGIN, "stage": "contextual"}),),
    ),
    PolicySpec(name="adk", stages=(StageSpec(selector="resume", options={"rule": "adk"}),)),
    PolicySpec(name="elemental-identity", stages=(StageSpec(selector="identity"),)),
    PolicySpec(name="elemental-iterative", stages=(StageSpec(selector="iterative"),)),
    PolicySpec(name="elemental-conversational", stages=(StageSpec(selector="conversational"),)),
    PolicySpec(
        name="staples",
        stages=(
            StageSpec(selector="direct"),
            StageSpec(selector="patterns", options={"threshold": 0.7}),
            StageSpec(selector="semantic", options={"threshold": 0.5, "top": 3}),
            StageSpec(selector="smalltalk"),
            StageSpec(selector="default", options={"confidence": 0.6}),
        ),
    ),
)
NAMED: Mapping[str, PolicySpec] = {policy.name: policy for policy in _POLICIES}


def named_policy(
    name: str, *, options: Mapping[str, Mapping[str, JsonValue]] | None = None, default: str | None = None
) -> PolicySpec:
    """Returns the policy of that name, with some of its options replaced.

    Stages by policy:

    - `default`: `direct`, `choice`, `plainly-new`, `patterns`, `contextual`, `awaited`, `clarify`, `resume`.
    - `default-with-model`: the same, with `model` after `contextual`, for near ties, also whether to stay or to
      leave. The option `model` of that stage is required.
    - `staples`: `direct`, `patterns`, `semantic`, `smalltalk`, `default`.
    - The others have one stage, named as its selector. The lead of `elemental-identity` and `elemental-conversational` is
      the stage's option `lead`, else the default agent, else the root.

    Example: `named_policy("elemental-iterative", options={"iterative": {"order": ["a", "b"]}})`.

    Args:
        name: The policy's name.
        options: Options by stage name.
        default: The default agent; None = the policy's.

    Raises:
        PolicyError: The policy or a stage is unknown.
    """
    if name not in NAMED:
        raise PolicyError(f"There is no policy named {name!r}.", fix=f"Named policies: {', '.join(NAMED)}.")
    return NAMED[name].with_options(options or {}, default=default)
