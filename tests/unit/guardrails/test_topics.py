"""Topics that are not talked about (C13)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.content import text_content
from turnwise.facts.errors import ConfigError, EncoderError
from turnwise.guardrails.topics import BannedTopics, passages
from turnwise.ports.guardrail import ALLOW
from turnwise.testing.fake_encoder import BagOfWordsEncoder

BANNED = ["who will win the election", "what do you think of the president"]


def topics(**options: Any) -> BannedTopics:
    return BannedTopics(BANNED, encoder=BagOfWordsEncoder(), **options)


async def test_what_is_near_an_example_is_blocked() -> None:
    verdict = await topics(reason="No politics.").check("message", text_content("who will win this election"), None)
    assert (verdict.action, verdict.reason) == ("block", "No politics.")
    assert await topics().check("message", text_content("where is my parcel"), None) == ALLOW


async def test_what_is_nearer_to_what_is_allowed_passes() -> None:
    guardrail = topics(allowed=["who will win the match"])
    assert await guardrail.check("message", text_content("who will win the match today"), None) == ALLOW
    assert (await guardrail.check("message", text_content("who will win the election today"), None)).action == "block"


async def test_a_passage_of_a_long_answer_is_enough() -> None:
    text = "Your parcel is on its way. " * 30 + "What do you think of the president? " + "It comes tomorrow. " * 30
    assert (await topics().check("answer", text_content(text), "a")).action == "block"
    assert topics().reach is None
    assert topics(places=["message"]).reach == 0


async def test_the_examples_are_encoded_once_and_only_when_needed() -> None:
    encoder = BagOfWordsEncoder()
    guardrail = BannedTopics(BANNED, encoder=encoder)
    assert await guardrail.check("tool_call", text_content("x"), "a") == ALLOW
    assert await guardrail.check("message", text_content(" "), None) == ALLOW
    assert encoder.encoded == 0
    for _ in range(2):
        await guardrail.check("message", text_content("x"), None)
    assert encoder.encoded == len(BANNED) + 2


class Broken(BagOfWordsEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        return np.full((len(texts), 3), np.nan)


async def test_an_encoder_that_gives_something_else_is_an_error() -> None:
    with pytest.raises(EncoderError, match="bag-of-words"):
        await BannedTopics(BANNED, encoder=Broken()).check("message", text_content("x"), None)


@pytest.mark.parametrize("options", [{"banned": []}, {"banned": "text"}, {"banned": ["x"], "threshold": 2}])
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        BannedTopics(**options)


@settings(deadline=None)
@given(st.text("ab .\n", max_size=2_000))
def test_passages_are_the_text(text: str) -> None:
    pieces = list(passages(text))
    assert "".join(pieces).strip() == text.strip()
    assert all(len(piece) <= 200 for piece in pieces)
