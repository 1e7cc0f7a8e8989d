"""Requests that were not taken."""

from turnwise.gateway.services.conversations import RefusedRequests


def test_each_refusal_counts_once() -> None:
    refused = RefusedRequests()
    assert not refused.take("a")
    refused.add("a")
    refused.add("a")
    assert [refused.take("a") for _ in range(3)] == [True, True, False]
    assert not refused.take("b")


def test_the_oldest_are_forgotten() -> None:
    refused = RefusedRequests(most=2)
    for asked in "abc":
        refused.add(asked)
    assert [refused.take(asked) for asked in "abc"] == [False, True, True]
