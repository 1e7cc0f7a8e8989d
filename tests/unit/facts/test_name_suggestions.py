"""What was probably meant by a name that is not there."""

import pytest
from hypothesis import given as given_any, strategies as st

from turnwise.facts.hints import did_you_mean


@pytest.mark.parametrize(
    ("given", "known", "sentence"),
    [
        ("polcy", ["policy", "store"], "Did you mean 'policy'?"),
        ("POLICY", ["policy", "store"], "Did you mean 'policy'?"),
        ("zzz", ["policy", "store"], "Known: policy, store."),
        ("zzz", [], "There are none."),
    ],
)
def test_did_you_mean(given: str, known: list[str], sentence: str) -> None:
    assert did_you_mean(given, known) == sentence


def test_a_long_list_of_what_is_known_is_cut() -> None:
    assert did_you_mean("?", [f"agent-{number}" for number in range(100)]).endswith("agent-19, … (100 in all).")


def test_long_names_are_told_as_far_as_a_sentence_stays_short() -> None:
    names = [f"{letter * 64}" for letter in "abcdefghijkl"]
    assert did_you_mean("?", names) == f"Known: {', '.join(names[:7])}, … (12 in all)."
    assert did_you_mean("?", ["a" * 10_000]) == f"Known: {'a' * 200}."


@given_any(st.text(max_size=1_000), st.lists(st.text(max_size=1_000), max_size=30))
def test_it_is_always_short(given: str, known: list[str]) -> None:
    sentence = did_you_mean(given, known)
    assert len(sentence) < (5_000 if sentence.startswith("Did you mean") else 600)
