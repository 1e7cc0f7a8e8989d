"""Signals, reviews and exports of a real log (behaviours C16, H2)."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from runner_play import ask, direct, key, runners

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.access.api_keys import caller_id, caller_of, is_key_id, new_key
from turnwise.facts.callers import LOCAL_ID, credential_digest
from turnwise.facts.sessions import SessionKey
from turnwise.learning.cases import read_cases
from turnwise.learning.collect_signals import Collected, collect_signals, newest_decisions
from turnwise.learning.evaluate import evaluate
from turnwise.learning.export_cases import case_data, labelled_cases
from turnwise.learning.review import review_queue
from turnwise.learning.traffic import LogTraffic
from turnwise.ports.agent import Agent
from turnwise.ports.decisions import Label
from turnwise.ports.records import record_store_of


def desk() -> Agent:
    @agent(name="garden", examples=("My tomatoes wilt", "Slugs eat the lettuce", "When do I prune roses"))
    async def garden(context: AgentContext) -> str:
        if "sink" in context.message.text:
            await context.transfer("plumbing")
            return ""
        return "Water them, and write to ann@example.com"

    @agent(name="plumbing", examples=("The tap leaks", "No hot water today", "My radiator knocks"))
    def plumbing(message: str) -> str:
        return "Which tap?"

    @agent(name="desk", children=[garden, plumbing])
    def root(message: str) -> str:
        return "How can I help?"

    return root


@pytest.fixture
def make() -> Iterator[Callable[..., Runner]]:
    with runners(store=lambda: SqlSessionStore("sqlite:///:memory:")) as made:
        yield made


async def collected(runner: Runner) -> Collected:
    return await collect_signals(runner.store, runner.app, runner.tree)


async def label(runner: Runner, session: str, sequence: int = 1) -> Label | None:
    found = await record_store_of(runner.store).labels.of(key(session), sequence)
    return next((each.label for each in found if each.label.source == "signal"), None)


async def test_signals_become_labels_once(make: Callable[..., Runner]) -> None:
    """H2: running it again changes nothing; a label that the log no longer supports goes."""
    runner = make(desk())
    await ask(runner, "My tomatoes wilt by the sink", "moved")
    await ask(runner, "My tomatoes wilt", "pleased")
    await ask(runner, "Thank you!", "pleased")
    found = await collected(runner)
    assert dict(found.signals) == {"handed_over": 1, "thanked": 1}
    assert (found.labels, found.unsure, found.changed, found.decisions, found.sessions) == (2, 0, 2, 3, 2)
    moved, pleased = await label(runner, "moved"), await label(runner, "pleased")
    assert moved is not None
    assert pleased is not None
    assert (moved.agent, moved.weight, moved.picked, moved.note) == ("plumbing", 0.7, "signal", "handed_over")
    assert pleased.agent == "garden"
    again = await collected(runner)
    assert (again.changed, again.removed, again.labels) == (0, 0, 2)
    assert len(await record_store_of(runner.store).labels.changes(key("moved"), 1)) == 1

    await record_store_of(runner.store).labels.put(key("moved"), 1, moved.replace(agent="garden"), actor="x")
    stray = Label(source="signal", agent="garden")
    await record_store_of(runner.store).labels.put(key("pleased"), 3, stray, actor="x")
    repaired = await collected(runner)
    assert (repaired.changed, repaired.removed) == (1, 1)
    assert await label(runner, "pleased", 3) is None


async def test_an_operator_overrules_signals(make: Callable[..., Runner]) -> None:
    """H2: and in a reviewed session, the decisions that stay as they are count as right."""
    runner = make(desk())
    await ask(runner, "My tomatoes wilt by the sink")
    await ask(runner, "No hot water today")
    await runner.store.decisions.label(key(), 1, "garden", actor="op")
    await ask(runner, "The tap leaks")
    found = await collected(runner)
    assert dict(found.signals) == {"handed_over": 1, "not_corrected": 1}  # the third was decided after the review
    kept = await label(runner, "s", 4)
    assert kept is not None
    assert (kept.agent, kept.note) == ("plumbing", "not_corrected")
    traffic = await LogTraffic.read(runner.store, "app", runner.cascade)
    assert [(each.text, each.expected, each.by_operator, each.author) for each in traffic.labelled] == [
        ("My tomatoes wilt by the sink", "garden", True, "operator\nop"),
        ("No hot water today", "plumbing", False, ""),
    ]


async def test_a_signal_is_the_credentials_that_sent_the_message(make: Callable[..., Runner]) -> None:
    """H2: one credential may name any user, so its users count as one source unless it is trusted."""
    runner = make(desk())
    for number, sender in enumerate(("key-1", "key-1", LOCAL_ID)):
        credential = credential_digest(sender)
        started = await runner.start(
            "My tomatoes wilt by the sink", user=f"u{number}", session=str(number), credential=credential
        )
        await started.result()
    await collected(runner)
    rated = Label(source="user", author="key-1", agent="plumbing")
    await record_store_of(runner.store).labels.put(SessionKey("app", "u1", "1"), 1, rated, actor="key-1")
    one = f"credential\n{credential_digest('key-1')}"
    traffic = await LogTraffic.read(runner.store, "app", runner.cascade)
    assert {each.user: each.author for each in traffic.labelled} == {"u0": one, "u1": one, "u2": ""}
    trusting = await LogTraffic.read(runner.store, "app", runner.cascade, trusted=["key-1", "other"])
    assert {(each.author, each.credential) for each in trusting.labelled} == {("", "")}


async def test_the_operators_newest_labels_come_first_when_there_are_too_many(make: Callable[..., Runner]) -> None:
    """H2"""
    runner = make(desk())
    for number in range(4):
        await ask(runner, "My tomatoes wilt by the sink", str(number))
    await collected(runner)
    await runner.store.decisions.label(key("1"), 1, "garden", actor="op")
    traffic = await LogTraffic.read(runner.store, "app", runner.cascade, most=2)
    assert [(each.session, each.by_operator) for each in traffic.labelled] == [("1", True), ("3", False)]


async def test_labels_are_exported_as_cases_with_the_conversation(make: Callable[..., Runner], tmp_path: Path) -> None:
    """C16, E4: without personal data, and `eval` reads them."""
    import json

    runner = make(desk())
    for text in ("My tomatoes wilt", "I am ben@example.com", "No hot water today", "and the tap leaks"):
        await ask(runner, text)
    await runner.store.decisions.label(key(), 5, "plumbing", actor="op")
    doubted = Label(source="user", agent=None, unsure=True)
    await record_store_of(runner.store).labels.put(key(), 7, doubted, actor="u")
    (case,) = [each async for each in labelled_cases(runner.store, "app", "desk")]
    assert [(turn.user, turn.agent) for turn in case.turns] == [
        ("My tomatoes wilt", None),
        ("I am [e-mail]", None),
        ("No hot water today", "plumbing"),
    ]
    assert case.turns[0].system == ""
    assert case.turns[1].system == "Water them, and write to [e-mail]"
    assert case.dialogue is not None
    assert "ada" not in case.dialogue
    (tmp_path / "cases.jsonl").write_text(json.dumps(case_data(case)) + "\n")
    outcomes = await evaluate(runner.cascade, read_cases([tmp_path / "cases.jsonl"]))
    assert [(outcome.expected, outcome.scored) for outcome in outcomes] == [(None, False), (None, False), ("plumbing", True)]


async def test_a_dialogue_begins_six_messages_before_the_first_label(make: Callable[..., Runner]) -> None:
    runner = make(desk())
    for number in range(9):
        await ask(runner, f"My tomatoes wilt {number}")
    await runner.store.decisions.label(key(), 15, "garden", actor="op")
    (case,) = [each async for each in labelled_cases(runner.store, "app", "desk")]
    assert [turn.user[-1] for turn in case.turns] == list("1234567")


async def test_the_queue_has_contradicted_doubtful_and_random_decisions(make: Callable[..., Runner]) -> None:
    """H2: what an operator labelled, and what nobody routed, is not in it."""
    runner = make(desk())
    texts = ("My tomatoes wilt", "garden tap", "No hot water today", "The tap leaks", "Slugs eat the lettuce")
    for number, text in enumerate(texts):
        await ask(runner, text, f"s{number}")
    await ask(runner, "My tomatoes wilt", "named", context=direct("plumbing"))
    labels = record_store_of(runner.store).labels
    await labels.put(key("s4"), 1, Label(source="user", agent="plumbing"), actor="u")
    await runner.store.decisions.label(key("s3"), 1, "plumbing", actor="op")
    found = {(each.key, each.sequence): [each.label] for each in (await labels.search("app")).items}
    decisions = [each async for each in newest_decisions(runner.store, "app")]
    queue = review_queue(decisions, found, default="desk", size=4, share=0.25, seed=1)
    assert len(queue) == 4
    assert [each.probability for each in queue if each.picked == "random"] == [0.25]
    certain = review_queue(decisions, found, default="desk", size=2, share=0)
    assert [(each.decision.key.id, each.picked) for each in certain] == [("s4", "complaint"), ("s1", "doubt")]
    every = review_queue(decisions, found, default="desk", size=50, share=1)
    assert [each.probability for each in every] == [1.0] * 4
    assert review_queue([], {}, default="desk", size=5) == []


async def test_many_labels_of_one_credential_push_nobody_out(make: Callable[..., Runner]) -> None:
    """H2: of users' labels the newest of each source come first."""
    runner = make(desk())
    for number in range(5):
        await (await runner.start("My tomatoes wilt", user=f"u{number}", session=str(number))).result()
    labels = record_store_of(runner.store).labels
    for number, author in enumerate(("honest", "spam", "spam", "spam", "spam")):
        await labels.put(
            SessionKey("app", f"u{number}", str(number)), 1, Label(source="user", author=author, agent="plumbing"), actor=author
        )
    traffic = await LogTraffic.read(runner.store, "app", runner.cascade, most=2)
    assert {each.session for each in traffic.labelled} == {"0", "4"}


async def test_the_id_of_a_key_names_what_its_messages_carry(make: Callable[..., Runner]) -> None:
    """H2: `learn --trust` takes what `keys list` shows."""
    _, api_key = new_key("server", datetime.now(UTC), acts_for_users=True)
    runner = make(desk())
    for number in range(2):
        started = await runner.start(
            "My tomatoes wilt by the sink", user=f"u{number}", session="s", credential=credential_digest(caller_of(api_key).id)
        )
        await started.result()
    await collected(runner)
    assert is_key_id(api_key.id)
    assert len({each.author for each in (await LogTraffic.read(runner.store, "app", runner.cascade)).labelled}) == 1
    trusting = await LogTraffic.read(runner.store, "app", runner.cascade, trusted=[caller_id(api_key.id)])
    assert {(each.author, each.credential) for each in trusting.labelled} == {("", "")}
