"""Messages that ask several agents for something, for whom a policy names an agent. Pure."""

from collections.abc import Sequence

from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.eligibility import Eligible, eligible
from turnwise.selection.policy import PolicySpec

SEVERAL = "several"
"""The method of a decision for the agent that serves such messages."""
_UNFIT = frozenset({"disabled", "inside_composite"})


def asked_for(verdict: Verdict, request: SelectionRequest, server: str, roster: Eligible) -> Sequence[str]:
    """The agents that the message asks for something, when `server` is to serve them; none when it goes to one agent.

    It does not when who is chosen waits for a reply, which this may be, or when the server may not take messages of this
    caller.
    """
    if request.occasion != "message" or verdict.agent in (None, server) or server not in roster.continuing:
        return ()
    others = [name for name in verdict.also if name in roster.names and name not in (verdict.agent, server)]
    if not others or verdict.agent is None or _waits(verdict.agent, request):
        return ()
    return (verdict.agent, *dict.fromkeys(others))


def reason_for(agents: Sequence[str], verdict: Verdict) -> str:
    """Why they are served together, with what the verdict says itself."""
    return f"The message asks {', '.join(agents[:-1])} and {agents[-1]} for something. {verdict.reason}"


def refuse_unfit_server(spec: PolicySpec, tree: AgentTree) -> None:
    """PolicyError when the agent that the policy names for such messages can never take one."""
    if spec.several is None:
        return
    everybody = frozenset(role for card in tree for role in card.roles)
    why = next((each for each in eligible(tree, roles=everybody).excluded if each.agent == spec.several), None)
    if why is not None and why.rule in _UNFIT:
        raise PolicyError(
            f"Policy {spec.name!r}, 'several': {spec.several!r} can take no messages: {why.detail}.",
            fix="Name an agent that is enabled, and that no composite runs.",
        )


def _waits(agent: str, request: SelectionRequest) -> bool:
    """Whether the agent, or what it holds the floor of, waits for a reply of the user."""
    head = request.head
    return any(
        wait.kind == "reply" and agent in (asker, head.invocations[invocation_id].agent)
        for invocation_id, asker, wait in head.waiting()
    )
