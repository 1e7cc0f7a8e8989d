from dataclasses import replace

import numpy as np

from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import UNTRAINED
from turnwise.selection.contextual.features import CLAIMS, CONVERSATION_FEATURES, TURN_FEATURES, features
from turnwise.selection.contextual.situation import EarlierMessage, Roster, Turn, build_situation
from turnwise.selection.contextual.wording import read_message, read_reply
from turnwise.selection.meaning import TextReading

LABELS = ("a", "b", "c")


def reading(*shares: float, novelty: float = 0.1) -> TextReading:
    values = np.array(shares)
    return TextReading(
        "text", np.array([1.0, 0.0], np.float32), Match(LABELS, values, values, novelty, ()), 0.1, CorrectedText("text")
    )


def turn(text: str = "what is the price", **more: object) -> Turn:
    return Turn(reading(0.2, 0.7, 0.1), read_message(text), **more)  # type: ignore[arg-type]


def test_a_column_for_each_name() -> None:
    found = features(build_situation(turn(active="a"), Roster(LABELS, LABELS), UNTRAINED))
    assert found.claims.shape == (3, len(CLAIMS))
    assert found.turn.shape == (len(TURN_FEATURES),)
    assert found.conversation.shape == (len(CONVERSATION_FEATURES),)
    assert np.isfinite(found.claims).all()
    assert np.isfinite(found.turn).all()
    assert np.isfinite(found.conversation).all()


def test_no_feature_names_an_agent() -> None:
    """C9: other names, the same numbers."""
    past = (EarlierMessage(reading(0.1, 0.1, 0.8), read_message("hello"), "c"),)
    one = features(
        build_situation(
            turn(active="a", visited=("c",), past=past, reply=reading(0.5, 0.4, 0.1)), Roster(LABELS, LABELS), UNTRAINED
        )
    )
    names = {"a": "x", "b": "y", "c": "z"}

    def renamed(of: TextReading) -> TextReading:
        return of._replace(match=of.match._replace(labels=("x", "y", "z")))

    before = (EarlierMessage(renamed(past[0].reading), past[0].wording, names["c"]),)
    other_turn = turn(active="x", visited=("z",), past=before, reply=renamed(reading(0.5, 0.4, 0.1)))
    other = features(
        build_situation(
            replace(other_turn, message=renamed(other_turn.message)), Roster(("x", "y", "z"), ("x", "y", "z")), UNTRAINED
        )
    )
    assert (one.claims == other.claims).all()
    assert (one.conversation == other.conversation).all()


def test_nothing_of_a_conversation_without_one() -> None:
    found = features(build_situation(turn(), Roster(LABELS, LABELS), UNTRAINED))
    assert found.active is None
    assert not found.conversation.any()
    known = dict(zip(CLAIMS, found.claims[0], strict=True))
    assert known["opening"] < 0.0
    assert known["message"] == 0.0


def test_a_question_and_its_answer() -> None:
    """C9"""
    asked = turn("12345", active="a", reply_wording=read_reply("What is your order number?"), awaiting="a")
    found = features(build_situation(asked, Roster(LABELS, LABELS), UNTRAINED))
    known = dict(zip(CONVERSATION_FEATURES, found.conversation, strict=True))
    assert (known["asked"], known["awaits"], known["asked_value"]) == (1.0, 1.0, 1.0)


def test_a_request_without_common_words_is_strange_only_as_far_as_it_is_new() -> None:
    """C9: "running shoes size 44" is no foreign language where shoes are sold."""
    known, new = (
        features(
            build_situation(
                Turn(reading(0.2, 0.7, 0.1, novelty=novelty), read_message("running shoes size 44")),
                Roster(LABELS, LABELS),
                UNTRAINED,
            )
        )
        for novelty in (0.1, 0.9)
    )
    assert [found.turn[TURN_FEATURES.index("strange")] for found in (known, new)] == [0.1, 0.9]


def test_a_pattern_or_a_name_speaks_against_novelty() -> None:
    novel = reading(0.2, 0.7, 0.1, novelty=0.9)
    plain = Turn(novel, read_message("zorble the frobnicator"))
    roster = Roster(LABELS, LABELS)
    assert features(build_situation(plain, roster, UNTRAINED)).novelty == 0.9
    assert features(build_situation(replace(plain, hits={"b": 1.0}), roster, UNTRAINED)).novelty == 0.0
    called = Turn(novel, read_message("let me talk to frob"), named={"b": 1.0})
    assert features(build_situation(called, roster, UNTRAINED)).novelty == 0.0


def test_the_general_agent_is_like_any_other_where_it_has_phrases() -> None:
    """C9: only a general agent that no text can be compared with has a weight of its own."""
    general = CLAIMS.index("general")
    for at, name in enumerate(LABELS):
        situation = build_situation(turn(general=name), Roster(LABELS, LABELS), UNTRAINED)
        assert situation.without_phrases == frozenset()
        assert not features(situation).claims[:, general].any(), at
    situation = build_situation(turn(general="root"), Roster(LABELS, (*LABELS, "root")), UNTRAINED)
    assert situation.without_phrases == {"root"}
    marked = features(situation).claims[:, general]
    assert [name for name, value in zip(situation.candidates, marked, strict=True) if value] == ["root"]
