"""The agents that another agent is given when it is made."""

from collections.abc import Iterable

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentDefinitionError
from turnwise.ports.agent import Agent


def members_of(owner: str, given: Iterable[Agent]) -> tuple[Agent, ...]:
    """Returns them in order. owner: the agent's name.

    AgentDefinitionError names the place of the first that is no agent: a plain function, a class, a name.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise AgentDefinitionError(
            f"The agents below {owner!r} are given as a {type(given).__name__}.", fix="Give a list of agents."
        )
    members = tuple(given)
    for place, member in enumerate(members, 1):
        if isinstance(member, type) or not isinstance(getattr(member, "card", None), AgentCard):
            shown = getattr(member, "__qualname__", None) or repr(member)
            raise AgentDefinitionError(f"Number {place} below {owner!r} is no agent: {shown[:100]}.", fix=_fix(member))
    return members


def _fix(member: object) -> str:
    if isinstance(member, str):
        return "Give the agent itself, not its name."
    if isinstance(member, type):
        return "Give an instance of the class."
    if callable(member):
        return "Make an agent of the function: decorate it with @agent, or wrap it: agent(name='…')(function)."
    return "Give an agent: of @agent, LlmAgent, an adapter, or a class with card, children and run."
