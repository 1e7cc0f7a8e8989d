"""What the first agent with words needs is loaded before it comes."""

import pytest
from words import Words

from turnwise.facts.errors import EncoderError
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec, StageSpec

PLAIN = AgentTree([AgentCard(name="desk"), AgentCard(name="parcels", parent="desk")])
WITH_WORDS = AgentTree([AgentCard(name="desk"), AgentCard(name="parcels", parent="desk", examples=("a letter", "my parcel"))])


async def test_the_first_agent_with_words_finds_all_loaded() -> None:
    """F4: also after a change that brings no words."""
    words = Words()
    spec = PolicySpec(name="p", stages=(StageSpec(selector="semantic"),))
    cascade = Cascade(spec, PLAIN, encoder=words)
    await cascade.warm()
    await cascade.warm_spare()
    assert cascade.meaning is None, "no agent can be compared, and no decision tries"
    words.asked.clear()
    second = cascade.changed(spec, AgentTree([*PLAIN, AgentCard(name="other", parent="desk")]))
    await second.warm()
    await second.warm_spare()
    assert words.asked == []
    third = second.changed(spec, WITH_WORDS)
    await third.warm()
    assert third.meaning is not None
    assert set(words.asked) == {"a letter", "my parcel"}
    third.close()


async def test_without_a_stage_by_meaning_nothing_is_loaded() -> None:
    words = Words()
    cascade = Cascade(PolicySpec(name="p", stages=(StageSpec(selector="patterns"),)), PLAIN, encoder=words)
    await cascade.warm_spare()
    assert words.asked == []


async def test_an_encoder_that_is_away_holds_up_no_agents_without_words() -> None:
    """F4"""
    spec = PolicySpec(name="p", stages=(StageSpec(selector="semantic"),))
    words = Words()
    words.broken = True
    cascade = Cascade(spec, PLAIN, encoder=words)
    await cascade.warm()
    with pytest.raises(EncoderError):
        await cascade.warm_spare()
    await cascade.changed(spec, PLAIN).warm()
