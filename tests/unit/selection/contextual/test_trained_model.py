from dataclasses import replace

import numpy as np
import pytest

from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.belief import CUES, UNTRAINED
from turnwise.selection.contextual.features import CLAIMS, CONVERSATION_FEATURES, TURN_FEATURES, features
from turnwise.selection.contextual.situation import Roster, Turn, build_situation
from turnwise.selection.contextual.trained_model import Adaptation, Coefficients, Model, dump, load_shipped, parse
from turnwise.selection.contextual.wording import read_message
from turnwise.selection.meaning import TextReading

LABELS = tuple("abcdefghijklmnopqrstuvwxyz")


def opening(shares: np.ndarray, novelty: float = 0.0, smalltalk: float = 0.0) -> Turn:
    match = Match(LABELS, shares, shares, novelty, ())
    return Turn(
        TextReading("text", np.zeros(2, np.float32), match, smalltalk, CorrectedText("text")), read_message("where is it")
    )


def coefficients() -> Coefficients:
    context = len(TURN_FEATURES) + len(CONVERSATION_FEATURES)
    chance = np.random.default_rng(1)
    return Coefficients(
        *(
            chance.standard_normal(size)
            for size in (len(CLAIMS), context, context, len(TURN_FEATURES), (context, 3), (3, len(CLAIMS) + 2))
        )
    )


def test_the_file_gives_the_model_back() -> None:
    given = coefficients()
    raw = Model(given, UNTRAINED._replace(message=0.7, begins=dict.fromkeys(CUES, 0.5)), 1.5)
    text = dump(raw, "a note")
    found = features(build_situation(replace(opening(np.full(26, 1 / 26)), active="a"), Roster(LABELS, LABELS), UNTRAINED))
    one, other = raw.scores(found), parse(text).scores(found)
    assert parse(text).tracking == raw.tracking
    assert other.agents == pytest.approx(one.agents, abs=1e-2)


def test_a_file_of_other_features_is_refused() -> None:
    with pytest.raises(KeyError):
        parse(dump(Model(coefficients(), UNTRAINED), "").replace('"opening"', '"closing"'))


def test_without_a_conversation_the_probabilities_stand_as_they_are() -> None:
    """C5: the best by the message alone leads, with the matcher's own confidence, however many agents there are."""
    chance = np.random.default_rng(3)
    for _ in range(50):
        shares = chance.dirichlet(np.full(26, 0.5))
        situation = build_situation(opening(shares), Roster(LABELS, LABELS), UNTRAINED)
        scores = load_shipped().scores(features(situation))
        best = int(scores.agents.argmax())
        assert situation.candidates[best] == LABELS[int(shares.argmax())]
        assert scores.agents[best] == pytest.approx(shares.max(), abs=0.02)


def test_nobody_at_the_start_is_the_matchers_novelty() -> None:
    shares = np.full(26, 1 / 26)
    for novelty, smalltalk in ((0.2, 0.0), (0.9, 0.0), (0.9, 0.5), (0.99, 0.95)):
        situation = build_situation(opening(shares, novelty, smalltalk), Roster(LABELS, LABELS), UNTRAINED)
        assert load_shipped().scores(features(situation)).nobody == novelty


def test_probabilities_sum_to_one() -> None:
    turn = replace(opening(np.full(26, 1 / 26)), active="c")
    scores = load_shipped().scores(features(build_situation(turn, Roster(LABELS, LABELS), UNTRAINED)))
    assert scores.agents.sum() == pytest.approx(1.0)
    assert scores.smalltalk == 0.0
    assert 0.0 <= scores.nobody <= 1.0


def test_an_adaptation_moves_agents_and_not_what_is_out_of_scope() -> None:
    """C17: 0 is the model as it is shipped; a message that begins a conversation is decided as before."""
    chance = np.random.default_rng(4)
    for _ in range(20):
        turn = replace(opening(chance.dirichlet(np.full(26, 0.5))), active="a", visited=("b",))
        found = features(build_situation(turn, Roster(LABELS, LABELS), UNTRAINED))
        plain = load_shipped().scores(found)
        stays = load_shipped().adapted(Adaptation(stay=1.0)).scores(found)
        returns = load_shipped().adapted(Adaptation(back=1.0)).scores(found)
        active = found.active
        assert active is not None
        back = int(np.flatnonzero(found.claims[:, CLAIMS.index("visited")])[0])
        assert stays.agents[active] > plain.agents[active]
        assert returns.agents[back] > plain.agents[back]
        assert stays.nobody == plain.nobody == returns.nobody
        assert stays.agents.sum() == pytest.approx(1.0)
    first = features(build_situation(opening(np.full(26, 1 / 26)), Roster(LABELS, LABELS), UNTRAINED))
    adapted = load_shipped().adapted(Adaptation(1.0, 1.0, 1.0, 1.0))
    assert (adapted.scores(first).agents == load_shipped().scores(first).agents).all()
    assert load_shipped().adapted(Adaptation()) is load_shipped()
