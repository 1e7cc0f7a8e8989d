"""Learning from labels in the log and in files (behaviours C16, H2–H5)."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from runner_play import ask, key, runners

from turnwise import Runner, SqlSessionStore, agent
from turnwise.errors import PolicyError
from turnwise.learning.cases import Case, Turn
from turnwise.learning.learn import Learned, learn
from turnwise.learning.traffic import CaseTraffic, LogTraffic, effective
from turnwise.ports.agent import Agent
from turnwise.ports.decisions import Label
from turnwise.ports.records import record_store_of

GARDEN = (
    "My tomatoes wilt",
    "The hedge has yellow leaves",
    "When do I prune roses",
    "Slugs eat the lettuce",
    "Moss in the lawn",
)
PLUMBING = ("The sink drips", "The toilet runs on", "No hot water today", "My radiator knocks", "The drain smells")
FORMS = ("{}", "{}, can you help", "Hello, {}", "{} again", "please: {}", "{} since Monday", "{}!!", "hm, {} I think")


def desk() -> Agent:
    @agent(name="garden", examples=("a leaking tap",))
    def garden(message: str) -> str:
        return "ok"

    @agent(name="plumbing", examples=("flower beds",))
    def plumbing(message: str) -> str:
        return "ok"

    @agent(name="desk", children=[garden, plumbing])
    def root(message: str) -> str:
        return "How can I help?"

    return root


def said(wrong: int = 0) -> list[tuple[str, str]]:
    """Messages with the right agent. The label of every `wrong`-th is wrong."""
    pairs = [
        (form.format(text), name)
        for form in FORMS
        for name, texts in (("garden", GARDEN), ("plumbing", PLUMBING))
        for text in texts
    ]
    other = {"garden": "plumbing", "plumbing": "garden"}
    return [(text, other[name] if wrong and number % wrong == 0 else name) for number, (text, name) in enumerate(pairs)]


@pytest.fixture
def make() -> Iterator[Callable[..., Runner]]:
    with runners(store=lambda: SqlSessionStore("sqlite:///:memory:")) as made:
        yield made


async def learned(runner: Runner, pairs: list[tuple[str, str]], **options: float) -> Learned:
    cases = [Case((Turn("", text, name),)) for text, name in pairs]
    return await learn(runner.cascade, await CaseTraffic.read(cases, runner.cascade), **options)  # type: ignore[arg-type]


async def test_labels_of_an_operator_make_later_decisions_better(make: Callable[..., Runner]) -> None:
    """C16, H3, H4: a proposal, which changes nothing by itself."""
    runner = make(desk())
    for number, (text, name) in enumerate(said()):
        await ask(runner, text, f"s{number}")
        await runner.store.decisions.label(key(f"s{number}"), 1, name, actor="op")
    tree = runner.cascade.tree
    found = await learn(runner.cascade, await LogTraffic.read(runner.store, "app", runner.cascade))
    assert found.proposal is not None, found.refusal
    assert found.gain is not None
    assert found.gain.mean > 0.1
    assert found.gain.low >= 0
    assert set(found.proposal.add) <= {"garden", "plumbing"}
    assert runner.cascade.tree is tree
    again = await learn(runner.cascade, await LogTraffic.read(runner.store, "app", runner.cascade))
    assert again == found  # the same labels and seed give the same proposal
    applied = found.proposal.tree(tree).card("garden")
    assert (applied.examples, applied.learned) == (("a leaking tap",), found.proposal.add.get("garden", ()))
    assert {(each.user, each.sequence) for each in applied.learned} == {("ada", 1)}, "each example carries its source"


async def test_what_others_label_is_capped_and_operators_overrule(make: Callable[..., Runner]) -> None:
    """H2, H5: one credential that says that everything is the garden's teaches nothing."""
    runner = make(desk())
    for number, (text, name) in enumerate(said()):
        await ask(runner, text, f"s{number}")
        poison = Label(source="user", author="mallory", agent="garden")
        await record_store_of(runner.store).labels.put(key(f"s{number}"), 1, poison, actor="mallory")
        if number % 2:
            await runner.store.decisions.label(key(f"s{number}"), 1, name, actor="op")
    traffic = await LogTraffic.read(runner.store, "app", runner.cascade)
    assert {each.expected for each in traffic.labelled if each.by_operator} == {"garden", "plumbing"}
    found = await learn(runner.cascade, traffic)
    assert found.left_out["over the cap of its source"] >= 30
    if found.proposal is not None:
        assert found.gain is not None
        assert found.gain.low >= 0


async def test_few_one_sided_or_gone_labels_teach_nothing_and_it_says_why(make: Callable[..., Runner]) -> None:
    """H5"""
    runner = make(desk())
    few = await learned(runner, said()[:10])
    assert few.proposal is None
    assert "at least 10 and 15 are needed" in few.refusal
    one = await learned(runner, [(text, "garden") for text, _ in said()])
    assert "the same agent" in one.refusal
    gone = await learned(runner, [(text, "retired") for text, _ in said()])
    assert (gone.proposal, gone.left_out["agent is gone"]) == (None, len(said()))
    nothing = await learned(runner, said(), min_gain=0.99)
    assert nothing.proposal is None
    assert "not surely a gain" in nothing.refusal


async def test_personal_data_is_not_learned(make: Callable[..., Runner]) -> None:
    """H4: texts with an address or a card number are left out, and counted."""
    runner = make(desk())
    pairs = [(f"{text} at ann{number}@example.com", name) for number, (text, name) in enumerate(said())]
    found = await learned(runner, pairs)
    assert found.proposal is None
    assert found.left_out["holds personal data"] == found.learned_from


async def test_a_policy_without_meaning_cannot_learn(make: Callable[..., Runner]) -> None:
    with pytest.raises(PolicyError, match="does not compare messages with examples"):
        await learned(make(desk(), policy="adk"), said())


def test_the_operators_newest_label_counts_then_the_heaviest() -> None:
    """H2"""
    old = Label(agent="a", author="x", at=datetime(2026, 1, 1, tzinfo=UTC))
    new = Label(agent="b", author="y", at=datetime(2026, 1, 2, tzinfo=UTC))
    heavy, light = Label(source="user", agent="c", weight=3.0), Label(source="model", agent="d", weight=0.5)
    assert effective([heavy, new, old]) == new
    assert effective([light, heavy]) == heavy
    assert effective([heavy.replace(unsure=True)]) is None
    assert effective([light.replace(weight=0.0)]) is None
    assert effective([]) is None
