"""The words under which a text is found."""

from turnwise.matching.recall import ENTRY_TERMS, QUERY_TERMS, TERM_CHARACTERS, name_word, query_terms, terms


def test_forms_of_a_word_share_a_term() -> None:
    """G4."""
    for forms in ("paint paints painted painting", "bake bakes baked baking", "story stories", "class classes", "run running"):
        assert len(terms(forms)) == 1, forms


def test_different_words_keep_different_terms() -> None:
    assert len(terms("bus focus this analysis red ring sing less bring")) == 8  # "this" is too frequent to count


def test_words_are_counted_without_the_frequent_ones() -> None:
    assert terms("The dog and the other dogs") == {"dog": 2}
    assert terms("To be, or not to be?") == {}


def test_case_width_and_invisible_characters_do_not_matter() -> None:
    assert terms("STRASSE") == terms("Straße") == terms("stra\u200bße") == terms("ｓｔｒａｓｓｅ")


def test_pairs_of_characters_are_the_words_of_unspaced_scripts() -> None:
    assert set(terms("東京都")) == {"東京", "京都"}
    assert set(terms("犬")) == {"犬"}


def test_the_name_of_a_speaker_is_a_term_of_its_own_kind() -> None:
    assert terms("Mary Ann: I sold the car") == {"mari": 1, "ann": 1, "sold": 1, "car": 1, "@mary": 1, "@ann": 1}
    assert "@note" not in terms("and this is the note: buy bread and butter and cheese: ok")
    assert not any(term.startswith("@") for term in terms("at 10:30: bread"))
    assert set(query_terms("Did Mary sell it?")) == {"mari", "sell", "@mary", "@sell"}


def test_a_name_is_found_as_the_word_that_it_is_in_a_text() -> None:
    assert name_word("@caroline") in terms("Caroline bought a boat")


def test_long_texts_have_a_bound() -> None:
    many = " ".join(f"word{number}x" for number in range(5_000))
    assert len(terms(many)) == ENTRY_TERMS
    assert len(query_terms(many)) == 2 * QUERY_TERMS
    assert all(len(term) <= TERM_CHARACTERS + 1 for term in terms("Long: " + "y" * 100_000))


def test_the_most_frequent_words_of_a_long_text_are_kept() -> None:
    assert terms(" ".join(f"w{number}" for number in range(5_000)) + " kept kept")["kept"] == 2
