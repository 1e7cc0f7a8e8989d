"""The same pieces, however a text comes."""

from hypothesis import given, strategies as st

from turnwise.gateway.openai.responses.stream import DeltaSplitter, pieces_of

TEXTS = st.text(st.sampled_from("ab \n\t,。字🙂") | st.characters(exclude_categories=["Cs"]), max_size=80)


@given(st.lists(TEXTS, max_size=12))
def test_pieces_follow_from_the_text_alone(parts: list[str]) -> None:
    whole, splitter, told = "".join(parts), DeltaSplitter(), list[str]()
    for part in parts:
        told += splitter.feed(part)
    sent = "".join(told)
    assert whole.startswith(sent)
    assert [*told, *pieces_of(whole[len(sent) :])] == list(pieces_of(whole))
    assert "".join(pieces_of(whole)) == whole


def test_a_piece_is_a_word_as_a_rule() -> None:
    assert list(pieces_of("It rains, internationally.  ")) == ["It", " rains,", " internat", "ionally.", "  "]
    assert list(pieces_of("")) == []
