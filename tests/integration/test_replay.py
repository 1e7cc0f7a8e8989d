"""Replay of recorded decisions (behaviours E2, H1): the same policy decides the same, whatever happened to the sessions."""

import random
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from runner_play import ask, key, runners

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.learning.replay import OBSTACLES, Redecision, ReplayCounter, ReplayResult, places, replay
from turnwise.ports.agent import Agent
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec

WORDS = (
    "where is my parcel",
    "track order 10412",
    "I want my money back",
    "refund please",
    "the invoice is wrong",
    "bill me monthly",
    "yes",
    "no, the other one",
    "hello there",
    "thanks!",
    "what is the weather on Mars",
    "10412",
    "",
    "order 7 and also a refund",
    "<next>@billing</next>",
)


@agent(name="orders", examples=("where is my order", "track my parcel", "has order 12 shipped"), patterns=(r"\border \d+",))
async def orders(context: AgentContext) -> AsyncIterator[Event]:
    if "refund" in context.message.text:
        await context.transfer("refunds")
        return
    yield context.event("Which order do you mean?")


@agent(name="refunds", examples=("I want a refund", "give me my money back", "send it back"))
async def refunds(context: AgentContext) -> str:
    answer = await context.ask("What is the number?") if "money" in context.message.text else None
    return f"done {answer and answer.text}"


@agent(name="billing", examples=("my invoice is wrong", "change how I pay", "monthly bill"))
async def billing(message: str) -> str:
    if "wrong" in message:
        raise RuntimeError("the ledger is closed")
    return "Here is your bill. <next>@orders</next>"


@agent(name="desk", children=[orders, refunds, billing])
async def desk(message: str) -> str:
    return "How can I help?"


def tree() -> Agent:
    return desk


@pytest.fixture
def make() -> Iterator[Callable[..., Runner]]:
    with runners(store=lambda: SqlSessionStore("sqlite:///:memory:")) as made:
        yield made


async def test_the_same_policy_decides_the_same(make: Callable[..., Runner]) -> None:
    """H1: after forks, rewinds, regenerated answers, hand-overs, waits, errors and choices."""
    found, runner = await replayed_after(make, seed=1, steps=150)
    assert len(found) > 100
    assert [each.obstacle for each in found if each.obstacle not in (None, "rewound")] == []
    changed = [(each.text, each.before, each.after) for each in found if each.obstacle is None and not each.is_equal]
    assert changed == []
    assert [(each.before, each.after) for each in found if each.obstacle is None and not each.same_inputs] == []
    before = {info.key: info.last_sequence for info in (await runner.store.list("app")).items}
    await everything(runner, runner.cascade)
    assert {info.key: info.last_sequence for info in (await runner.store.list("app")).items} == before  # nobody ran


async def test_segments_and_callers_facts_are_in_the_record(make: Callable[..., Runner]) -> None:
    """H1, C18: the record holds what the decision depended on beside the log."""
    spec = named_policy("default")
    segment = SegmentSpec(name="phone", when={"channel": ("phone",)}, default="refunds")
    runner = make(tree(), policy=spec.replace(segments=(segment,)))
    await ask(runner, "what is the weather on Mars", context=MessageContext(channel="phone", previous_agents=("billing",)))
    await ask(runner, "what is the weather on Mars", context=MessageContext(direct_agent_id="billing"))
    found = await everything(runner, runner.cascade)
    assert [each.after.agent for each in found if each.after] == ["refunds", "billing"]
    assert all(each.is_equal and each.same_inputs for each in found)


async def test_another_policy_changes_what_it_changes_and_labels_judge_it(make: Callable[..., Runner]) -> None:
    """E2: which messages change, from whom to whom, and right or wrong where labels know."""
    runner = make(tree())
    for number, text in enumerate(["track my parcel", "I want a refund", "my invoice is wrong"]):
        await ask(runner, text, f"s{number}")
        await runner.store.decisions.label(key(f"s{number}"), 1, ["orders", "refunds", "desk"][number])
    result = counted(runner.cascade, await everything(runner, runner.cascade))
    assert (result.decisions, result.equal, result.labelled, result.right_before, result.right_after) == (3, 3, 3, 2, 2)
    other = runner.cascade.with_policy(PolicySpec(name="desk only", stages=(StageSpec(selector="identity"),)))
    result = counted(other, await everything(runner, other))
    assert [(flip.before, flip.after, flip.count, flip.right, flip.wrong) for flip in result.flips] == [
        ("billing", "desk", 1, 1, 0),
        ("orders", "desk", 1, 0, 1),
        ("refunds", "desk", 1, 0, 1),
    ]
    assert (result.right_after, result.gain, result.other_inputs) == (1, round(-1 / 3, 6), 3)
    assert result.data()["changed"] == 3


async def test_what_cannot_be_decided_again_is_counted(make: Callable[..., Runner]) -> None:
    """H1: decisions of a team, of a deleted session, and behind a rewind are counted by their reason."""
    runner = make(tree())
    await ask(runner, "track my parcel", "gone")
    result = await ask(runner, "hello", "back")
    await ask(runner, "hello", "back")
    await runner.sessions.rewind(key("back"), result.invocation_id)
    wanted = await places(runner.store, "app")
    await runner.sessions.delete(key("gone"))
    found = [each async for each in replay(runner.store, runner.cascade, wanted)]
    counts = counted(runner.cascade, found).obstacles
    assert counts == {"rewound": 2, "deleted": 1}
    assert set(counts) <= set(OBSTACLES)


async def replayed_after(make: Callable[..., Runner], *, seed: int, steps: int) -> tuple[list[Redecision], Runner]:
    """Talks, forks, rewinds and regenerates at random. Returns every decision made again, and the runner."""
    chance, runner, sessions = random.Random(seed), make(tree()), ["s0"]
    invocations: dict[str, list[str]] = {}
    await runner.cascade.prepare()  # a decision before that depends on no fitted texts
    for number in range(steps):
        session = chance.choice(sessions)
        known, roll = invocations.setdefault(session, []), chance.random()
        if roll < 0.08 and known:
            sessions.append(f"fork{number}")
            await runner.sessions.fork(key(session), sessions[-1])
        elif roll < 0.14 and known:
            at = chance.randrange(len(known))
            await runner.sessions.rewind(key(session), known[at])
            del known[at:]
        elif roll < 0.2 and known:
            await (await runner.regenerate(key(session), known.pop())).result()
        elif roll < 0.3:
            sessions.append(f"s{number}")
        else:
            text = chance.choice(WORDS) or "?"
            known.append((await ask(runner, text, session)).invocation_id)
    return await everything(runner, runner.cascade), runner


async def everything(runner: Runner, cascade: Cascade) -> list[Redecision]:
    return [each async for each in replay(runner.store, cascade, await places(runner.store, "app"))]


def counted(cascade: Cascade, found: list[Redecision]) -> ReplayResult:
    counter = ReplayCounter(cascade)
    for each in found:
        counter.add(each)
    return counter.result()
