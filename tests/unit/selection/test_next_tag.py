"""The `<next>` tag: where it counts, and that a stream hides it however it is cut (B4, B5, B6)."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings, strategies as st

from turnwise.selection.conversational import NAME_CHARACTERS, NextTagFilter, take_next

TAG = "<next>@B</next>"


@pytest.mark.parametrize(
    ("text", "clean", "name"),
    [
        ("", "", None),
        ("no tag < here > &lt;", "no tag < here > &lt;", None),
        (f"Done. {TAG}", "Done. ", "B"),
        (f"{TAG}Done.", "Done.", "B"),
        ("<next>B</next>", "", "B"),
        ("<next> @ Order Tracking </next>", "", "Order Tracking"),
        ("<next>ask x@y or @Writer</next>", "", "Writer"),
        ("<next>\n@Writer\n</next>", "", "Writer"),
        ("<next></next>!", "!", ""),
        ("<next>@</next>", "", ""),
        ("<next>@A</next> and <next>@B</next>.", " and .", "A"),
        ("<next></next><next>@B</next>", "", ""),
        ("<next>@A", "<next>@A", None),
        ("<next>@A</nex", "<next>@A</nex", None),
        ("<next>@A<next>@B</next>", "", "B"),
        ("<next", "<next", None),
        ("<NEXT>@A</NEXT>", "<NEXT>@A</NEXT>", None),
        ("<<next>@A</next>", "<", "A"),
    ],
)
def test_the_first_tag_names_the_next(text: str, clean: str, name: str | None) -> None:
    """B4: the text after the last `@`, stripped; without one, all of it. B6: the tag is taken out."""
    assert take_next(text) == (clean, name)


def test_a_name_too_long_is_no_tag() -> None:
    longest = "x" * NAME_CHARACTERS
    assert take_next(f"<next>{longest}</next>") == ("", longest)
    assert take_next(f"<next>{longest}y</next>")[1] is None
    assert take_next(f"<next>{longest}y</next>{TAG}") == (f"<next>{longest}y</next>", "B")


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{TAG}\n```",
        f"```python\n{TAG}\n```\n",
        f"~~~\n{TAG}\n~~~",
        f"````\n```\n{TAG}\n```\n````",
        f"```\n~~~\n{TAG}\n",
        f"```\nnever closed\n\n{TAG}",
        f"  ```\n{TAG}\n  ```",
        f"- ```\n  code\n\n  {TAG}\n  ```",
        f"1. ~~~\n\n   {TAG}\n   ~~~",
        f"```\n``` x\n{TAG}\n```",
        f"`{TAG}`",
        f"``a ` {TAG} ``",
        f"use `code\nover lines {TAG}` here",
        f"``` {TAG} ```",
        f"``` x ` {TAG} ```",
        f"> {TAG}",
        f"said:\n  > he wrote {TAG}",
        f"- > {TAG}",
        f'He wrote "{TAG}".',
        f'He wrote "please\nanswer {TAG}".',
        f'{{"text":"{TAG}"}}',
        f"He wrote “{TAG}”.",
        f"Er schrieb „{TAG}“.",
        f"Il écrit « {TAG} ».",
        f"»{TAG}«",
        f"「{TAG}」",
        f"“not closed {TAG}",
        f"`not closed {TAG}",
        f'"{TAG}',
    ],
)
def test_a_tag_in_code_or_a_quote_is_text(text: str) -> None:
    """B5"""
    assert take_next(text) == (text, None)


@pytest.mark.parametrize(
    "before",
    [
        "```\ncode\n```\n",
        "```\ncode\n```  \n",
        "~~~\n```\n~~~\n",
        "``` inline ``` ",
        "`code` ",
        "``a ` b`` ",
        "> quoted\n",
        '"quoted" ',
        "“quoted” ",
        "„zitiert“ ",
        "« cité » ",
        '"one" and “two” and `three` ',
        "a ` that is not closed\n\n",
        '"not closed\n\n',
        "“not closed\n  \n",
        'a 27" screen ',
        "don`t worry ",
        "it's 5 o'clock ",
        "1 > 0, a ~~~ b ",
        "a ” that closes nothing ",
        "> “quote that stays on its line\n",
        '```\n"`>\n```\n',
    ],
)
def test_a_tag_after_code_or_a_quote_counts(before: str) -> None:
    """B5"""
    assert take_next(f"{before}{TAG} end") == (f"{before} end", "B")


PIECE = st.sampled_from(
    [
        "<",
        "next",
        ">",
        "<next>",
        "</next>",
        "@A",
        "A b",
        " ",
        "\n",
        "\n\n",
        "`",
        "``",
        "```",
        "~~~",
        '"',
        "“",
        "”",
        "„",
        "> ",
        "- ",
        "1. ",
    ]
)
TEXTS = st.lists(PIECE, max_size=14).map("".join)


@given(TEXTS, st.lists(st.integers(0, 40), max_size=8))
@example(f"a `{TAG}` {TAG}", list(range(40)))
@settings(max_examples=100)
def test_however_it_is_cut_the_stream_shows_the_clean_text(text: str, cuts: list[int]) -> None:
    """B6: and it finds the same name."""
    clean, name = take_next(text)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stream = NextTagFilter()
    shown = [stream.feed(text[a:b]) for a, b in pairwise(edges)]
    assert "".join(shown) + stream.finish() == clean
    assert stream.name == name


@given(TEXTS)
@settings(max_examples=100)
def test_character_by_character_only_what_may_be_a_tag_is_held_back(text: str) -> None:
    """B6"""
    stream, shown, fed = NextTagFilter(), "", ""
    for character in text:
        fed += character
        shown += stream.feed(character)
        held = take_next(fed)[0].removeprefix(shown)
        assert "<next>".startswith(held[:6])
        assert len(held) <= len("<next></next>") + NAME_CHARACTERS
    assert shown + stream.finish() == take_next(text)[0]


@given(TEXTS)
@settings(max_examples=60)
def test_without_a_tag_nothing_is_lost(text: str) -> None:
    clean, name = take_next(text)
    if name is None:
        assert clean == text
    assert len(clean) <= len(text)


def test_a_long_text_is_read_quickly_enough_to_stream() -> None:
    text = 'words and `code` and "quotes" < more\n' * 20_000
    assert take_next(text + TAG) == (text, "B")
