"""Decides about messages that the encoder cannot read: by names, patterns, and who has the conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.facts.selections import Candidate, Verdict
from turnwise.selection.active_agent import ConversationState
from turnwise.selection.verdicts import GUESS, abstained, chosen

CONFIDENCE = 0.6
"""Confidence of such a decision."""
_NAMED = 0.5
MAX_GUESSES = 3
"""How many agents are candidates for a question when nothing points to one."""


class Clues(NamedTuple):
    """The facts about a message that are known without reading it."""

    hits: Mapping[str, float]
    """Confidence of matching patterns, by agent."""
    named: Mapping[str, float]
    """Share of each agent's name that the message contains."""
    nearest: Sequence[str] = ()
    """Agents that may be offered to the user, best guess first."""


class Methods(NamedTuple):
    """The names of the methods that a decision may have."""

    stay: str
    leave: str
    route: str
    back: str


def decide_unread(selector: str, why: str, clues: Clues, state: ConversationState, methods: Methods) -> Verdict:
    """Returns the verdict. An agent that waits for a reply comes before all clues; else it abstains without any.

    Args:
        selector: The selector's name.
        why: Why the message is not read, as a clause.
        clues: The facts about it.
        state: The agents' places in the conversation.
        methods: The methods of the decision.
    """
    active = state.active
    waits = state.awaiting is not None and state.awaiting == active
    agent, what = (None, "") if waits else _pointed_to(clues)
    if agent is not None and agent != active:
        method = methods.route if active is None else methods.back if agent in state.visited else methods.leave
        verb = "routes to" if active is None else "returns to" if method == methods.back else "goes to"
        return _chosen(selector, agent, method, f"{verb} {agent}: {what}; {why}.", state)
    if active is not None:
        return _chosen(selector, active, methods.stay, f"stays: {why}, and {active} has the conversation.", state)
    reason = f"{why[:1].upper()}{why[1:]}, and nobody has the conversation."
    candidates = tuple(Candidate(agent=name, score=CONFIDENCE, evidence=GUESS) for name in clues.nearest[:MAX_GUESSES])
    return abstained(selector, reason, candidates=candidates, passed_over=state.passed_over)


def _pointed_to(clues: Clues) -> tuple[str | None, str]:
    """Returns the agent that the clues point to, and how; None when they point to none, or to several alike."""
    agent = _single_best({name: share for name, share in clues.named.items() if share >= _NAMED})
    if agent is not None:
        return agent, f"the message names {agent}"
    agent = _single_best(clues.hits)
    return agent, f"a pattern of {agent} matches"


def _single_best(amounts: Mapping[str, float]) -> str | None:
    best = [name for name, amount in amounts.items() if amount == max(amounts.values())]
    return best[0] if len(best) == 1 else None


def _chosen(selector: str, agent: str, method: str, reason: str, state: ConversationState) -> Verdict:
    more: dict[str, Any] = {"passed_over": state.passed_over}
    return chosen(selector, agent, method=method, confidence=CONFIDENCE, reason=reason, **more)
