"""The policies that have names: ours, and those of the systems whose behaviour can be had unchanged."""

from collections.abc import Mapping

from pydantic import JsonValue

from turnwise.facts.errors import PolicyError
from turnwise.selection import clarify, model
from turnwise.selection.patterns import PLAINLY_NEW
from turnwise.selection.policy import PolicySpec, StageSpec

MARGIN = 0.1
"""Of two agents whose patterns match, the better is taken when it leads by this."""


def _by_meaning(name: str, *, margin: float, between: tuple[StageSpec, ...] = ()) -> PolicySpec:
    """margin: near ties that `contextual` leaves to the stages after it; `between` come before the user is asked."""
    stages = (
        StageSpec(selector="direct"),
        StageSpec(name="choice", selector="clarify", options={"only": "answer"}),
        StageSpec(name="plainly-new", selector="patterns", options={"threshold": PLAINLY_NEW, "margin": MARGIN}),
        StageSpec(selector="patterns", options={"margin": MARGIN, "yields": "asks"}),
        StageSpec(selector="contextual", options={"margin": margin}),
        StageSpec(name="awaited", selector="resume", options={"only": "awaiting"}),
        *between,
        StageSpec(selector="clarify", options={"only": "question", "stage": "contextual"}),
        StageSpec(selector="resume", options={"stage": "contextual"}),  # what that turned away
    )
    return PolicySpec(name=name, stages=stages)


_POLICIES = (
    _by_meaning("default", margin=clarify.MARGIN),
    _by_meaning(
        "default-with-model",
        margin=model.MARGIN,
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
    """The policy of that name; `options`, by stage's name, and `default` replace its own.

    `named("elemental-iterative", options={"iterative": {"order": ["a", "b"]}})`. The stages of `default` are `direct`,
    `choice`, `plainly-new`, `patterns`, `contextual`, `awaited`, `clarify`, `resume`; `default-with-model` has
    `model` before `clarify`, whose option `model` must be given; those of `staples` are `direct`,
    `patterns`, `semantic`, `smalltalk`, `default`; the others have one, named as its selector. The leads of
    elemental-identity and elemental-conversational are their stage's option `lead`, else the default agent, else the root.
    PolicyError for an unknown name or stage.
    """
    if name not in NAMED:
        raise PolicyError(f"There is no policy named {name!r}.", fix=f"Named policies: {', '.join(NAMED)}.")
    return NAMED[name].with_options(options or {}, default=default)
