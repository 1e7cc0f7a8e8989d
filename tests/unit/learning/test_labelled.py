"""Labelled messages: caps of sources, splits, contradictions (behaviours H2, H3)."""

import numpy as np
from hypothesis import given, strategies as st

from turnwise.learning.labelled import (
    FINAL_SHARE,
    SOURCE_LEAST,
    Labelled,
    capped,
    capped_credentials,
    split,
    without_contradictions,
)


def message(number: int = 0, *, expected: str | None = "a", **fields: object) -> Labelled:
    known = {
        "text": f"m{number}",
        "expected": expected,
        "chosen": "a",
        "user": f"u{number}",
        "session": "s",
        "at": float(number),
    }
    return Labelled(**(known | fields))  # type: ignore[arg-type]


def vectors(count: int) -> np.ndarray:
    """Each text is different from all others."""
    return np.eye(max(count, 1), dtype=np.float32)[:count]


def test_a_user_a_session_and_an_author_have_a_cap_and_operators_have_none() -> None:
    """H2"""
    others = [message(number, by_operator=False, user=f"v{number}", author=f"a{number}") for number in range(20)]
    flood = [message(100 + number, by_operator=False, user="mallory", author="mallory") for number in range(1000)]
    operators = [message(2000 + number, user="mallory", author="op") for number in range(50)]
    kept = capped([*others, *flood, *operators])
    assert kept[:20] == list(range(20))
    assert len([index for index in kept if 20 <= index < 1020]) == 8, "a tenth of all that count, operators' labels included"
    assert len(capped([*others, *flood])) == 25, "what one gives does not raise the cap of the same one"
    assert kept[-50:] == list(range(1020, 1070))
    one_credential = [message(number, by_operator=False, user=f"w{number}", author="same key") for number in range(500)]
    assert len(capped(one_credential)) == 5
    assert len(capped(one_credential[:4])) == 4 < SOURCE_LEAST


def test_credentials_that_named_several_users_are_told() -> None:
    """H2: a credential of one user is that user, and other authors are no credentials."""
    server = [message(number, credential="k1", user=f"u{number % 3}") for number in range(7)]
    one_user = [message(number, credential="k2", user="ann") for number in range(9)]
    assert capped_credentials([*one_user, *server, message(1, author="x")]) == [("k1", 7, 3)]


def test_a_user_stays_on_one_side_and_the_final_part_is_later() -> None:
    """H3"""
    labelled = [message(number, user=f"u{number // 5}") for number in range(50)]
    parts = split(labelled, range(50), vectors(50))
    assert {labelled[index].user for index in parts.learn} & {labelled[index].user for index in parts.final} == set()
    assert max(parts.learn) < min(parts.final)
    assert len(parts.final) >= FINAL_SHARE * 50


def test_one_user_alone_is_split_by_session() -> None:
    labelled = [message(number, user="u", session=f"s{number // 2}") for number in range(20)]
    parts = split(labelled, range(20), vectors(20))
    assert parts.learn
    assert parts.final
    assert {labelled[index].session for index in parts.learn} & {labelled[index].session for index in parts.final} == set()


def test_a_text_of_the_final_part_does_not_teach() -> None:
    """H3: nearly equal texts are on one side."""
    labelled, found = [message(number) for number in range(20)], vectors(20)
    found[0] = found[19]
    parts = split(labelled, range(20), found)
    assert 0 not in parts.learn
    assert parts.near_equal == 1


def test_contradictions_teach_nothing_unless_operators_agree() -> None:
    """H5"""
    found = vectors(4)
    found[1] = found[0]
    pair = [message(0, expected="a", by_operator=False), message(1, expected="b", by_operator=False)]
    rest = [message(2), message(3)]
    assert without_contradictions([*pair, *rest], range(4), found) == [2, 3]
    ruled = [pair[0], message(1, expected="b")]
    assert without_contradictions([*ruled, *rest], range(4), found) == [1, 2, 3]
    assert without_contradictions([], [], vectors(0)) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=60))
def test_splits_and_caps_never_lose_or_double_a_message(rows: list[tuple[int, int, bool]]) -> None:
    labelled = [
        message(number, user=f"u{user}", session=f"s{session}", by_operator=by_operator)
        for number, (user, session, by_operator) in enumerate(rows)
    ]
    kept = capped(labelled)
    assert kept == sorted(set(kept))
    parts = split(labelled, kept, vectors(len(labelled)))
    assert sorted([*parts.learn, *parts.final]) == kept
    assert parts.near_equal == 0
