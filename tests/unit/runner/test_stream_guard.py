"""Text held back in front of a guardrail of which only its reach and what it does are known (C13)."""

import asyncio
import re
from collections.abc import Callable, Sequence

from hypothesis import given, settings, strategies as st

from turnwise.runner.guardrail_results import StreamStage

Rewrite = Callable[[str], str | None]


class Counting:
    """A check that counts the characters it was given."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite, self.characters = rewrite, 0

    async def __call__(self, text: str) -> str | None:
        self.characters += len(text)
        return self._rewrite(text)


async def fed(stage: StreamStage, pieces: Sequence[str]) -> str | None:
    shown = []
    for piece in pieces:
        text = await stage.feed(piece)
        if text is None:
            return None
        shown.append(text)
    return "".join(shown)


def cut(text: str, sizes: Sequence[int]) -> list[str]:
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, *text]


# What these look for: whether it is found does not depend on what stands further away than their reach.
RULES: list[tuple[int, Rewrite]] = [
    (3, lambda text: text.replace("abc", "[]")),
    (6, lambda text: re.sub(r"\b\d{4}\b", "[four]", text)),
    (5, lambda text: re.sub(r"key[a-z]+", "[key]", text)),
    (1, lambda text: text.replace("a", "")),
    (2, lambda text: text.replace("\n", "<br>").upper()),
]


@settings(deadline=None)
@given(
    st.sampled_from(RULES),
    st.text("abc123 4key\n", max_size=300) | st.lists(st.sampled_from(["abc", "1234", "keyab", "x ", "a", "9"])).map("".join),
    st.lists(st.integers(0, 30), max_size=30),
)
def test_what_is_shown_is_the_beginning_of_what_is_left_of_the_whole(
    rule: tuple[int, Rewrite], text: str, sizes: list[int]
) -> None:
    """C13: however it is cut; and no more is held back than the reach, a step, and what a finding spans."""
    reach, rewrite = rule
    shown = asyncio.run(fed(StreamStage(Counting(rewrite), reach), cut(text, sizes)))
    assert shown is not None
    assert (rewrite(text) or "").startswith(shown)


async def test_no_more_is_held_back_than_needed() -> None:
    shown = await fed(StreamStage(Counting(lambda text: text.replace("abc", "[]")), 40), list("word " * 100))
    assert shown is not None
    assert len(shown) >= 500 - 40 - 10


async def test_with_no_reach_every_piece_is_shown_at_once() -> None:
    stage = StreamStage(Counting(lambda text: text), 0)
    assert [await stage.feed(piece) for piece in ("a", "", "bc")] == ["a", "", "bc"]


async def test_a_block_stops() -> None:
    def block(text: str) -> str | None:
        return None if "bad" in text else text

    assert await fed(StreamStage(Counting(block), 3), list("good " * 20 + "bad " + "good " * 9)) is None


async def test_the_cost_is_linear() -> None:
    """C13: whether much is found, nothing, or one thing that does not end."""
    rewrite = RULES[2][1]
    for text in ("word " * 4_000, "keya " * 4_000, "key" + "a" * 20_000):
        counting = Counting(rewrite)
        await fed(StreamStage(counting, 40), list(text))
        assert counting.characters < 60 * len(text)


async def test_a_long_finding_is_shown_when_it_has_ended() -> None:
    text = "so: key" + "a" * 5_000 + " and then " + "more " * 2_000
    shown = await fed(StreamStage(Counting(RULES[2][1]), 5), list(text))
    assert shown is not None
    assert shown.startswith("so: [key] and then more")


async def test_invisible_characters_do_not_use_up_the_reach() -> None:
    """C13, C2: what is looked for is the same with them in it."""

    def rewrite(text: str) -> str:
        return re.sub("\u200b*".join("abcd"), "[]", text)

    text = "x" * 40 + "ab" + "\u200b" * 60 + "cd" + "y" * 40
    shown = await fed(StreamStage(Counting(rewrite), 4), list(text))
    assert shown is not None
    assert shown.startswith("x" * 40 + "[]yy")


async def test_a_guardrail_that_does_not_judge_by_places_shows_nothing_it_would_change() -> None:
    """One that contradicts its own reach: nothing is let go that is not sure."""
    assert await fed(StreamStage(Counting(lambda text: f"{len(text)}"), 4), list("word " * 30)) == ""
