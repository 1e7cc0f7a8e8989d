"""A new revision is served as a whole, or not at all."""

import asyncio
import logging

import pytest
from runner_play import soon

from turnwise import agent
from turnwise.agents.members import collect
from turnwise.facts.errors import EncoderError, PolicyError, StoreUnavailable, TurnwiseError
from turnwise.runner.agent_sets import AgentSet, AgentSets, RevisionWatch
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.stores.sql.local_signals import LocalSignals


def set_of(revision: int) -> AgentSet:
    @agent(name="desk")
    def desk(message: str) -> str:
        return f"revision {revision}"

    agents, tree = collect(desk)
    return AgentSet(agents, tree, Cascade(named_policy("staples"), tree), revision)


class Source:
    """Definitions whose newest revision is `newest`."""

    def __init__(self, newest: int = 0) -> None:
        self.newest = newest
        self.away: TurnwiseError | None = None
        self.broken: dict[int, Exception] = {}
        self.kept: AgentSet | None = None
        self.made: list[int] = []

    async def revision(self) -> int:
        if self.away:
            raise self.away
        return self.newest

    async def make(self, revision: int | None = None) -> AgentSet:
        revision = await self.revision() if revision is None else revision
        self.made.append(revision)
        if revision in self.broken:
            raise self.broken[revision]
        return set_of(revision)

    async def last_known(self) -> AgentSet | None:
        return self.kept

    async def keep(self) -> None:
        self.kept = set_of(self.made[-1])


def watching(source: Source, *, seconds: float = 60.0) -> tuple[AgentSets, RevisionWatch]:
    sets = AgentSets(set_of(0))
    return sets, RevisionWatch(sets, source, "app", LocalSignals(0.05), seconds=seconds)


async def served(sets: AgentSets, revision: int) -> None:
    while sets.current.revision != revision:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_the_newest_revision_serves_from_the_start_and_after_each_announcement() -> None:
    """F3, F4"""
    source = Source(3)
    sets, watch = watching(source)
    await watch.start()
    assert sets.current.revision == 3
    work = asyncio.create_task(watch.forever())
    await asyncio.sleep(0.02)
    source.newest = 5
    watch.announce()
    await soon(served(sets, 5))
    work.cancel()
    assert source.made == [3, 5], "an unchanged revision makes nothing"


async def test_a_change_is_seen_without_an_announcement() -> None:
    """F4"""
    source = Source()
    sets, watch = watching(source, seconds=0.02)
    work = asyncio.create_task(watch.forever())
    source.newest = 1
    await soon(served(sets, 1))
    work.cancel()


async def test_what_does_not_fit_together_is_not_served_and_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    """F3"""
    source = Source(1)
    sets, watch = watching(source)
    await watch.start()
    source.newest, source.broken = 2, {2: PolicyError("Policy 'main': there is no agent 'x'.")}
    for _ in range(3):
        await watch.look()
    assert sets.current.revision == 1
    assert str(sets.problem) == "Policy 'main': there is no agent 'x'."
    assert caplog.text.count("there is no agent 'x'") == 1
    source.newest, source.broken = 3, {3: KeyError("x")}
    await watch.look()
    assert sets.current.revision == 1
    assert "revision 3" in str(sets.problem)
    source.newest = 4
    await watch.look()
    assert (sets.current.revision, sets.problem) == (4, None)
    assert source.made == [1, 2, 3, 4]


async def test_an_encoder_that_is_away_is_asked_again() -> None:
    """F3"""
    source = Source(1)
    source.broken = {1: EncoderError("The service is away.")}
    sets, watch = watching(source)
    await watch.look()
    problem = sets.problem
    assert isinstance(problem, EncoderError)
    source.broken = {}
    await watch.look()
    assert (sets.current.revision, sets.problem) == (1, None)


async def test_without_the_store_the_last_known_set_serves_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """F7"""
    source = Source(7)
    await watching(source)[1].start()
    source.away = StoreUnavailable("The database cannot be reached.")
    sets, watch = watching(source, seconds=0.02)
    await watch.start()
    assert sets.current.revision == 7
    assert watch.is_stale
    assert "serves revision 7, which it served last" in caplog.text
    with caplog.at_level(logging.WARNING):
        work = asyncio.create_task(watch.forever())
        await asyncio.sleep(0.1)
        assert caplog.text.count("cannot be read: The database") == 1, "once for a series"
        source.newest, source.away = 8, None
        await soon(served(sets, 8))
        work.cancel()
    assert not watch.is_stale


async def test_without_the_store_and_a_last_known_set_code_serves() -> None:
    """F7"""
    source = Source(7)
    source.away = StoreUnavailable("The database cannot be reached.")
    sets, watch = watching(source)
    await watch.start()
    assert (sets.current.revision, watch.is_stale) == (0, True)


async def test_earlier_revisions_are_made_by_the_source() -> None:
    """F3"""
    sets, _ = watching(Source(2))
    assert (await sets.at(1)).revision == 1
