"""Detects messages with requests for several agents, and the agent that the policy names for them. Pure."""

from collections.abc import Sequence

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.eligibility import Eligible, eligible
from turnwise.selection.policy import PolicySpec

SEVERAL = "several"
"""Method of a decision for the agent that handles such messages."""
_UNFIT = frozenset({"disabled", "inside_composite"})


def requested_agents(verdict: Verdict, request: SelectionRequest, server: str, roster: Eligible) -> Sequence[str]:
    """Returns the agents that the message has requests for; empty when it goes to one agent only.

    It is empty when the chosen agent waits for a reply, which this message may be, and when this caller may not reach
    `server`.
    """
    if request.occasion != "message" or verdict.agent in (None, server) or server not in roster.continuing:
        return ()
    others = [name for name in verdict.also if name in roster.names and name not in (verdict.agent, server)]
    if not others or verdict.agent is None or _is_waiting(verdict.agent, request):
        return ()
    return (verdict.agent, *dict.fromkeys(others))


def reason_for(agents: Sequence[str], verdict: Verdict) -> str:
    """Returns the reason for handling the requests together, followed by the verdict's own reason."""
    return f"The message asks {', '.join(agents[:-1])} and {agents[-1]} for something. {verdict.reason}"


def refuse_unfit_server(spec: PolicySpec, tree: AgentTree) -> None:
    """Raises PolicyError when the policy's `several` agent can never take a message."""
    if spec.several is None:
        return
    everybody = frozenset(role for card in tree for role in card.roles)
    why = next((each for each in eligible(tree, roles=everybody).excluded if each.agent == spec.several), None)
    if why is not None and why.rule in _UNFIT:
        raise PolicyError(
            f"Policy {spec.name!r}, 'several': {spec.several!r} can take no messages: {why.detail}.",
            fix="Name an agent that is enabled, and that no composite runs.",
        )


def _is_waiting(agent: str, request: SelectionRequest) -> bool:
    """Returns whether the agent, or an agent in an invocation that it leads, waits for a reply."""
    head = request.head
    return any(
        wait.kind == "reply" and agent in (asker, head.invocations[invocation_id].agent)
        for invocation_id, asker, wait in head.waiting()
    )
