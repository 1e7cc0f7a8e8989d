"""Checks the agents that another agent gets as its children."""

from collections.abc import Iterable

from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.tree import AgentCard
from turnwise.ports.agent import Agent


def members_of(owner: str, given: Iterable[Agent]) -> tuple[Agent, ...]:
    """Returns the agents as a tuple, in order.

    Args:
        owner: The parent agent's name, for error messages.
        given: The agents.

    Raises:
        AgentDefinitionError: An element is not an agent but, for example, a plain function, a class or a name. The
            message gives its position.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise AgentDefinitionError(
            f"The agents below {owner!r} are given as a {type(given).__name__}.", fix="Give a list of agents."
        )
    members = tuple(given)
    for place, member in enumerate(members, 1):
        if isinstance(member, type) or not isinstance(getattr(member, "card", None), AgentCard):
            shown = getattr(member, "__qualname__", None) or repr(member)
            raise AgentDefinitionError(f"Number {place} below {owner!r} is no agent: {shown[:100]}.", fix=_fix_for(member))
    return members


def _fix_for(member: object) -> str:
    """Returns the fix for a child that is not an agent."""
    if isinstance(member, str):
        return "Give the agent itself, not its name."
    if isinstance(member, type):
        return "Give an instance of the class."
    if callable(member):
        return "Make an agent of the function: decorate it with @agent, or wrap it: agent(name='…')(function)."
    return "Give an agent: of @agent, LlmAgent, an adapter, or a class with card, children and run."
