"""Conditional and range requests, by RFC 9110."""

import pytest

from turnwise.gateway.shared.ranges import Part, etag_of, is_known, part_of

ETAG = etag_of(b"0123456789")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-0", Part(0, 1)),
        ("bytes=3-6", Part(3, 7)),
        ("bytes=3-", Part(3, 10)),
        ("bytes=3-99", Part(3, 10)),
        ("bytes=-3", Part(7, 10)),
        ("bytes=-99", Part(0, 10)),
        ("bytes = 3 - 6", Part(3, 7)),
    ],
)
def test_one_range(asked: str, part: Part) -> None:
    assert part_of(asked, None, 10, ETAG) == part


@pytest.mark.parametrize(
    "asked", [None, "", "bytes=", "bytes=-", "bytes=6-3", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "3-6"]
)
def test_what_is_no_single_range_of_bytes_gets_everything(asked: str | None) -> None:
    assert part_of(asked, None, 10, ETAG) is None


@pytest.mark.parametrize(
    ("asked", "size"), [("bytes=10-", 10), ("bytes=10-20", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-1", 0)]
)
def test_a_range_behind_the_end_is_refused(asked: str, size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        part_of(asked, None, size, ETAG)


def test_the_rest_of_something_else_is_not_given() -> None:
    assert part_of("bytes=3-", ETAG, 10, ETAG) == Part(3, 10)
    for other in ('"other"', f"W/{ETAG}", "Thu, 01 Jan 2026 00:00:00 GMT"):
        assert part_of("bytes=3-", other, 10, ETAG) is None


def test_what_the_reader_has() -> None:
    assert not is_known(None, ETAG)
    for header in (ETAG, f"W/{ETAG}", f'"a", {ETAG}', "*"):
        assert is_known(header, ETAG), header
    assert not is_known('"a", "b"', ETAG)


def test_equal_bytes_have_equal_tags() -> None:
    assert etag_of(b"a") == etag_of(b"a") != etag_of(b"b")
