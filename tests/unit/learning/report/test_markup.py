"""Markup is escaped unless it was made here (behaviour E3)."""

from hypothesis import given, strategies as st

from turnwise.learning.report.markup import joined, quoted, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    """E3"""
    inner = tag("b", "<x> & 'y'")
    assert tag("p", inner, None, "\x00<", class_='a"b', font_size=1.50, hidden=None) == (
        '<p class="a&quot;b" font-size="1.5"><b>&lt;x&gt; &amp; &#x27;y&#x27;</b>\N{REPLACEMENT CHARACTER}&lt;</p>'
    )
    assert tag("line", x1=0.0) == '<line x1="0"/>'
    assert joined("a", inner) == "a" + inner


def test_what_somebody_wrote_is_kept_apart_and_cut() -> None:
    """E3: right-to-left text does not turn what stands around it."""
    assert quoted("abcdef", 3) == "<bdi>abc…</bdi>"


@given(st.text())
def test_no_text_makes_an_element(text: str) -> None:
    """E3: whatever is written, it stays text, in attributes too."""
    made = tag("p", text, title=text)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 2
