"""What `turnwise lint` reads by meaning (behaviour E6)."""

import threading
from typing import Any

import pytest
from words import Words

from turnwise.cli.lint import vectors_for


def told(what: str, done: int, total: int) -> None: ...


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", "off")


def test_texts_are_read_as_matching_reads_them() -> None:
    """E6: otherwise what is found would be about other vectors than those that decide."""
    encoder = Words()
    assert vectors_for(["my  parcel\U0001f4e6is late"], encoder, told, threading.Event()).shape == (1, 128)
    assert encoder.asked == ["my parcel \U0001f4e6 is late"]


def test_it_stops_when_nobody_waits_for_it() -> None:
    """E6: Ctrl-C ends it between two batches."""
    encoder, ended = Words(), threading.Event()

    def end(*_: Any) -> None:
        ended.set()

    with pytest.raises(InterruptedError):
        vectors_for([f"text {number}" for number in range(1_000)], encoder, end, ended)
    assert 0 < len(encoder.asked) < 1_000
