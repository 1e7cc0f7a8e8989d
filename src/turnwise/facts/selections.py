"""The decision record: the selected agent, the selectors' verdicts, and the excluded agents."""

from typing import Literal

from turnwise.facts.fact import Fact, optional
from turnwise.facts.usage import Usage

Occasion = Literal["message", "answer", "flow"]
Outcome = Literal["chosen", "abstained", "clarify"]


class Candidate(Fact):
    """An agent that was considered."""

    agent: str
    score: float
    """0 to 1; higher fits better."""
    evidence: str = ""
    """The basis of the score, in words."""


class Exclusion(Fact):
    """An agent that was not considered."""

    agent: str
    rule: str
    """The rule that excluded the agent, as a stable word."""
    detail: str = ""


class Verdict(Fact):
    """The verdict of one selector. `agent` and `method` are set exactly when the outcome is `chosen`."""

    selector: str
    outcome: Outcome = "abstained"
    agent: str | None = None
    method: str | None = None
    confidence: float = 0.0
    """0 to 1."""
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()
    """Best first. A record keeps the best five; of a clarifying question, all that it offers."""
    candidate_count: int | None = optional(None)
    """The number of all candidates, when a record keeps fewer."""
    passed_over: tuple[Exclusion, ...] = ()
    ignored: tuple[str, ...] = ()
    """Inputs that the selector saw and deliberately did not follow, in words."""
    position: int | None = None
    """The selector's new position in a fixed order, stored in the session's head; None when it keeps none."""
    question: str = ""
    """The question to the user when the outcome is `clarify`; empty means the reason."""
    also: tuple[str, ...] = ()
    """Other agents that the message also asks for something."""
    novelty: float | None = None
    """The probability that the message is out of scope, 0 to 1; None when the selector does not estimate it."""
    usage: Usage | None = optional(None)
    """The usage of the model that was asked; None without a model."""
    ms: float = 0.0
    """The total time in milliseconds."""


class NotedBy(Fact):
    """The agent that noted a thing which the message names, or served it last. The thing itself is in the message alone."""

    type: str
    """The kind of the thing, such as `code`."""
    agent: str
    entry: str
    """The id of the entry in the user's memory."""


class RequestFacts(Fact):
    """The inputs of a selection beside the log and the message: with it, the decision can be made again."""

    eligible_count: int = optional(0)
    """The number of agents that could be selected."""
    eligible: str = optional("")
    """A digest of their names."""
    index: str = optional("")
    """The version of the fitted texts; empty without selectors by meaning."""
    direct_agent_id: str | None = optional(None)
    """The message's context, as in `MessageContext`; its attributes and state are left out, because they may hold secrets."""
    previous_agents: tuple[str, ...] = optional(())
    channel: str | None = optional(None)
    user_kind: str | None = optional(None)
    roles: tuple[str, ...] = optional(())
    answers: str | None = optional(None)
    noted: tuple[NotedBy, ...] = optional(())
    """The agents that noted the things which the message names, from the user's memory."""
    language: str | None = optional(None)
    """The message's language, as an ISO 639-1 code; None for English, and when it is not clear."""


class Selection(Fact):
    """The decision for one message or answer, with all verdicts in order. With outcome `clarify`, `agent` asks the user to
    choose.
    """

    agent: str
    method: str
    confidence: float
    reason: str = ""
    """Empty in the log, which keeps only who was selected and how. The decision has the reason."""
    outcome: Literal["chosen", "clarify"] = "chosen"
    occasion: Occasion = "message"
    verdicts: tuple[Verdict, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    """The agents that were not eligible, at most the first 50."""
    excluded_count: int = 0
    """The number of all agents that were not eligible."""
    policy: str = ""
    fingerprint: str = ""
    """Identifies the policy and its thresholds: the same fingerprint decides the same facts equally."""
    tree_version: str = ""
    """The version of the agent tree."""
    revision: int = optional(0)
    """The revision of the agents' definitions; 0 for agents that come from code and configuration only."""
    request: RequestFacts | None = optional(None)
    """None in a record of an older version."""
    segment: str | None = None
    """The segment of the policy that applied; None for the base policy."""
    experiment: str | None = optional(None)
    """The experiment that the decision counts for; None without one."""
    arm: str | None = optional(None)
    """The arm of the experiment that decided."""
    credential: str = optional("")
    """A digest of the id of the credential that sent the message; empty without one. Learning limits each credential by it."""
    ms: float = 0.0
