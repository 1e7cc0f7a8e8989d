"""Ids packed into one text."""

import re

from hypothesis import given, strategies as st

from turnwise.facts.ids import SystemIssuer
from turnwise.gateway.shared.packed_ids import MOST_CHARACTERS, digest, new_session, pack_ids, unpack_ids

IDS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200),
    st.sampled_from(["session", "message", "event", "call"]).map(SystemIssuer().new_id),
    st.builds("call-{}-{}".format, st.text("0123456789abcdef", min_size=28, max_size=28), st.integers(0, 120)),
)


@given(st.lists(IDS, min_size=1, max_size=4))
def test_what_is_packed_is_unpacked(ids: list[str]) -> None:
    text = pack_ids(*ids)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert unpack_ids(text, len(ids)) == ids
    assert unpack_ids(text, len(ids) - 1) == ids
    assert unpack_ids(text, len(ids) + 1) is None


@given(st.text())
def test_one_thing_has_one_name(text: str) -> None:
    found = unpack_ids(text, 2)
    assert found is None or pack_ids(*found) == text


def test_what_is_overlong_is_none() -> None:
    assert unpack_ids("A" * (MOST_CHARACTERS + 1), 2) is None


def test_a_key_stands_for_the_same_session() -> None:
    assert new_session("k") == new_session("k") != new_session("l")
    assert new_session() != new_session()
    assert len(digest("\ud800")) == 28
