"""Shadow policies (behaviour H6): they decide, too, are never waited for, and never act."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import ask, key, soon

from turnwise import MessageContext, Runner, SqlSessionStore, agent
from turnwise.facts.content import text_content
from turnwise.facts.experiments import Arm, Experiment
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import Head
from turnwise.learning.experiments import read_shadow
from turnwise.ports.selector import SelectionRequest
from turnwise.runner.message.shadow import PATIENCE_SECONDS, PENDING, ShadowCounts, Shadows
from turnwise.selection.alternatives import ShadowRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.stores.sql.experiments import SqlExperiments

MakeRunner = Callable[..., Runner]


@agent(name="old")
def old(message: str) -> str:
    return "old"


@agent(name="new")
def new(message: str) -> str:
    return "new"


@agent(name="desk", children=[old, new])
def desk(message: str) -> str:
    return "desk"


class Watched:
    """A selector that can be held up, or fail, or need somebody outside."""

    name = "watched"

    def __init__(self) -> None:
        self.go, self.called = asyncio.Event(), 0
        self.fails = self.is_remote = False

    def asks(self, request: SelectionRequest) -> bool:
        return self.is_remote

    async def select(self, request: SelectionRequest) -> Verdict:
        self.called += 1
        await self.go.wait()
        if self.fails:
            raise RuntimeError("a defect")
        return Verdict(
            selector="watched", outcome="chosen", agent="new", method="watched", confidence=0.9, reason="The shadow says so."
        )


SHADOW = PolicySpec(name="watched-policy", stages=(StageSpec(selector="watched"),))


def served(**fields: Any) -> PolicySpec:
    return PolicySpec(name="served", stages=(StageSpec(selector="default"),), default="old", shadow="careful", **fields)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def shadowed(make_runner: MakeRunner, watched: Watched) -> Callable[..., Runner]:
    def make(**fields: Any) -> Runner:
        selectors = {"watched": lambda *_: watched}
        return make_runner(desk, policy=served(**fields), policies={"careful": SHADOW}, custom_selectors=selectors)

    return make


async def settled(runner: Runner, count: int = 1) -> dict[str, int]:
    """The counts of the shadow's decisions, once there are so many."""

    async def counted() -> dict[str, int]:
        while sum(runner.shadow_counts.results.values()) < count:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.005)
        return {name: number for name, number in runner.shadow_counts.results.items() if number}

    return await soon(counted())


async def shadow_of(runner: Runner, session: str = "s", sequence: int = 1) -> Selection | None:
    decision = await runner.store.decisions.find(key(session), sequence)
    assert decision is not None
    return decision.shadow


async def test_the_shadow_is_never_waited_for(shadowed: Callable[..., Runner], watched: Watched) -> None:
    """H6: two answers are there before the shadow of the first has decided."""
    runner = shadowed()
    assert (await soon(ask(runner, "hi"))).text == "old"
    assert (await soon(ask(runner, "hi"))).text == "old"
    assert await shadow_of(runner) is None
    watched.go.set()
    assert await settled(runner, 2) == {"decided": 2}
    shadow = await shadow_of(runner)
    assert shadow is not None
    assert (shadow.agent, shadow.policy, shadow.confidence, shadow.arm) == ("new", "watched-policy", 0.9, None)
    (found, *_) = (await runner.store.decisions.search("app")).items
    assert (found.selection.agent, found.shadow and found.shadow.agent) == ("old", "new")


async def test_the_shadow_acts_never(shadowed: Callable[..., Runner], watched: Watched) -> None:
    """H6: nothing of it is in the log, in the head or in the next decision."""
    watched.go.set()
    runner = shadowed()
    for _ in range(2):
        result = await ask(runner, "hi")
    await settled(runner, 2)
    events = await runner.store.events(key())
    assert [event.author for event in events] == ["user", "old"] * 2
    assert not any("new" in event.model_dump_json() for event in events)
    session = await runner.sessions.get(key())
    assert session.head.active_agent == "old"
    assert result.selection is not None
    assert "new" not in result.selection.model_dump_json()


async def test_a_shadow_may_fail(shadowed: Callable[..., Runner], watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """H6: a selector that raises abstains, as everywhere; a store that does not take it is counted."""
    watched.go.set()
    watched.fails = True
    runner = shadowed()
    assert (await ask(runner, "hi")).text == "old"
    assert await settled(runner) == {"decided": 1}
    shadow = await shadow_of(runner)
    assert shadow is not None
    assert (shadow.agent, shadow.verdicts[0].outcome) == ("desk", "abstained")

    async def refuse(*_: Any) -> bool:
        raise RuntimeError("The disk is gone.")

    runner.experiments.store.put_shadow = refuse  # type: ignore[union-attr, method-assign]
    for _ in range(2):
        assert (await ask(runner, "hi")).text == "old"
    assert await settled(runner, 3) == {"decided": 1, "failed": 2}
    assert [record.message for record in caplog.records].count("The shadow policy failed.") == 1


@pytest.mark.parametrize("may_ask", [False, True])
async def test_a_shadow_asks_somebody_outside_only_if_it_may(
    shadowed: Callable[..., Runner], watched: Watched, may_ask: bool
) -> None:
    """H6"""
    watched.go.set()
    watched.is_remote = True
    runner = shadowed(shadow_may_ask=may_ask)
    await ask(runner, "hi")
    assert await settled(runner) == ({"decided": 1} if may_ask else {"asks": 1})
    assert watched.called == int(may_ask)


async def test_the_shadow_is_dropped_first_and_counted(shadowed: Callable[..., Runner], watched: Watched) -> None:
    """H6: all messages are answered while the shadow hangs."""
    runner = shadowed()
    for number in range(PENDING + 4):
        assert (await ask(runner, "hi", session=str(number))).text == "old"
    assert runner.shadow_counts.results["dropped"] == 3  # one is being decided, as many as may wait
    watched.go.set()
    assert (await settled(runner, PENDING + 4))["decided"] + runner.shadow_counts.results["dropped"] == PENDING + 4


async def test_a_decision_that_waited_too_long_is_dropped(watched: Watched) -> None:
    store, counts, now = SqlSessionStore("sqlite://"), ShadowCounts(), [0.0]
    shadows = Shadows(store.experiments, counts, clock=lambda: now[0])
    tree = Runner(desk).tree
    cascade = Cascade(SHADOW, tree, {"watched": lambda *_: watched})
    request = ShadowRequest(
        cascade=cascade,
        head=Head(),
        message=text_content("hi"),
        context=MessageContext(),
        noted=(),
        resting=frozenset(),
        message_id="m",
        may_ask=True,
    )
    for _ in range(3):
        shadows.submit(key(), 1, request)
    now[0] = PATIENCE_SECONDS + 1
    await shadows.close()
    assert counts.results == {"decided": 0, "dropped": 3, "failed": 0, "asks": 0}
    shadows.submit(key(), 1, None)
    Shadows(None, counts).submit(key(), 1, request)
    assert counts.results["dropped"] == 3
    await store.close()


async def test_a_decision_of_a_deleted_session_is_dropped(shadowed: Callable[..., Runner], watched: Watched) -> None:
    runner = shadowed()
    await ask(runner, "hi")
    await runner.sessions.delete(key())
    watched.go.set()
    assert await settled(runner) == {"dropped": 1}


async def test_closing_does_not_wait_for_a_shadow_that_hangs(watched: Watched) -> None:
    runner = Runner(desk, policy=served(), policies={"careful": SHADOW}, custom_selectors={"watched": lambda *_: watched})
    await ask(runner, "hi")
    await asyncio.wait_for(runner.close(), 20)


async def test_the_shadow_is_compared_with_the_policy(shadowed: Callable[..., Runner], watched: Watched) -> None:
    watched.go.set()
    runner = shadowed()
    for number in range(3):
        await ask(runner, "hi", session=str(number))
    await settled(runner, 3)
    store = runner.experiments.store
    assert isinstance(store, SqlExperiments)
    found = await read_shadow(store, "app")
    assert (found.first, found.second, found.decisions, found.differ) == ("served", "watched-policy", 3, 3)


async def test_the_other_arm_decides_too(make_runner: MakeRunner) -> None:
    """H7: the paired comparison comes first. Each arm's policy decides the messages of the other one, as its shadow."""
    arms = (Arm(name="a", policy="staples"), Arm(name="b", policy="adk"))
    runner = make_runner(desk, experiment=Experiment(name="trial", arms=arms), policy="adk")
    for number in range(6):
        await ask(runner, "hi", session=str(number))
    await settled(runner, 6)
    for number in range(6):
        decision = await runner.store.decisions.find(key(str(number)), 1)
        assert decision is not None
        assert decision.shadow is not None
        assert {decision.selection.arm, decision.shadow.arm} == {"a", "b"}
        assert {decision.selection.policy, decision.shadow.policy} == {"staples", "adk"}


def test_a_shadow_does_not_change_the_fingerprint() -> None:
    tree = Runner(desk).tree
    plain = PolicySpec(name="served", stages=(StageSpec(selector="default"),), default="old")
    assert Cascade(plain, tree).fingerprint == Cascade(plain.replace(shadow="staples"), tree).fingerprint


async def test_a_named_policy_is_a_shadow_without_policies_of_the_app(make_runner: MakeRunner) -> None:
    """H6"""
    spec = PolicySpec(name="served", stages=(StageSpec(selector="default"),), default="old", shadow="staples")
    runner = make_runner(desk, policy=spec)
    await ask(runner, "hi")
    assert await settled(runner) == {"decided": 1}


async def test_a_policy_that_nobody_uses_may_name_agents_that_come_later(make_runner: MakeRunner) -> None:
    """H7: a later experiment may name it, once its agents are there."""
    later = PolicySpec(name="later", stages=(StageSpec(selector="default"),), default="of_the_database")
    runner = make_runner(
        desk, policies={"careful": PolicySpec(name="c", stages=(StageSpec(selector="default"),)), "later": later}
    )
    assert list(runner.sets.current.policies) == ["careful"]
