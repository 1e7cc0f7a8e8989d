"""The report of decisions of a real log (behaviour H2), and its page."""

from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from runner_play import ask, key, runners

from turnwise import Runner, SqlSessionStore, agent
from turnwise.learning.decision_report import Reservoir, decision_report
from turnwise.learning.report.decision_page import decision_page
from turnwise.ports.agent import Agent
from turnwise.ports.decisions import Label
from turnwise.ports.records import record_store_of

TYRES = ("What is my tyre pressure?", "tyre pressure please", "check the pressure of my tyre", "is my tyre pressure low")
EVIL = "</title><script>alert(1)</script> write to eve@example.com"
VOID = {"meta", "line", "rect", "circle", "path", "polyline", "polygon", "br"}


def desk() -> Agent:
    @agent(name="garden", examples=("My tomatoes wilt", "When do I prune roses"), patterns=["water"])
    def garden(message: str) -> str:
        return "ok"

    @agent(name="plumbing", examples=("The tap leaks", "No hot water today"), patterns=["water"])
    def plumbing(message: str) -> str:
        return "ok"

    @agent(name="desk", children=[garden, plumbing])
    def root(message: str) -> str:
        return "How can I help?"

    return root


@pytest.fixture
def make() -> Iterator[Callable[..., Runner]]:
    with runners(store=lambda: SqlSessionStore("sqlite:///:memory:")) as made:
        yield made


class Checker(HTMLParser):
    """Collects what would reach out of the page, and elements that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "link", "img", "iframe"} or {name for name, _ in attrs} & {"src", "href", "onload"}:
            self.wrong.append(f"{tag} {attrs}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(f"closes {tag}")


async def test_a_report_of_traffic(make: Callable[..., Runner]) -> None:
    """H2: misroutes, rivals, groups that fall to nobody, conflicts, and where the accuracy comes from."""
    runner = make(desk())
    texts = ["My tomatoes wilt", "The tap leaks", "hot water for roses", EVIL, *TYRES]
    for number, text in enumerate(texts):
        await ask(runner, text, f"s{number}")
    labels = record_store_of(runner.store).labels
    await labels.put(key("s0"), 1, Label(agent="plumbing", picked="complaint"), actor="op")
    await labels.put(key("s1"), 1, Label(agent="garden", picked="random", probability=0.5), actor="op")
    await labels.put(key("s3"), 1, Label(agent="garden", picked="random", probability=0.5), actor="op")
    await labels.put(key("s4"), 1, Label(agent=None, picked="random", probability=0.5), actor="op")
    found = await decision_report(runner.store, "app", runner.cascade)
    assert (found.decisions, found.labels, found.complete) == (8, 4, True)
    assert found.accuracy is not None
    assert (found.accuracy.labels, found.accuracy.how) == (3, "random")
    assert found.accuracy.share == pytest.approx(1 / 3)
    wrong = {(each.expected, each.chosen): each.examples for each in found.misroutes}
    assert wrong["plumbing", "garden"] == ("My tomatoes wilt",)
    assert wrong["garden", "plumbing"] == ("The tap leaks",)
    assert [(each.one, each.other, each.to_other, each.to_one) for each in found.rivals] == [("garden", "plumbing", 1, 1)]
    (group,) = found.groups
    assert group.count >= 3
    assert set(group.name.split("_")) == {"tyre", "pressure"}
    (conflict,) = found.conflicts
    assert (conflict.agents, conflict.count, conflict.examples) == (("garden", "plumbing"), 1, ("hot water for roses",))
    assert sum(each.decisions for each in found.by_method.values()) == sum(each.decisions for each in found.by_confidence) == 8
    assert [(week.decisions, week.right, week.wrong) for week in found.weeks] == [(8, 1, 3)]
    page = decision_page(found)
    checker = Checker()
    checker.feed(page)
    assert (checker.wrong, checker.open) == ([], [])
    assert "estimated from 3 randomly picked labels" in page
    assert "eve@example.com" not in page
    assert "[e-mail]" in page
    assert await decision_report(runner.store, "app", runner.cascade) == found


async def test_a_report_says_what_it_did_not_read(make: Callable[..., Runner]) -> None:
    runner = make(desk())
    empty = await decision_report(runner.store, "app", runner.cascade)
    assert "There are no decisions." in decision_page(empty)
    for number, text in enumerate(TYRES):
        await ask(runner, text, f"s{number}")
    part = await decision_report(runner.store, "app", runner.cascade, limit=3, sample=1)
    assert (part.decisions, part.complete, part.nobody, part.sampled) == (3, False, 2, 1)
    page = decision_page(part)
    assert "older ones were not read" in page
    assert "A random sample of 1 of these is grouped." in page
    assert "no labelled decision was picked at random" in page


def test_a_reservoir_is_uniform_and_repeatable() -> None:
    counts = [0] * 20
    for seed in range(2_000):
        reservoir = Reservoir(5, seed)
        for number in range(20):
            reservoir.add(str(number), "a")
        assert reservoir.seen == 20
        for text, _ in reservoir.items:
            counts[int(text)] += 1
    assert all(420 < count < 580 for count in counts)
