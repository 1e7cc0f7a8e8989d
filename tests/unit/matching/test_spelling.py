"""Slips of the pen."""

import random

import pytest
from hypothesis import given, strategies as st

from turnwise.matching.spelling import READ_CHARACTERS, CorrectedText, Correction, SpellingCorrector

AGENTS = SpellingCorrector([
    "I want a refund", "where is my invoice", "cancel my subscription", "reset my password", "I forgot my password",
    "track my parcel", "reactivate my card", "talk to Kowalski",
])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "slips"),
    [
        ("and i forgot my pasword", [("pasword", "password")]),
        ("I forgot my passowrd", [("passowrd", "password")]),
        ("wheer is my invvoice?", [("wheer", "where"), ("invvoice", "invoice")]),
        ("cancel my subscriptuon.", [("subscriptuon", "subscription")]),
        ("Cnacel it", [("Cnacel", "cancel")]),
        ("Thanks. Wehre is it?", [("Wehre", "where")]),
        ("WHERE IS MY PARCLE", [("PARCLE", "parcel")]),
    ],
)
def test_a_word_that_nobody_knows_is_read_as_the_one_it_nearly_is(text: str, slips: list[tuple[str, str]]) -> None:
    expected = text
    for typed, meant in slips:
        expected = expected.replace(typed, meant)
    assert AGENTS.corrected(text) == CorrectedText(expected, tuple(Correction(*each) for each in slips))


def test_agents_words_come_before_english_ones() -> None:
    assert SpellingCorrector([]).corrected("about my plaze").text == "about my place"
    assert SpellingCorrector(["the plaza hotel"]).corrected("about my plaze").text == "about my plaza"
    assert SpellingCorrector(["the glimmerbox is broken"]).corrected("my glimerbox hums").text == "my glimmerbox hums"


def test_a_part_of_an_agents_word_is_no_word() -> None:
    assert SpellingCorrector(["eine Überweisung"]).corrected("my berweisng is here").corrections == ()


def test_the_first_letter_stays_unless_two_are_swapped() -> None:
    """What is put before a word often turns it round."""
    agents = SpellingCorrector(["rechnungen anmelden", "lock the glimmerbox", "quittance"])
    assert agents.corrected("my zlimmerbox is here").corrections == ()
    assert agents.corrected("my climmerbox is here").corrections == ()
    assert agents.corrected("my lgimmerbox is here").corrections == (Correction("lgimmerbox", "glimmerbox"),)
    assert agents.corrected("an acquittance is here, uittance").corrections == ()


def test_of_two_words_as_near_the_one_with_the_same_letters_is_meant() -> None:
    assert SpellingCorrector(["salsa salsa salsa", "a salad"]).corrected("one salda please").text == "one salad please"


def test_a_very_rare_word_is_a_slip_only_beside_a_far_commoner_one_of_agents() -> None:
    """All of these words are in the dictionary; how rare "oder" is does not tell what was meant, but "order" beside it does."""
    agents = SpellingCorrector(["where is my order", "then book a flight", "a tarot reading"])
    assert agents.corrected("my oder is late").text == "my order is late"
    for text in ("a flight to thun", "king kong", "my tarot reading"):
        assert agents.corrected(text).text == text
    assert SpellingCorrector(["pay a bill"]).corrected("my oder is late").text == "my oder is late"
    other = SpellingCorrector(["where is my order"], english=False)
    assert other.corrected("Montag oder Dienstag").text == "Montag oder Dienstag"
    assert other.changed([], ["book a flight"]).corrected("my oder is late").text == "my oder is late"


def test_where_most_words_are_strange_only_agents_words_count() -> None:
    """It may be another language."""
    assert AGENTS.corrected("chnge plaese") == CorrectedText("chnge plaese")
    assert AGENTS.corrected("pasword chnge").text == "password chnge"
    assert AGENTS.corrected("thnks").text == "thanks"
    strange = "".join(f"pasword xq{letter * 4} " for letter in "abcdefghijk")
    assert AGENTS.corrected("please look at what I wrote about this today and then " * 4 + strange).corrections == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1234 ?!",
        "deactivate my card",  # one letter from what an agent does, and the opposite
        "I paid the debit with gravy and a lorry in colour",
        "i dont know, wheres it",
        "ask Kowalsky about it",  # a name is nobody's slip
        "the FTXE is down",
        "write to pasword@example.com or invoce.example.com/pasword",
        "ORD-pasword pasword_reset pasword2 x-pasword's",
        "teh abd",  # too short to tell
        "ask Dr. Kowalsky about it",
        "ask J. Kowalsky of Acme Inc. Kowalsky, vs. Kowalsky",
        "https://example.com/?pasword $pasword `pasword` <pasword> pasword(1) C:\\pasword\\invoce a=pasword",
        "it dosnt work and they havnt called, theyd know",
        "venmo my wifi bill by autopay",
        "rechnung bitte",
        "meine karte gesperrt",
        "lyrica and statin",
        "¿Cuánto cuesta una habitación en el hotel mañana por la noche?",
        "chcialbym zarezerwowac stolik na dwie osoby",
        "saya mau pesan tiket pesawat ke jakarta besok",
        "где моя посылка",
        "asdkjh qwlekj zxmcnb poiwer lkjasd",
    ],
)
def test_what_is_no_slip_stays(text: str) -> None:
    assert AGENTS.corrected(text) == CorrectedText(text)


def test_a_long_text_is_mended_where_it_is_read_and_no_word_is_cut() -> None:
    for space in (" ", "\n"):
        begins = f"pasword{space}" + f"please reset it{space}" * 130
        text = begins[: READ_CHARACTERS - 7].strip().ljust(READ_CHARACTERS - 7, "!") + space + "passwordx pasword"
        mended = AGENTS.corrected(text)
        assert mended.corrections == (Correction("pasword", "password"),)
        assert mended.text == "password" + text.removeprefix("pasword")
    assert AGENTS.corrected(" " * 5_000) == CorrectedText(" " * 5_000)
    word = "p" * 40
    assert SpellingCorrector([word]).corrected(f"my {word}q is here").corrections == ()


def test_one_slip_in_most_words_is_found() -> None:
    """Of words that agents use, most are known again whichever letter slips."""
    chance = random.Random(1)
    words = ["subscription", "password", "invoice", "parcel", "refund"]
    found = 0
    for _ in range(200):
        word = chance.choice(words)
        at = chance.randrange(1, len(word) - 1)
        slipped = chance.choice((
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + chance.choice("qzxv") + word[at + 1 :],
        ))  # fmt: skip
        found += AGENTS.corrected(f"about my {slipped}").text == f"about my {word}"
    assert found > 190


@given(st.text(max_size=300) | st.text("abcdeioprstw  .,ABP", max_size=300))
def test_only_slips_change_and_what_is_mended_stays(text: str) -> None:
    mended = AGENTS.corrected(text)
    assert AGENTS.corrected(mended.text) == CorrectedText(mended.text)
    rest = text
    for slip in mended.corrections:
        _, typed, rest = rest.partition(slip.typed)
        assert typed == slip.typed
    assert not mended.corrections or len(mended.text) == len(text) + sum(
        len(s.meant) - len(s.typed) for s in mended.corrections
    )
    assert mended.corrections or mended.text == text
