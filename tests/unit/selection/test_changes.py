"""A changed tree: what is shared with the one before, what is freed with it, and that it decides as one made anew."""

import gc
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.selection import named_policy
from turnwise.selection.cascade import Cascade
from turnwise.selection.phrases import TreePhrases
from turnwise.selection.policy import PolicySpec
from turnwise.testing import BagOfWordsEncoder

POLICIES = ["default", "semantic", "patterns"]


def tree_of(words: Mapping[str, tuple[str, ...]]) -> AgentTree:
    desk = AgentCard(name="desk", examples=("hello", "who are you"))
    cards = [AgentCard(name=name, parent="desk", examples=texts) for name, texts in words.items()]
    return AgentTree([desk, *(each.replace(patterns=(Pattern(regex=f"^{each.name}$"),)) for each in cards)])


WORDS = {
    "parcels": ("where is my parcel", "track my package", "it is late"),
    "bills": ("I want my money back", "send me an invoice", "you charged me twice"),
    "hours": ("when do you open", "are you open on sundays", "closing time"),
}
CHANGED = {**WORDS, "hours": ("when do you open", "are you open today", "closing time")}


def policy(name: str) -> PolicySpec:
    return named_policy("default") if name == "default" else PolicySpec(name=name, stages=({"selector": name},))  # type: ignore[arg-type]


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def decided(cascade: Cascade, text: str) -> tuple[str, float, str]:
    found = await cascade.decide(head=Head(), message=text_content(text))
    return found.agent, found.confidence, found.reason


@pytest.mark.parametrize("name", POLICIES)
async def test_a_tree_that_nobody_uses_any_more_is_freed_at_once(name: str) -> None:
    """F4: not only by the garbage collector, whose full passes are rare and stop the process."""
    spec = policy(name)
    cascade = Cascade(spec, tree_of(WORDS), encoder=BagOfWordsEncoder(languages=["en"]))
    await cascade.prepare()
    with without_collector():
        for number in range(3):
            await decided(cascade, "is my parcel late")
            await decided(cascade, "plese send an invioce")
            parts = [cascade, cascade.meaning, cascade.tree, cascade._patterns]
            gone = [weakref.ref(part) for part in parts if part is not None]
            del parts
            card = cascade.tree.card("hours")
            card = card.replace(examples=(*card.examples, f"sunday {number}"))
            cascade = cascade.changed(spec, cascade.tree.replaced([card]))
            await cascade.prepare()
            left = [part for each in gone if (part := each()) is not None and part is not cascade._patterns]
            assert not left
    cascade.close()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("text", ["when do you open", "are you open today", "hours", "my parcel", "hello", "zebra"])
async def test_a_changed_tree_decides_as_one_made_anew(name: str, text: str) -> None:
    """F4, E9"""
    spec, encoder = policy(name), BagOfWordsEncoder(languages=["en"])
    before = Cascade(spec, tree_of(WORDS), encoder=encoder)
    await before.prepare()
    await decided(before, text)
    cards = {card.name: card for card in tree_of(CHANGED)}
    changed = before.changed(spec, before.tree.replaced([cards["hours"]]))
    anew = Cascade(spec, tree_of(CHANGED), encoder=encoder)
    for cascade in (changed, anew):
        await cascade.prepare()
    assert changed.tree.version == anew.tree.version
    assert changed.fingerprint == anew.fingerprint
    assert await decided(changed, text) == await decided(anew, text)
    for cascade in (changed, anew):
        cascade.close()


async def test_callers_reach_what_they_reach_in_a_tree_made_anew() -> None:
    """C19, F4: a changed role or agent that is disabled counts at once, also for a caller who was seen before."""
    spec = policy("patterns")
    cascade = Cascade(spec, tree_of(WORDS))
    steps: list[tuple[dict[str, Any], bool]] = [
        ({"tags": ("x",)}, True),
        ({"roles": ("staff",)}, False),
        ({"roles": ()}, True),
        ({"enabled": False}, False),
    ]
    for fields, reached in steps:
        cascade = cascade.changed(spec, cascade.tree.replaced([cascade.tree.card("hours").replace(**fields)]))
        agent, _, _ = await decided(cascade, "hours")
        assert (agent == "hours") is reached


def test_phrases_of_other_agents_are_the_same_objects() -> None:
    """F4"""
    before = TreePhrases(tree_of(WORDS))
    tree = tree_of(CHANGED)
    after = TreePhrases(tree, before=before)
    assert {name for name, each in after.by_agent.items() if before.by_agent[name] is not each} == {"hours"}
    assert (after.all, after.digest) == (TreePhrases(tree).all, TreePhrases(tree).digest)
    assert after.digest != before.digest
    assert [group[0].label for group in after.all.groups] == ["desk", "parcels", "bills", "hours"]
