"""Which ids can stand in a URL of our own API."""

import re

import pytest

from turnwise.wire.messages import PLAIN, SEGMENT


@pytest.mark.parametrize("id_", ["s", "s-1", "a b", ".a", "ä", "a.b"])
def test_one_segment_of_a_path(id_: str) -> None:
    assert re.search(SEGMENT, id_)
    assert re.search(PLAIN, id_)


@pytest.mark.parametrize("id_", ["", ".", "..", "...", "a/b", "/", "a\x00b"])
def test_what_is_none(id_: str) -> None:
    assert not re.search(SEGMENT, id_)


@pytest.mark.parametrize("id_", ["", "\x00", "a\x00b"])
def test_what_can_be_no_id_at_all(id_: str) -> None:
    assert not re.search(PLAIN, id_)
