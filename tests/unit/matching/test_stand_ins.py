"""Labels whose phrases changed compete on the scale of those that were fitted."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.matching.heads import Floats, directions
from turnwise.matching.index import Index
from turnwise.matching.match import Phrase
from turnwise.matching.matcher import Matcher, fit, nearest
from turnwise.matching.packed_vectors import coded
from turnwise.matching.scorers import SHORTLISTED_ABOVE, fit_stand_ins

DIMENSIONS = 48


def world(labels: int, each: int) -> tuple[list[Phrase], dict[str, Floats]]:
    """Phrases around their labels' middles, and the vectors of their texts."""
    generator = np.random.default_rng(3)
    middles = generator.standard_normal((labels, DIMENSIONS))
    phrases = [Phrase(f"agent {label}", f"text {label} {number}") for label in range(labels) for number in range(each)]
    noise = generator.standard_normal((len(phrases), DIMENSIONS)) * 0.7
    rows = directions((np.repeat(middles, each, axis=0) + noise).astype(np.float32))
    return phrases, {phrase.text: row for phrase, row in zip(phrases, rows, strict=True)}


def right(matcher: Matcher, phrases: list[Phrase], rows: Floats) -> float:
    matches = matcher.match_many([phrase.text for phrase in phrases], rows)
    return float(np.mean([each.ranked(1)[0][0] == phrase.label for each, phrase in zip(matches, phrases, strict=True)]))


def none(texts: Sequence[str]) -> Floats:
    """Vectors where no text is new."""
    assert not texts
    return np.empty((0, DIMENSIONS), np.float32)


def of(vectors: dict[str, Floats], phrases: list[Phrase]) -> Floats:
    return np.stack([vectors[phrase.text] for phrase in phrases])


@pytest.mark.parametrize("labels", [30, SHORTLISTED_ABOVE + 30])
def test_changed_new_and_removed_labels(labels: int) -> None:
    """F3: unchanged labels keep their heads; the others are found by nearest phrases."""
    phrases, vectors = world(labels, 6)
    known = [phrase for phrase in phrases if phrase.text.split()[2] != "5"]
    asked = [phrase for phrase in phrases if phrase.text.split()[2] == "5" and phrase.label != "agent 0"]
    before = [phrase for phrase in known if phrase.label not in ("agent 3", "agent 7")]
    before = [phrase._replace(text=f"{phrase.text}") for phrase in before if phrase.text != "text 5 1"]
    now = [phrase for phrase in known if phrase.label != "agent 0"]
    base = fit(before, of(vectors, before))
    fetched: list[str] = []

    def fetch(texts: list[str]) -> Floats:
        fetched.extend(texts)
        return np.stack([vectors[text] for text in texts])

    patched = base.patched(now, fetch)  # type: ignore[arg-type]
    assert patched.fitted
    assert patched.labels == tuple(f"agent {label}" for label in range(1, labels))
    new = [phrase for phrase in now if phrase not in before]
    assert sorted(fetched) == sorted(phrase.text for phrase in new), "of a changed label only the new phrases"
    whole = fit(now, of(vectors, now))
    share = right(patched, asked, of(vectors, asked))
    assert share >= right(whole, asked, of(vectors, asked)) - 0.01
    changed = [phrase for phrase in asked if phrase.label in ("agent 3", "agent 5", "agent 7")]
    assert right(patched, changed, of(vectors, changed)) == 1.0
    text = asked[5]
    one, other = patched.match(text.text, vectors[text.text]), whole.match(text.text, vectors[text.text])
    assert [(each.label, each.text) for each in one.nearest] == [(each.label, each.text) for each in other.nearest]
    assert one.similarities == pytest.approx(other.similarities, abs=1e-6)


def test_a_matcher_without_heads_stays_the_nearest_phrase() -> None:
    """F3: it finds what an index of all phrases finds."""
    phrases, vectors = world(12, 5)
    base = nearest(phrases[:40], of(vectors, phrases[:40]))
    patched = base.patched(phrases[5:], lambda texts: np.stack([vectors[text] for text in texts]))
    whole = nearest(phrases[5:], of(vectors, phrases[5:]))
    assert not patched.fitted
    for text in (phrases[3].text, phrases[20].text, phrases[55].text):
        one, other = patched.match(text, vectors[text]), whole.match(text, vectors[text])
        assert one.nearest == other.nearest
        assert one.similarities == pytest.approx(other.similarities)


def test_the_same_phrases_give_the_same_numbers_and_a_patched_matcher_is_not_patched_again() -> None:
    """E9"""
    phrases, vectors = world(10, 6)
    base = fit(phrases, of(vectors, phrases))
    same = base.patched(list(phrases), none)
    text = phrases[7].text
    assert (same.match(text, vectors[text]).probabilities == base.match(text, vectors[text]).probabilities).all()
    with pytest.raises(ValueError, match="fitted"):
        same.patched(phrases, none)


def test_a_fitted_matcher_that_was_stored_can_be_patched() -> None:
    """E9: in another process, with the same numbers."""
    phrases, vectors = world(10, 6)
    base = fit(phrases, of(vectors, phrases))
    loaded = Matcher.from_arrays(phrases, base.arrays())
    now = [*phrases[:30], *phrases[36:]]
    one, other = (each.patched(now, none) for each in (base, loaded))
    text = phrases[7].text
    assert (one.match(text, vectors[text]).probabilities == other.match(text, vectors[text]).probabilities).all()


def test_estimates_follow_the_fitted_scores() -> None:
    generator = np.random.default_rng(1)
    near = generator.uniform(0, 10, (300, 12, 1)).astype(np.float32)
    mean = generator.uniform(0, 10, (300, 12, 1)).astype(np.float32)
    evidence = np.concatenate([2 * near + 1, mean - 3, near, mean], axis=2)
    truth: NDArray[np.int64] = generator.integers(0, 12, 300)
    meaning, wording = fit_stand_ins(evidence, truth)
    assert meaning == pytest.approx([1, 2, 0, 0], abs=0.2)
    assert wording == pytest.approx([-3, 0, 1, 0], abs=0.2)
    assert fit_stand_ins(evidence[:0], truth[:0]).shape == (2, 4), "without texts there are defaults"


def test_an_index_of_changes_is_as_long_as_its_phrases() -> None:
    phrases, vectors = world(6, 5)
    base = Index(of(vectors, phrases), np.repeat(np.arange(6), 5), 6)
    assert base.labels_by_place().tolist() == np.repeat(np.arange(6), 5).tolist()
    assert len(base) == 30


def test_of_very_many_phrases_a_fit_takes_the_vectors_from_the_index_before() -> None:
    """F3, E9: only new phrases are encoded, and the codes are those of a process that starts now."""
    phrases, vectors = world(2_100, 5)
    base = nearest(phrases[:10_200], of(vectors, phrases[:10_200]))
    now = [*phrases[5:100], *phrases[101:105], Phrase("agent 20", "text 2099 4"), *phrases[105:10_205]]
    fetched: list[str] = []

    def fetch(texts: Sequence[str]) -> Floats:
        fetched.extend(texts)
        return of(vectors, [Phrase("", text) for text in texts])

    found = base.vectors_for(now, fetch)
    assert fetched == ["text 2099 4", *(phrase.text for phrase in phrases[10_200:10_205])]
    assert np.array_equal(coded(found).raw(), coded(of(vectors, now)).raw())
