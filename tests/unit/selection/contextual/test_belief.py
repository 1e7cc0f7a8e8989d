import numpy as np
import pytest
from hypothesis import given, strategies as st

from turnwise.selection.contextual.belief import CUES, UNTRAINED, MessageEvidence, TrackingWeights, update_belief

TRACKING = TrackingWeights(first=1.0, message=0.5, joined=0.5, begins={**dict.fromkeys(CUES, 0.0), "one": -3.0, "asks": 4.0})


def heard(*shares: float, joined: tuple[float, ...] = (), asks: bool = False) -> MessageEvidence:
    cues = {**dict.fromkeys(CUES, 0.0), "one": 1.0, "asks": float(asks)}
    return MessageEvidence(np.log(np.array(shares)), np.log(np.array(joined)) if joined else None, cues)


def shares_of(*said: MessageEvidence, tracking: TrackingWeights = TRACKING) -> tuple[list[float], list[float]]:
    prior, belief = update_belief(said, tracking)
    return np.exp(prior).tolist(), np.exp(belief).tolist()


def test_the_first_message_is_believed_as_it_is() -> None:
    prior, belief = shares_of(heard(0.7, 0.2, 0.1))
    assert prior == pytest.approx([1 / 3] * 3)
    assert belief == pytest.approx([0.7, 0.2, 0.1])


def test_a_message_that_says_nothing_leaves_the_matter_where_it_was() -> None:
    """C9: "6pm please" does not begin another matter."""
    _, belief = shares_of(heard(0.8, 0.1, 0.1), heard(1 / 3, 1 / 3, 1 / 3))
    assert belief[0] > 0.7


def test_what_was_said_since_outweighs_a_wrong_beginning() -> None:
    """C9: recovers by itself: no text but the first speaks for who was chosen at first."""
    since = [heard(0.2, 0.6, 0.2, joined=(0.1, 0.8, 0.1))] * 3
    _, belief = shares_of(heard(0.8, 0.1, 0.1), *since)
    assert belief[1] > 0.8


def test_a_new_request_moves_the_belief_more_than_a_remark() -> None:
    """C9"""
    remark, request = (shares_of(heard(0.9, 0.05, 0.05), heard(0.1, 0.8, 0.1, asks=asks))[1] for asks in (False, True))
    assert request[1] > remark[1] + 0.2


def test_the_prior_is_what_was_believed_before_the_message() -> None:
    prior, _ = shares_of(heard(0.9, 0.05, 0.05), heard(0.1, 0.8, 0.1))
    assert prior[0] > 0.8


def test_without_candidates_there_is_nothing_to_believe() -> None:
    prior, belief = update_belief([heard(), heard()], TRACKING)
    assert (len(prior), len(belief)) == (0, 0)


def test_where_the_beginning_is_out_of_sight_who_answered_counts() -> None:
    """C9: after many messages the oldest that is remembered is no opening: "6pm please" says little of whose matter it is."""
    answer = heard(0.2, 0.6, 0.2, joined=(0.4, 0.4, 0.2))
    _, known = shares_of(answer._replace(answered=0), answer)
    _, unknown = shares_of(answer, answer)
    assert known[0] > 0.5
    assert unknown[0] < 0.4


def test_who_answered_the_message_that_is_decided_on_is_not_known_yet() -> None:
    alone = heard(0.2, 0.6, 0.2, joined=(0.4, 0.4, 0.2))
    assert shares_of(alone._replace(answered=0)) == shares_of(alone)


@given(st.lists(st.lists(st.floats(1e-4, 1.0), min_size=3, max_size=3), min_size=1, max_size=7), st.booleans())
def test_beliefs_are_shares_whatever_is_said(rows: list[list[float]], asks: bool) -> None:
    said = [heard(*row, joined=tuple(row), asks=asks) for row in rows]
    for tracking in (TRACKING, UNTRAINED):
        for logs in update_belief(said, tracking):
            assert np.isfinite(logs).all()
            assert np.exp(logs).sum() == pytest.approx(1.0)
