"""What holds for whatever rules find (C13)."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.guardrails.injection import control_tokens
from turnwise.guardrails.personal_data import RULES, find as find_personal, reach_of
from turnwise.guardrails.replacing import Find, kinds_in, with_labels
from turnwise.guardrails.secrets import REACH, find as find_secrets
from turnwise.runner.guardrail_results import StreamStage


def personal(data: bytes) -> object:
    return find_personal(data, RULES)


ALL_RULES: list[tuple[Find, int]] = [
    (lambda data: find_personal(data, RULES), reach_of(RULES)),
    (find_secrets, REACH),
    (control_tokens, 30),
]
PIECES = [
    *("4111 1111 1111 1111", "4111111111111111", "378282246310005", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
    *("bob@x.org", "@", ".com", "123-45-6789", "ssn ", "call me at ", "+49 30 1234567", "(030) 123456", "415-555-2671", "0"),
    *("sk-abcdefghijklmnopqrstuvw", "password=", "hunter2x", "Bearer ", "abc123def456ghi789", "eyJhbGciOiJIUzI1NiJ9", "."),
    *("-----BEGIN PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7x\n", "-----END PRIVATE KEY-----", "<|im_start|>", "[INST]", "://u:"),
    *(" ", ", ", "-", "a", "Order ", "12", "\n", "\u200b", "é", "４", "[card]", "[secret]", "hello there, "),
]
TEXTS = st.text(st.characters(), max_size=100) | st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@pytest.mark.parametrize("rules", ALL_RULES)
@settings(deadline=None)
@given(text=TEXTS)
def test_what_is_found_is_never_left(rules: tuple[Find, int], text: str) -> None:
    """No text is too odd; what is left is left as it is the next time."""
    find, _ = rules
    left = with_labels(text, find)
    assert kinds_in(left, find) == set()
    assert with_labels(left, find) == left
    assert (left == text) == (not kinds_in(text, find))


@pytest.mark.parametrize("rules", ALL_RULES)
@settings(deadline=None)
@given(
    text=TEXTS,
    words=st.lists(st.sampled_from(["so ", "Well, ", "it is ", "4 ", "\n"]), max_size=60),
    sizes=st.lists(st.integers(1, 9)),
)
def test_what_is_streamed_is_the_beginning_of_what_is_left(
    rules: tuple[Find, int], text: str, words: list[str], sizes: Sequence[int]
) -> None:
    """C13: with the reach that each of the rules tells of itself."""
    find, reach = rules
    middle = "".join(words)
    whole = middle + text + middle + text + middle * 3

    async def check(piece: str) -> str | None:
        return with_labels(piece, find)

    async def shown() -> str:
        stage, at, out = StreamStage(check, reach), 0, []
        for size in (*sizes, *[7] * len(whole)):
            out.append(await stage.feed(whole[at : at + size]) or "")
            at += size
        return "".join(out)

    assert with_labels(whole, find).startswith(asyncio.run(shown()))
