"""The seam for ids and time."""

import time
from datetime import UTC, datetime

from turnwise.facts.ids import SystemIssuer, is_storable_id


def test_ids_say_their_kind_and_never_repeat() -> None:
    issuer = SystemIssuer()
    ids = [issuer.new_id("event") for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert all(each.startswith("event-") and len(each) == len("event-") + 28 for each in ids)


def test_later_ids_sort_after_earlier_ones() -> None:
    issuer = SystemIssuer()
    early = issuer.new_id("event")
    time.sleep(0.002)
    assert early < issuer.new_id("event")


def test_the_time_is_aware_and_utc() -> None:
    now = SystemIssuer().now()
    assert now.tzinfo is UTC
    assert isinstance(now, datetime)


def test_what_every_store_can_keep_may_be_an_id() -> None:
    assert all(is_storable_id(text) for text in ("a", "x" * 200, "東京 \n", "\U0001f511"))
    assert not any(is_storable_id(text) for text in ("", "x" * 201, "a\0b", "\ud800", "é\udfff"))
