"""How long messages and answers may be (C13)."""

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.content import Content, DataPart, TextPart, text_content
from turnwise.facts.errors import ConfigError
from turnwise.guardrails.length import Length
from turnwise.ports.guardrail import ALLOW


async def test_what_is_longer_is_blocked() -> None:
    guardrail = Length(message=3)
    assert await guardrail.check("message", text_content("abc"), None) == ALLOW
    verdict = await guardrail.check("message", text_content("abcd"), None)
    assert (verdict.action, verdict.reason) == ("block", "It had 4 characters, 3 are allowed.")
    assert await guardrail.check("answer", text_content("abcd"), "a") == ALLOW


def test_answers_can_be_streamed_unless_they_are_limited() -> None:
    assert (Length(message=3).reach, Length(answer=3).reach) == (0, None)


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), max_size=5), st.integers(1, 20))
def test_what_is_cut_off_is_as_long_as_it_may_be(texts: list[str], limit: int) -> None:
    import asyncio

    content = Content(parts=(*(TextPart(text=text) for text in texts), DataPart(data=1)))
    verdict = asyncio.run(Length(answer=limit, action="rewrite").check("answer", content, "a"))
    if verdict.content is None:
        assert len("".join(texts)) <= limit
        return
    left = "".join(part.text for part in verdict.content.parts if isinstance(part, TextPart))
    assert (len(left), left[-1]) == (limit, "…")
    assert left[:-1] == "".join(texts)[: limit - 1]
    assert verdict.content.parts[-1] == DataPart(data=1)


def test_a_limit_is_a_number_of_characters() -> None:
    with pytest.raises(ConfigError, match="limit 0"):
        Length(message=0)
