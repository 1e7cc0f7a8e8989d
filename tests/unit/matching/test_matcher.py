"""Which label a text belongs to: from zero, one, few or many phrases a label."""

import itertools
import re
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.matching.heads import Floats, Head, directions
from turnwise.matching.lexical import Lexicon
from turnwise.matching.match import Match, Phrase
from turnwise.matching.matcher import Matcher, fit, nearest
from turnwise.matching.scorers import COSINE_SCALE, SCORERS, SHORTLISTED_ABOVE, FittedScorers, fit_scorers, prepare

SUBJECTS = {
    "orders": ("order", "parcel", "delivery", "shipment", "tracking"),
    "billing": ("invoice", "charge", "payment", "refund", "receipt"),
    "travel": ("flight", "hotel", "luggage", "airport", "ticket"),
}
FRAMES = (
    "where is my {}",
    "i have a question about the {}",
    "please check the {} from monday",
    "what happened to this {}",
    "the {} is wrong",
    "tell me about your {} rules",
    "can somebody look at a {} for me",
    "my {} has not come",
)


def encoded(texts: list[str]) -> Floats:
    """Vectors of texts: words of one subject lie close together, as an encoder would have it."""
    known = {word: subject for subject, words in SUBJECTS.items() for word in words}

    def word_vector(word: str) -> NDArray[np.float64]:
        own = np.random.default_rng(zlib.crc32(word.encode())).normal(size=32)
        subject = known.get(word)
        return own + 3.0 * np.random.default_rng(zlib.crc32(subject.encode())).normal(size=32) if subject else own

    rows = np.array([sum(map(word_vector, re.findall(r"\w+", text.casefold()) or [""])) for text in texts])
    return directions(rows.astype(np.float32))


def phrases(each: int, *, names: bool = True) -> list[Phrase]:
    found = [Phrase(subject, subject, "name") for subject in SUBJECTS] if names else []
    for subject, words in SUBJECTS.items():
        texts = [frame.format(word) for frame, word in itertools.product(FRAMES, words)]
        found += [Phrase(subject, text) for text in texts[:: max(1, len(texts) // max(each, 1))][:each]]
    return found


def fitted(known: list[Phrase]) -> Matcher:
    return fit(known, encoded([phrase.text for phrase in known]))


def asked(matcher: Matcher, text: str) -> Match:
    return matcher.match(text, encoded([text])[0])


QUESTIONS = [(f"hello, any news on the {word}?", subject) for subject, words in SUBJECTS.items() for word in words]


@pytest.mark.parametrize("each", [1, 2, 5, 20, 40])
def test_it_works_from_one_phrase_a_label_to_many(each: int) -> None:
    matcher = fitted(phrases(each))
    right = [asked(matcher, text).ranked(1)[0][0] == label for text, label in QUESTIONS]
    assert np.mean(right) >= (0.9 if each > 1 else 0.5)
    assert matcher.fitted


def test_names_alone_are_something_to_go_by() -> None:
    """C19: an agent without examples still has a name."""
    matcher = fitted([Phrase(word, word, "name") for word in ("parcel", "invoice", "hotel")])
    assert asked(matcher, "my parcel").ranked(1)[0][0] == "parcel"


def test_where_examples_are_few_the_mean_of_what_is_known_counts_more_than_a_linear_model() -> None:
    weights = [dict(zip(SCORERS, fitted(phrases(each)).arrays()["weights"], strict=True)) for each in (0, 1)]
    none, one = weights
    assert none["mean"] > none["meaning"]
    assert one["meaning"] / one["mean"] > none["meaning"] / none["mean"]


def learned(skills: int) -> FittedScorers:
    """Of three labels with so many skills each."""
    head, starts = Head(np.zeros((1, 3), np.float32), np.zeros(3, np.float32)), skills * np.arange(3)
    means, stand_ins = np.ones((3 * skills, 1), np.float32), np.zeros((2, 4), np.float32)
    return FittedScorers(starts, head, head, Lexicon.of(["a text"]), means, stand_ins)


def test_what_opinions_weigh_goes_with_examples_and_skills() -> None:
    one, several = learned(1), learned(4)
    untold, few, told, many = (one.weights(np.full(3, count)) for count in (0, 2, 10, 1_000))
    meaning, *_, mean = range(len(SCORERS))
    assert untold[meaning] < few[meaning] < told[meaning]
    assert untold[mean] > few[mean] > told[mean]
    assert many.tolist() == told.tolist()
    assert one.weights(np.array([0, 0, 1_000])) == pytest.approx((2 * untold + told) / 3)
    assert several.weights(np.full(3, 10))[mean] > told[mean]
    assert several.weights(np.zeros(3, int)) == pytest.approx(untold)


def test_of_very_many_labels_each_counts_by_its_nearest_skill() -> None:
    labels = SHORTLISTED_ABOVE + 50
    skills = np.arange(2 * labels)
    texts = [f"request {skill}" for skill in skills]
    vectors = directions(np.random.default_rng(3).normal(size=(len(texts), 24)).astype(np.float32))
    held = fit_scorers(prepare(texts, vectors, skills // 2, skills, skills // 2))
    for skill in (0, 7, 2 * labels - 1):
        said = held.score([texts[skill]], vectors[[skill]], np.zeros((1, labels), np.float32))
        assert said.labels is not None
        place = said.labels[0].tolist().index(skill // 2)
        assert said.raw_scores[0, place, SCORERS.index("mean")] == pytest.approx(COSINE_SCALE, rel=1e-4)


def test_a_match_is_what_its_contract_says() -> None:
    """C5."""
    matcher = fitted(phrases(20))
    match = asked(matcher, "where is my parcel")
    assert matcher.labels == match.labels == tuple(SUBJECTS)
    assert match.probabilities.sum() == pytest.approx(1.0)
    assert match.probabilities.dtype == match.similarities.dtype == np.float64
    assert (abs(match.similarities) <= 1.0).all()
    assert match.nearest[0].label == "orders"
    assert match.nearest[0].similarity == pytest.approx(match.similarities.max(), abs=1e-6)
    assert len(match.nearest) <= 5
    assert max(sum(near.label == label for near in match.nearest) for label in SUBJECTS) <= 2
    assert 0.0 <= match.novelty <= 1.0


def test_at_once_the_nearest_phrases_decide() -> None:
    known = phrases(10)
    matcher = nearest(known, encoded([phrase.text for phrase in known]))
    match = asked(matcher, "where is my parcel")
    assert not matcher.fitted
    assert not match.fitted
    assert match.ranked(1)[0][0] == "orders"
    assert match.ranked(1)[0][1] > 0.5


def test_many_at_once_are_matched_as_each_alone() -> None:
    matcher = fitted(phrases(20))
    texts = [text for text, _ in QUESTIONS]
    for text, match in zip(texts, matcher.match_many(texts, encoded(texts)), strict=True):
        alone = asked(matcher, text)
        assert match.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert match.novelty == pytest.approx(alone.novelty, abs=1e-5)
        assert match.nearest[0].text == alone.nearest[0].text
    assert matcher.match_many([], encoded([])) == []


@pytest.mark.parametrize("each", [0, 3, 20])
def test_the_same_phrases_give_the_same_matcher_and_its_arrays_too(each: int) -> None:
    known = phrases(each)
    first, second = fitted(known), fitted(known)
    for (name, array), (other, same) in zip(first.arrays().items(), second.arrays().items(), strict=True):
        assert name == other
        assert np.array_equal(array, same)
        assert array.dtype != object
    third = Matcher.from_arrays(known, first.arrays())
    for text, _ in QUESTIONS:
        assert np.array_equal(asked(first, text).probabilities, asked(third, text).probabilities)
        assert asked(first, text).novelty == asked(third, text).novelty
    assert third.fitted


def test_a_matcher_of_nearest_phrases_is_kept_as_such() -> None:
    known = phrases(3)
    matcher = nearest(known, encoded([phrase.text for phrase in known]))
    assert not Matcher.from_arrays(known, matcher.arrays()).fitted


def test_what_is_asked_about_is_less_novel_than_anything_else() -> None:
    matcher = fitted(phrases(40))
    known = [asked(matcher, text).novelty for text, _ in QUESTIONS]
    strange = [asked(matcher, text).novelty for text in ("colourless green ideas sleep", "zwei drei vier", "sing opera loudly")]
    assert max(known) < min(strange)


def test_one_label_takes_everything() -> None:
    matcher = fitted([phrase for phrase in phrases(10) if phrase.label == "orders"])
    assert asked(matcher, "where is my parcel").probabilities == pytest.approx([1.0])


def test_without_labels_nothing_fits() -> None:
    for matcher in (fit([], np.zeros((0, 32), np.float32)), nearest([], np.zeros((0, 32), np.float32))):
        match = asked(matcher, "hello")
        assert match.labels == ()
        assert match.novelty == 1.0
        assert match.ranked(3) == []


def test_the_same_phrase_under_two_labels_leaves_it_open() -> None:
    known = [*phrases(10), Phrase("orders", "talk to someone"), Phrase("billing", "talk to someone")]
    ranked = asked(fitted(known), "talk to someone").ranked(3)
    assert {label for label, _ in ranked[:2]} == {"orders", "billing"}
    assert ranked[0][1] < 0.9


def test_repeating_a_phrase_makes_nobody_surer() -> None:
    known = phrases(10)
    repeated = known + [phrase for phrase in known if phrase.label == "orders"] * 20
    for text, _ in QUESTIONS:
        assert asked(fitted(known), text).probabilities == pytest.approx(asked(fitted(repeated), text).probabilities, abs=1e-4)
        break


def test_a_label_with_many_phrases_does_not_swallow_one_with_few() -> None:
    few = [phrase for phrase in phrases(3) if phrase.label == "travel"]
    matcher = fitted([phrase for phrase in phrases(40) if phrase.label != "travel"] + few)
    assert asked(matcher, "where is my luggage").ranked(1)[0][0] == "travel"
    assert asked(matcher, "where is my flight").ranked(1)[0][0] == "travel"


def test_tuning_learns_what_nobody_should_take() -> None:
    matcher = fitted(phrases(20))
    strange = [f"{word} poem number {number}" for number, word in enumerate(("blue", "green", "red", "white") * 5)]
    texts = [text for text, _ in QUESTIONS] + strange
    labels = [label for _, label in QUESTIONS] + [None] * len(strange)
    tuned = matcher.tuned(texts, encoded(texts), labels)
    refused = [match.novelty > 0.5 for match in tuned.match_many(texts, encoded(texts))]
    assert np.mean(np.array(refused) == np.array([label is None for label in labels])) > 0.9
    assert tuned.match_many(texts, encoded(texts))[0].probabilities.sum() == pytest.approx(1.0)


def test_tuning_with_nothing_it_knows_changes_nothing() -> None:
    matcher = fitted(phrases(5))
    assert matcher.tuned([], encoded([]), []) is matcher
    assert matcher.tuned(["x"], encoded(["x"]), ["unheard of"]) is matcher


def test_progress_ends_with_all() -> None:
    shares: list[float] = []
    known = phrases(10)
    fit(known, encoded([phrase.text for phrase in known]), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 2


def test_what_progress_raises_ends_the_fit_between_two_steps_of_its_heads() -> None:
    told: list[float] = []

    def stop(share: float) -> None:
        told.append(share)
        if len(told) > 5 and told[-1] == told[-3]:
            raise InterruptedError

    known = phrases(10)
    with pytest.raises(InterruptedError):
        fit(known, encoded([phrase.text for phrase in known]), progress=stop)
    assert told[-1] < 0.5


def test_gibberish_is_for_nobody_though_there_is_too_little_to_try_a_gate_with() -> None:
    matcher = fitted([Phrase("orders", "where is my order"), Phrase("billing", "send the invoice again")])
    assert asked(matcher, "qqq zzz").novelty > 0.85
    assert asked(matcher, "where is the order").novelty < 0.15


def test_two_agents_of_several_skills_are_told_apart_by_their_skills() -> None:
    """C5: a label may be several things that have little in common."""
    owner = {"orders": "shop", "travel": "shop", "billing": "office"}
    known = [Phrase(owner[phrase.label], phrase.text, phrase.kind, phrase.label) for phrase in phrases(10)]
    matcher = fitted(known)
    assert matcher.labels == ("shop", "office")
    assert [asked(matcher, text).ranked(1)[0][0] for text, _ in QUESTIONS] == [owner[label] for _, label in QUESTIONS]


def test_more_labels_than_can_all_be_looked_at() -> None:
    generator = np.random.default_rng(8)
    middles = generator.normal(size=(1_200, 32)).astype(np.float32)
    vectors = directions(np.repeat(middles, 3, axis=0) + 0.3 * generator.normal(size=(3_600, 32)).astype(np.float32))
    known = [Phrase(f"agent {row // 3}", f"item{row // 3} please {row % 3}") for row in range(3_600)]
    matcher = fit(known, vectors)
    match = matcher.match("please item77", directions(middles[77:78])[0])
    assert match.ranked(1)[0][0] == "agent 77"
    assert match.probabilities.sum() == pytest.approx(1.0)
    assert len(match.among(["agent 3", "agent 5"]).ranked(5)) == 2
    assert matcher.tuned(["item5"], directions(middles[5:6]), ["agent 5"]).fitted
    again = Matcher.from_arrays(known, matcher.arrays()).match("please item77", directions(middles[77:78])[0])
    assert np.array_equal(again.probabilities, match.probabilities)


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\ud800", "🙂", "a" * 10_000, "\u202eabc"])
def test_any_text_is_matched(text: str) -> None:
    match = asked(fitted(phrases(3)), text)
    assert np.isfinite(match.probabilities).all()
    assert np.isfinite(match.novelty)
