"""Sets of agents: swapped whole, kept while invocations use them, then dropped with their agents."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from turnwise import AgentContext, Event, agent
from turnwise.agents.function import FunctionAgent
from turnwise.agents.members import collect
from turnwise.facts.errors import ConfigError, PolicyError, RevisionUnavailable, StoreUnavailable
from turnwise.facts.selections import Selection
from turnwise.facts.tree import AgentCard
from turnwise.ports.agent import Agent
from turnwise.runner.agent_sets import AgentSet, AgentSets
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy


class Closable:
    """An agent that counts how often it was closed."""

    def __init__(self, name: str, children: tuple[Agent, ...] = ()) -> None:
        self.card, self.children, self.closed = AgentCard(name=name), children, 0

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        yield context.event(self.card.name)

    async def close(self) -> None:
        self.closed += 1


def set_of(root: Agent, revision: int = 0) -> AgentSet:
    agents, tree = collect(root)
    return AgentSet(agents, tree, Cascade(named_policy("staples"), tree), revision)


def lone(name: str = "desk") -> FunctionAgent:
    @agent(name=name)
    def answer(message: str) -> str:
        return name

    return answer


async def test_a_hold_keeps_the_set_that_served_when_it_began() -> None:
    """F3"""
    first, second = set_of(lone(), 1), set_of(lone(), 2)
    sets = AgentSets(first)
    with sets.hold() as hold:
        sets.swap(second)
        assert hold.agent_set is first
        assert sets.current is second
        assert sets.kept == 2
        with sets.hold() as other:
            assert other.agent_set is second
    assert sets.kept == 1


async def test_agents_of_a_dropped_set_are_closed_once_no_set_has_them() -> None:
    """F3"""
    shared = Closable("shared")
    old = Closable("old")
    first = set_of(Closable("desk", (shared, old)), 1)
    second = set_of(Closable("desk", (shared,)), 2)
    sets = AgentSets(first)
    with sets.hold():
        sets.swap(second)
        await asyncio.sleep(0)
        assert old.closed == 0
    await sets.close()
    assert (old.closed, shared.closed) == (1, 1)


async def test_a_thousand_swaps_leave_two_sets_at_most() -> None:
    """F3: memory stays flat."""
    sets = AgentSets(set_of(lone(), 0))
    seen: list[weakref.ref[AgentSet]] = []
    for revision in range(1, 1001):
        new = set_of(lone(), revision)
        seen.append(weakref.ref(new))
        with sets.hold():
            sets.swap(new)
        del new
    gc.collect()
    assert sets.kept == 1
    assert [each().revision for each in seen if each() is not None] == [1000]  # type: ignore[union-attr]


async def test_an_earlier_revision_is_found_or_made_again() -> None:
    """F3"""
    made: list[int] = []

    async def make(revision: int) -> AgentSet:
        made.append(revision)
        await asyncio.sleep(0)
        return set_of(lone(), revision)

    sets = AgentSets(set_of(lone(), 5))
    assert (await sets.at(3)).revision == 5, "without a maker there is one set only"
    sets.make_with(make)
    assert (await sets.at(5)) is sets.current
    both = await asyncio.gather(sets.at(3), sets.at(3))
    assert both[0] is both[1]
    with sets.hold() as hold:
        await hold.switch(3)
        assert hold.agent_set is both[0]
        assert (await sets.at(4)).revision == 4
        assert (await sets.at(3)) is both[0], "it is in use"
    assert made == [3, 4]
    assert sets.kept == 2, "the current one, and the one made last"


async def test_what_cannot_be_made_is_a_typed_error() -> None:
    """F3"""

    async def make(revision: int) -> AgentSet:
        if revision == 1:
            raise PolicyError("There is no maker 'x'.")
        if revision == 2:
            raise KeyError("x")
        raise StoreUnavailable("The store is away.")

    sets = AgentSets(set_of(lone(), 5))
    sets.make_with(make)
    for revision in (1, 2):
        with pytest.raises(RevisionUnavailable, match=f"revision {revision}"):
            await sets.at(revision)
    with pytest.raises(StoreUnavailable):
        await sets.at(3)
    with sets.hold() as hold:
        with pytest.raises(RevisionUnavailable):
            await hold.switch(1)
        assert hold.agent_set is sets.current


async def test_the_root_stays_and_a_refusal_is_remembered_until_the_next_swap(caplog: pytest.LogCaptureFixture) -> None:
    """F3"""
    sets = AgentSets(set_of(lone(), 1))
    with pytest.raises(ConfigError, match="root"):
        sets.swap(set_of(lone("other"), 2))
    problem = PolicyError("Policy 'x' has no stages.")
    sets.refuse(problem)
    sets.refuse(problem)
    assert sets.problem is problem
    assert caplog.text.count("Policy 'x' has no stages.") == 1
    told: list[AgentSet] = []
    sets.on_swap(told.append)
    new = set_of(lone(), 2)
    sets.swap(new)
    assert sets.problem is None
    assert told == [new]


def test_a_decision_names_the_revision() -> None:
    """F4"""
    decided = Selection(agent="desk", method="default", confidence=1.0)
    assert set_of(lone()).stamped(decided) is decided
    assert set_of(lone(), 7).stamped(decided).revision == 7
    assert '"revision"' not in set_of(lone()).stamped(decided).model_dump_json()


def test_a_retired_agent_is_not_left_to_other_processes() -> None:
    """F3"""
    first = set_of(lone())
    known = AgentSet(first.agents, first.tree, first.cascade, 3, frozenset({"old"}))
    assert known.lacks("elsewhere")
    assert not known.lacks("old")
    assert not known.lacks("desk")
