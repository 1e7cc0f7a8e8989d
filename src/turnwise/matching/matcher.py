"""The matcher: learns from phrases which label a text belongs to."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.heads import HEARD, HELD_OUT, Classes, Floats, Head, balanced, fit_weights, log_softmax, split
from turnwise.matching.index import Index
from turnwise.matching.lexical import Lexicon
from turnwise.matching.match import Match, Nearest, Phrase
from turnwise.matching.normalize import normalize
from turnwise.matching.novelty import Gate, default_gate, fit_gate, signs, tune_gate
from turnwise.matching.scorers import (
    COSINE_SCALE,
    OPINIONS,
    SHORTLISTED_ABOVE,
    FittedScorers,
    ScorerOutput,
    TrainingSet,
    fit_scorers,
    nearest_by_label,
    prepare,
)
from turnwise.matching.solver import Tick

_NEAREST_SHARPNESS = 2.0
_FOLDS = 4
_ONE_FOLD_ABOVE_PHRASES, _ONE_FOLD_ABOVE_LABELS = 5_000, 500
_HELD_MOST = 2_000
_CHUNK = 500

Progress = Callable[[float], None]


class Matcher:
    """Matches texts to labels. Immutable and safe to share between threads. Created by `fit`, or quickly by `nearest`.

    `labels` are in the order of their first phrase. `fitted` is False while the nearest phrases decide.
    """

    def __init__(
        self, phrases: Sequence[Phrase], index: Index, learned: FittedScorers | None, weights: Floats, gate: Gate
    ) -> None:
        self.labels = labels_of(phrases)
        self._phrases, self._index, self._learned, self._weights, self._gate = phrases, index, learned, weights, gate

    @property
    def fitted(self) -> bool:
        return self._learned is not None

    def match(self, text: str, vector: Floats) -> Match:
        """Returns how well the text fits the labels. Without labels the novelty is 1.

        Args:
            text: The text.
            vector: Its vector, of length 1.
        """
        return self._matched([text], vector[None])[0]

    def match_many(self, texts: Sequence[str], vectors: Floats) -> list[Match]:
        """Returns `match` of each row; faster for many rows."""
        matches: list[Match] = []
        for start in range(0, len(texts), _CHUNK):
            matches += self._matched(texts[start : start + _CHUNK], vectors[start : start + _CHUNK])
        return matches

    def _matched(self, texts: Sequence[str], vectors: Floats) -> list[Match]:
        if not self.labels:
            nothing = np.zeros(0)
            return [Match((), nothing, nothing, 1.0, (), self.fitted) for _ in texts]
        found = self._index.search_many(vectors)
        best = np.stack([each.best for each in found])
        said = self._said(texts, vectors, best)
        probabilities = np.exp(log_softmax(said.scores(self._weights)).astype(np.float64))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        novelty = self._gate.novelty(signs(said.opinions, self._opinions))
        similarities = np.clip(best, -1.0, 1.0).astype(np.float64)
        return [
            Match(self.labels, fit, alike, new, self._near(each.places, each.cosines), self.fitted)
            for fit, alike, new, each in zip(probabilities, similarities, novelty.tolist(), found, strict=True)
        ]

    def _near(self, places: NDArray[np.intp], cosines: Floats) -> tuple[Nearest, ...]:
        phrases = [self._phrases[place] for place in places.tolist()]
        return tuple(Nearest(each.label, each.text, cosine) for each, cosine in zip(phrases, cosines.tolist(), strict=True))

    @property
    def _opinions(self) -> Sequence[str]:
        return ("nearest",) if self._learned is None else OPINIONS

    def _said(self, texts: Sequence[str], vectors: Floats, best: Floats) -> ScorerOutput:
        if self._learned is None:
            return ScorerOutput((COSINE_SCALE * best)[:, :, None])
        return self._learned.say(texts, vectors, best)

    def tuned(self, texts: Sequence[str], vectors: Floats, labels: Sequence[str | None]) -> "Matcher":
        """Returns a copy with confidence and novelty tuned on labelled texts.

        Args:
            texts: The texts; none of them should be a phrase of this matcher.
            vectors: One row per text.
            labels: The right label of each text; None = out of scope. Texts of unknown labels are ignored.
        """
        number = {label: place for place, label in enumerate(self.labels)}
        kept = [row for row, label in enumerate(labels) if label is None or label in number]
        if not self.labels or not kept:
            return self
        texts, vectors = [texts[row] for row in kept], np.asarray(vectors)[kept]
        right = np.array([number.get(labels[row] or "", -1) for row in kept], np.int64)
        opinions, places = [], []
        for start in range(0, len(texts), _CHUNK):
            rows = slice(start, start + _CHUNK)
            best = np.stack([each.best for each in self._index.search_many(vectors[rows])])
            said = self._said(texts[rows], vectors[rows], best)
            opinions.append(said.opinions)
            places.append(said.placed(right[rows]))
        evidence, right = np.concatenate(opinions), np.concatenate(places)
        known = np.array([labels[row] is not None for row in kept])
        weights = fit_weights(evidence[right >= 0], right[right >= 0], self._weights, trust=HEARD)
        chosen = (evidence @ weights).argmax(axis=1)
        gate = tune_gate(self._gate, signs(evidence, self._opinions), known & (chosen == right), ~known)
        return Matcher(self._phrases, self._index, self._learned, weights, gate)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns all state except the phrases as arrays, for `from_arrays`."""
        kept: dict[str, NDArray[Any]] = {f"index.{name}": array for name, array in self._index.arrays().items()}
        kept |= {f"gate.{name}": np.asarray(value) for name, value in self._gate._asdict().items()}
        kept["weights"] = self._weights
        if self._learned is not None:
            for name, value in self._learned._asdict().items():
                if isinstance(value, Head):
                    kept |= {f"learned.{name}.{part}": array for part, array in value._asdict().items()}
                else:
                    kept[f"learned.{name}"] = value.weights if isinstance(value, Lexicon) else value
        return kept

    @classmethod
    def from_arrays(cls, phrases: Sequence[Phrase], arrays: Mapping[str, NDArray[Any]]) -> "Matcher":
        """Restores a matcher from its phrases and `arrays`. Raises KeyError when an array is missing."""
        index = Index.from_arrays({name[6:]: array for name, array in arrays.items() if name.startswith("index.")})
        gate = Gate(**{name: arrays[f"gate.{name}"] for name in Gate._fields})
        learned = None
        if "learned.starts" in arrays:
            learned = FittedScorers(
                starts=arrays["learned.starts"],
                meaning=Head(arrays["learned.meaning.weights"], arrays["learned.meaning.bias"]),
                wording=Head(arrays["learned.wording.weights"], arrays["learned.wording.bias"]),
                lexicon=Lexicon(arrays["learned.lexicon"]),
                means=arrays["learned.means"],
            )
        return cls(phrases, index, learned, arrays["weights"], gate)


def nearest(phrases: Sequence[Phrase], vectors: Floats) -> Matcher:
    """Creates a matcher without fitting: the nearest phrases decide. `vectors` has one row of length 1 per phrase."""
    return _by_nearest(phrases, _indexed(phrases, vectors))


def fit(phrases: Sequence[Phrase], vectors: Floats, *, progress: Progress | None = None) -> Matcher:
    """Creates a matcher with fitted heads, in seconds. Deterministic.

    Args:
        phrases: The labels' phrases.
        vectors: One row of length 1 per phrase.
        progress: Called repeatedly with the completed share, 0 to 1. Its exceptions stop the work.
    """
    tick = _tick(progress, 0.0)
    index = _indexed(phrases, vectors)
    kept = _without_repeats(phrases)
    if not kept:
        return _by_nearest(phrases, index)
    study = _study([phrases[place] for place in kept], _rows(vectors, kept), labels_of(phrases))
    if tick:
        tick()
    folds = _folds([phrases[place] for place in kept], study.owners)
    opinions, places, owners = [], [], []
    for done, held in enumerate(folds):
        said = _held_out(study, held, _tick(progress, (done + 0.5) / (len(folds) + 1.5)))
        opinions.append(said.opinions)
        places.append(said.placed(study.owners[held]))
        owners.append(study.owners[held])
    tick = _tick(progress, (len(folds) + 0.5) / (len(folds) + 1.5))
    learned = fit_scorers(study, tick)
    exemplary = np.array([phrases[place].kind == "example" for place in kept])
    weights = learned.weights(np.bincount(study.owners[exemplary], minlength=len(learned.starts)))
    gate = _untried(phrases)
    if folds:
        evidence, right, counts = np.concatenate(opinions), np.concatenate(places), balanced(np.concatenate(owners))
        placed = right >= 0
        weights = fit_weights(evidence[placed], right[placed], weights, trust=HELD_OUT, counts=counts[placed], tick=tick)
        gate = fit_gate(gate, signs(evidence), counts)
    if progress:
        progress(1.0)
    return Matcher(phrases, index, learned, weights, gate)


def _by_nearest(phrases: Sequence[Phrase], index: Index) -> Matcher:
    return Matcher(phrases, index, None, np.full(1, _NEAREST_SHARPNESS, np.float32), _untried(phrases))


def _untried(phrases: Sequence[Phrase]) -> Gate:
    exemplified = {phrase.label for phrase in phrases if phrase.kind == "example"}
    return default_gate(sum(phrase.label in exemplified for phrase in phrases))


def labels_of(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    """Returns the labels, in the order of their first phrase."""
    return tuple(dict.fromkeys(phrase.label for phrase in phrases))


def _indexed(phrases: Sequence[Phrase], vectors: Floats) -> Index:
    number = {label: place for place, label in enumerate(labels_of(phrases))}
    return Index(vectors, np.array([number[phrase.label] for phrase in phrases], np.int64), len(number))


def _without_repeats(phrases: Sequence[Phrase]) -> list[int]:
    """Returns the indices of the phrases, without duplicates within a label."""
    first: dict[tuple[str, str], int] = {}
    for place, phrase in enumerate(phrases):
        first.setdefault((phrase.label, normalize(phrase.text, fold=True)), place)
    return list(first.values())


def _rows(vectors: Floats, kept: list[int]) -> Floats:
    """Returns those rows; without a copy when they are all."""
    vectors = np.asarray(vectors, np.float32)
    return vectors if len(kept) == len(vectors) else vectors[kept]


def _study(phrases: Sequence[Phrase], vectors: Floats, labels: Sequence[str]) -> TrainingSet:
    number = {label: place for place, label in enumerate(labels)}
    owners = np.array([number[phrase.label] for phrase in phrases], np.int64)
    skills, parents = split(vectors, owners, [phrase.skill for phrase in phrases])
    return prepare([phrase.text for phrase in phrases], vectors, owners, skills, parents)


def _folds(phrases: Sequence[Phrase], owners: Classes) -> list[NDArray[np.bool_]]:
    """Returns masks of the examples held out in each fold. Every label keeps a phrase; large sets are sampled."""
    turns: dict[int, int] = {}
    fold = np.full(len(phrases), -1)
    counts = np.bincount(owners).tolist()
    for place, (phrase, owner) in enumerate(zip(phrases, owners.tolist(), strict=True)):
        if phrase.kind == "example" and counts[owner] > 1:
            turns[owner] = turn = turns.get(owner, owner - 1) + 1
            fold[place] = turn % _FOLDS
    if len(phrases) <= _ONE_FOLD_ABOVE_PHRASES and len(counts) <= _ONE_FOLD_ABOVE_LABELS:
        return [fold == number for number in range(_FOLDS) if (fold == number).any()]
    held = np.flatnonzero(fold == 0)
    most = _HELD_MOST if len(counts) <= SHORTLISTED_ABOVE else _HELD_MOST // 2
    held = held[:: -(-len(held) // most) or 1]
    return [np.isin(np.arange(len(phrases)), held)] if len(held) else []


def _tick(progress: Progress | None, share: float) -> Tick | None:
    """Reports that share now, and returns a callback that reports it again."""
    if progress is None:
        return None
    progress(share)
    return functools.partial(progress, share)


def _held_out(study: TrainingSet, held: NDArray[np.bool_], tick: Tick | None) -> ScorerOutput:
    """Scores the held-out phrases with scorers fitted on the others."""
    rest = study.without(held)
    learned = fit_scorers(rest, tick)
    rows = np.flatnonzero(held).tolist()
    vectors = study.vectors[rows]
    best = nearest_by_label(vectors, rest, len(learned.starts))
    return learned.say([study.texts[row] for row in rows], vectors, best)
