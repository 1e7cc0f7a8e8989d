"""The decision record: who was chosen, by what, why, and whom the rules passed over."""

from typing import Literal

from turnwise.facts.fact import Fact, optional
from turnwise.facts.usage import Usage

Occasion = Literal["message", "answer", "flow"]
Outcome = Literal["chosen", "abstained", "clarify"]


class Candidate(Fact):
    """An agent that was considered. `score` is 0 to 1, higher fits better; `evidence` says what it rests on."""

    agent: str
    score: float
    evidence: str = ""


class Exclusion(Fact):
    """An agent that was not considered, or an author passed over: by which rule (a stable word), and the detail."""

    agent: str
    rule: str
    detail: str = ""


class Verdict(Fact):
    """What one selector said.

    `agent` and `method` are set exactly when the outcome is `chosen`. `candidates` are best first. `confidence` is 0 to 1.
    `ignored` lists what was seen and deliberately not obeyed, in words. `position` is the selector's new place in a fixed
    order, written to the session's head with the selection; None when it keeps none. `question` is what the user is asked
    when the outcome is `clarify`; empty = the reason. `also` names other agents that the message asks for something as well.
    `novelty` is how likely nobody should take it, 0 to 1; None when the selector does not say. `usage` is what
    a model took that was asked, `ms` the time of it all.
    """

    selector: str
    outcome: Outcome = "abstained"
    agent: str | None = None
    method: str | None = None
    confidence: float = 0.0
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()
    passed_over: tuple[Exclusion, ...] = ()
    ignored: tuple[str, ...] = ()
    position: int | None = None
    question: str = ""
    also: tuple[str, ...] = ()
    novelty: float | None = None
    usage: Usage | None = optional(None)
    ms: float = 0.0


class Selection(Fact):
    """The decision of one message (or answer), with every verdict on the way, in the order they were asked.

    `fingerprint` identifies policy and thresholds, `tree_version` the agents; equal fingerprints over equal facts decide
    equally. `segment` is the policy's segment that applied, None for the base. `excluded` are those who were not eligible,
    the first 50 of `excluded_count`. With outcome `clarify` the user is asked to choose, and `agent` is who asks.
    """

    agent: str
    method: str
    confidence: float
    reason: str
    outcome: Literal["chosen", "clarify"] = "chosen"
    occasion: Occasion = "message"
    verdicts: tuple[Verdict, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    excluded_count: int = 0
    policy: str = ""
    fingerprint: str = ""
    tree_version: str = ""
    segment: str | None = None
    ms: float = 0.0
