"""The matcher: learns from phrases, grouped by label, which label a text belongs to."""

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.heads import (
    HELD_OUT,
    LABELLED,
    Classes,
    Floats,
    Head,
    Tick,
    balanced,
    class_sums,
    directions,
    fit_weights,
    log_softmax,
    split,
)
from turnwise.matching.index import EXACT_PHRASES, Index, OverlaidIndex
from turnwise.matching.lexical import Lexicon
from turnwise.matching.match import GroupedPhrases, Match, Nearest, Phrase
from turnwise.matching.normalize import normalize
from turnwise.matching.novelty import (
    FEW,
    FEWEST,
    UNLIKE_APP,
    Gate,
    Strangers,
    fit_gate,
    gate_by_strangers,
    gate_for,
    signals,
    tune_gate,
)
from turnwise.matching.packed_vectors import AnyVectors, PackedVectors, coded
from turnwise.matching.scorers import (
    COSINE_SCALE,
    SCORERS,
    SHORTLISTED_ABOVE,
    FittedScorers,
    PatchedScorers,
    ScorerOutput,
    TrainingSet,
    fit_scorers,
    fit_stand_ins,
    nearest_by_label,
    prepare,
)

_NEAREST_SHARPNESS = 2.0
_FOLDS = 4
_ONE_FOLD_ABOVE_PHRASES, _ONE_FOLD_ABOVE_LABELS = 5_000, 500
_MAX_HELD_OUT, _HELD_OUT_AT_ONCE, _SCORED_AT_ONCE = 2_000, 250, 50
_CHUNK = 500

Progress = Callable[[float], None]
Encode = Callable[[Sequence[str]], AnyVectors]
"""Returns one row of length 1 for each text."""


class Blocks(NamedTuple):
    """Phrases by label. The phrases of a label are in sequence."""

    phrases: Sequence[Phrase]
    labels: tuple[str, ...]
    starts: Classes
    """First phrase of each label, and the end."""
    groups: Sequence[Sequence[Phrase]]
    """The phrases of each label."""

    @classmethod
    def of(cls, phrases: Sequence[Phrase]) -> "Blocks":
        groups = _groups(phrases)
        starts = np.cumsum([0, *map(len, groups)], dtype=np.int64)
        return cls(phrases, tuple(group[0].label for group in groups), starts, groups)

    def bounds(self, label: int) -> tuple[int, int]:
        return int(self.starts[label]), int(self.starts[label + 1])

    def unchanged(self, before: "Blocks") -> Classes:
        """Returns for each label its number before; -1 = its phrases changed, or it is new."""
        known = {label: number for number, label in enumerate(before.labels)}
        olds = [known.get(label, -1) for label in self.labels]
        numbers = np.array(olds, np.int64)
        for number, (old, group) in enumerate(zip(olds, self.groups, strict=True)):
            if old >= 0 and before.groups[old] is not group and before.groups[old] != group:
                numbers[number] = -1
        return numbers

    def places_in(self, before: "Blocks", columns: Classes) -> Classes:
        """Returns for each phrase where its label has the same text before; -1 = nowhere. `columns` is from `unchanged`."""
        shifts = np.where(columns < 0, 0, before.starts[columns] - self.starts[:-1])
        counts = np.diff(self.starts)
        places = np.asarray(np.arange(len(self.phrases)) + np.repeat(shifts, counts), np.int64)
        changed = np.flatnonzero(np.repeat(columns < 0, counts))
        texts = [(self.phrases[place].label, self.phrases[place].text) for place in changed.tolist()]
        known = before._places({label for label, _ in texts})
        places[changed] = [known.get(text, -1) for text in texts]
        return places

    def _places(self, labels: Collection[str]) -> dict[tuple[str, str], int]:
        """Returns where the texts of these labels are."""
        return {
            (label, self.phrases[place].text): place
            for number, label in enumerate(self.labels)
            if label in labels
            for place in range(*self.bounds(number))
        }


class Matcher:
    """Matches texts to labels. Immutable and safe to share between threads. Created by `fit`, or quickly by `nearest`.

    `labels` are in the order of their first phrase. `fitted` is False while the nearest phrases decide.
    """

    def __init__(
        self,
        phrases: Sequence[Phrase],
        index: Index | OverlaidIndex,
        scorers: FittedScorers | PatchedScorers | None,
        weights: Floats,
        gate: Gate,
    ) -> None:
        self.labels = labels_of(phrases)
        self._phrases, self._index, self._fitted_scorers, self._weights, self._gate = phrases, index, scorers, weights, gate

    @functools.cached_property
    def _blocks(self) -> Blocks:
        return Blocks.of(self._phrases)

    @property
    def fitted(self) -> bool:
        return self._fitted_scorers is not None

    def index_of(self, phrases: Sequence[Phrase]) -> Index | None:
        """Returns the index, if it is one of exactly these phrases."""
        return self._index if phrases is self._phrases and isinstance(self._index, Index) else None

    def match(self, text: str, vector: Floats) -> Match:
        """Returns how well the text fits the labels. Without labels the novelty is 1.

        Args:
            text: The text.
            vector: Its vector, of length 1.
        """
        return self._match([text], vector[None])[0]

    def match_many(self, texts: Sequence[str], vectors: Floats) -> list[Match]:
        """Returns `match` of each row; faster for many rows."""
        matches: list[Match] = []
        for start in range(0, len(texts), _CHUNK):
            matches += self._match(texts[start : start + _CHUNK], vectors[start : start + _CHUNK])
        return matches

    def _match(self, texts: Sequence[str], vectors: Floats) -> list[Match]:
        """Returns a match for each text: probability and similarity of every label, and the out-of-scope score."""
        if not self.labels:
            nothing = np.zeros(0)
            return [Match((), nothing, nothing, 1.0, (), self.fitted) for _ in texts]
        found = self._index.search_many(vectors)
        best = np.stack([each.best for each in found])
        output = self._score_texts(texts, vectors, best)
        probabilities = np.exp(log_softmax(output.scores(self._weights)).astype(np.float64))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        novelty = self._gate.novelty(signals(output.raw_scores, self._scorer_names))
        similarities = np.clip(best, -1.0, 1.0).astype(np.float64)
        return [
            Match(self.labels, fit, alike, new, self._nearest_phrases(each.places, each.cosines), self.fitted)
            for fit, alike, new, each in zip(probabilities, similarities, novelty.tolist(), found, strict=True)
        ]

    def _nearest_phrases(self, places: NDArray[np.intp], cosines: Floats) -> tuple[Nearest, ...]:
        phrases = [self._phrases[place] for place in places.tolist()]
        return tuple(
            Nearest(each.label, each.text, cosine, each.private) for each, cosine in zip(phrases, cosines.tolist(), strict=True)
        )

    @property
    def _scorer_names(self) -> Sequence[str]:
        return ("nearest",) if self._fitted_scorers is None else SCORERS

    def _score_texts(self, texts: Sequence[str], vectors: Floats, best: Floats) -> ScorerOutput:
        if self._fitted_scorers is None:
            return ScorerOutput((COSINE_SCALE * best)[:, :, None])
        return self._fitted_scorers.score(texts, vectors, best)

    def tuned(self, texts: Sequence[str], vectors: Floats, labels: Sequence[str | None]) -> "Matcher":
        """Returns a copy with confidence and novelty tuned on labelled texts.

        Args:
            texts: The texts; none of them should be a phrase of this matcher.
            vectors: One row per text.
            labels: The right label of each text; None = out of scope. Texts of unknown labels are ignored.
        """
        number = {label: place for place, label in enumerate(self.labels)}
        selected = [row for row, label in enumerate(labels) if label is None or label in number]
        if not self.labels or not selected:
            return self
        texts, vectors = [texts[row] for row in selected], np.asarray(vectors)[selected]
        right = np.array([number.get(labels[row] or "", -1) for row in selected], np.int64)
        raw_scores, places = [], []
        for start in range(0, len(texts), _CHUNK):
            rows = slice(start, start + _CHUNK)
            best = np.stack([each.best for each in self._index.search_many(vectors[rows])])
            output = self._score_texts(texts[rows], vectors[rows], best)
            raw_scores.append(output.raw_scores)
            places.append(output.positions(right[rows]))
        evidence, right = np.concatenate(raw_scores), np.concatenate(places)
        known = np.array([labels[row] is not None for row in selected])
        weights = fit_weights(evidence[right >= 0], right[right >= 0], self._weights, trust=LABELLED)
        chosen = (evidence @ weights).argmax(axis=1)
        gate = tune_gate(self._gate, signals(evidence, self._scorer_names), known & (chosen == right), ~known)
        return Matcher(self._phrases, self._index, self._fitted_scorers, weights, gate)

    def vectors_for(self, phrases: Sequence[Phrase], encode: Encode) -> AnyVectors:
        """Returns one row for each phrase, for a fit. Of very many phrases, only those that the index lacks are encoded.

        The rows of the index are not copied.

        Args:
            phrases: The phrases; those of a label are in sequence, here and in this matcher.
            encode: Encodes texts.
        """
        index = self._index
        if len(phrases) <= EXACT_PHRASES or not isinstance(index, Index) or index.is_exact:
            return encode([phrase.text for phrase in phrases])
        before, after = self._blocks, Blocks.of(phrases)
        places = after.places_in(before, after.unchanged(before))
        missing = np.flatnonzero(places < 0)
        rows = coded(index.vectors())
        if len(missing):
            places[missing] = len(rows) + np.arange(len(missing))
            rows = PackedVectors(*rows.beside(coded(encode([phrases[place].text for place in missing.tolist()]))))
        return rows.chosen(places)

    def patched(self, phrases: Sequence[Phrase], encode: Encode) -> "Matcher":
        """Returns a matcher for other phrases. Labels with the same phrases keep their fitted heads.

        The nearest phrases stand in for the other labels. The result depends only on this matcher and on the phrases.

        Args:
            phrases: The phrases; those of a label are in sequence, here and in this matcher.
            encode: Encodes texts. It gets those that are new under their label.

        Raises:
            ValueError: This matcher is itself a patched one.
        """
        index, scorers = self._index, self._fitted_scorers
        if not isinstance(index, Index) or isinstance(scorers, PatchedScorers):
            raise ValueError("Patch the matcher that was fitted, not a patched one.")
        before, after = self._blocks, Blocks.of(phrases)
        columns = after.unchanged(before)
        changed = np.flatnonzero(columns < 0)
        places = np.concatenate([np.empty(0, np.intp), *(np.arange(*after.bounds(label)) for label in changed.tolist())])
        owners = np.repeat(changed, [np.subtract(*after.bounds(label)[::-1]) for label in changed.tolist()])
        rows = self._rows_of([phrases[place] for place in places.tolist()], after.places_in(before, columns)[places], encode)
        numbers = np.full(len(before.labels), -1, np.intp)
        numbers[columns[columns >= 0]] = np.flatnonzero(columns >= 0)
        shifts = np.zeros(len(before.labels), np.intp)
        shifts[columns[columns >= 0]] = after.starts[:-1][columns >= 0] - before.starts[:-1][columns[columns >= 0]]
        overlaid = OverlaidIndex(index, numbers, shifts, Index(rows, owners, len(columns)), places)
        if scorers is None:
            return Matcher(phrases, overlaid, None, self._weights, self._gate)
        local = np.searchsorted(changed, owners)
        means = directions(class_sums(rows, local, len(changed)))
        return Matcher(phrases, overlaid, PatchedScorers(scorers, columns, means), self._weights, self._gate)

    def _rows_of(self, phrases: Sequence[Phrase], places: Classes, encode: Encode) -> Floats:
        """Returns a row for each phrase: that of its place in the index, or an encoded one where the place is -1."""
        assert isinstance(self._index, Index)
        vectors, missing = self._index.vectors(), places < 0
        rows = np.empty((len(phrases), vectors.shape[1]), np.float32)
        rows[~missing] = vectors[places[~missing]]
        if missing.any():
            rows[missing] = encode([phrases[place].text for place in np.flatnonzero(missing).tolist()])[:]
        return rows

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns all state except the phrases as arrays, for `from_arrays`. A patched matcher has no arrays."""
        assert isinstance(self._index, Index)
        assert not isinstance(self._fitted_scorers, PatchedScorers)
        state: dict[str, NDArray[Any]] = {f"index.{name}": array for name, array in self._index.arrays().items()}
        state |= {f"gate.{name}": np.asarray(value) for name, value in self._gate._asdict().items()}
        state["weights"] = self._weights
        if self._fitted_scorers is not None:
            for name in (field.name for field in fields(FittedScorers)):
                value = getattr(self._fitted_scorers, name)
                if isinstance(value, Head):
                    state |= {f"learned.{name}.{part}": array for part, array in value._asdict().items()}
                else:
                    state[f"learned.{name}"] = value.weights if isinstance(value, Lexicon) else value
        return state

    @classmethod
    def from_arrays(cls, phrases: Sequence[Phrase], arrays: Mapping[str, NDArray[Any]]) -> "Matcher":
        """Restores a matcher from its phrases and `arrays`. Raises KeyError when an array is missing."""
        index = Index.from_arrays({name[6:]: array for name, array in arrays.items() if name.startswith("index.")})
        gate = Gate(**{name: arrays[f"gate.{name}"] for name in Gate._fields})
        scorers = None
        if "learned.starts" in arrays:
            scorers = FittedScorers(
                starts=arrays["learned.starts"],
                meaning=Head(arrays["learned.meaning.weights"], arrays["learned.meaning.bias"]),
                wording=Head(arrays["learned.wording.weights"], arrays["learned.wording.bias"]),
                lexicon=Lexicon(arrays["learned.lexicon"]),
                means=arrays["learned.means"],
                stand_ins=arrays["learned.stand_ins"],
            )
        return cls(phrases, index, scorers, arrays["weights"], gate)


def nearest(phrases: Sequence[Phrase], vectors: AnyVectors) -> Matcher:
    """Creates a matcher without fitting: the nearest phrases decide. `vectors` has one row of length 1 per phrase."""
    return _by_nearest(phrases, _indexed(phrases, vectors))


def fit(
    phrases: Sequence[Phrase],
    vectors: AnyVectors,
    *,
    strangers: Strangers | None = None,
    progress: Progress | None = None,
    like: Matcher | None = None,
) -> Matcher:
    """Creates a matcher with fitted heads, in seconds. Deterministic.

    Args:
        phrases: The labels' phrases.
        vectors: One row of length 1 per phrase.
        strangers: Texts that belong to no label of most apps; used with few examples. None = none are known.
        progress: Called repeatedly with the completed share, 0 to 1. Its exceptions stop the work.
        like: An earlier matcher. If it has the same phrases, both share one index.
    """
    tick = _tick(progress, 0.0)
    # Of very many phrases the rows are codes, so that the heads are the same whether they come from an index or are encoded.
    vectors = vectors[:] if len(phrases) <= EXACT_PHRASES else coded(vectors)
    selected = _without_repeats(phrases)
    if not selected:
        return _by_nearest(phrases, _indexed(phrases, vectors))
    training = _training_set([phrases[place] for place in selected], _rows(vectors, selected), labels_of(phrases))
    if tick:
        tick()
    folds = _folds([phrases[place] for place in selected], training.owners)
    raw_scores: list[Floats] = []
    places: list[Classes] = []
    owners: list[Classes] = []
    for done, held_out in enumerate(folds):
        found = _held_out(training, held_out, _tick(progress, (done + 0.5) / (len(folds) + 1.5)))
        raw_scores += found[0]
        places += found[1]
        owners.append(training.owners[held_out])
    tick = _tick(progress, (len(folds) + 0.5) / (len(folds) + 1.5))
    scorers = fit_scorers(training, tick)
    exemplary = np.array([phrases[place].kind == "example" for place in selected])
    weights = scorers.weights(np.bincount(training.owners[exemplary], minlength=len(scorers.starts)))
    gate = gate_for(phrases)
    if folds:
        evidence, right, counts = np.concatenate(raw_scores), np.concatenate(places), balanced(np.concatenate(owners))
        placed = right >= 0
        weights = fit_weights(evidence[placed], right[placed], weights, trust=HELD_OUT, counts=counts[placed], tick=tick)
        gate = fit_gate(gate, signals(evidence), counts)
        if strangers is not None and FEWEST <= len(evidence) < FEW and placed.all():
            far = strangers.unlike(vectors[:], UNLIKE_APP)
            gate = gate_by_strangers(gate, evidence, right, counts, scorers, _indexed(phrases, vectors), far)
        scorers = replace(scorers, stand_ins=fit_stand_ins(evidence[placed], right[placed]))
    del training
    # Last, because it is large: heads on trial are gone by now.
    shared = like.index_of(phrases) if like is not None else None
    index = _indexed(phrases, vectors) if shared is None else shared
    if progress:
        progress(1.0)
    return Matcher(phrases, index, scorers, weights, gate)


def _by_nearest(phrases: Sequence[Phrase], index: Index) -> Matcher:
    return Matcher(phrases, index, None, np.full(1, _NEAREST_SHARPNESS, np.float32), gate_for(phrases))


def _indexed(phrases: Sequence[Phrase], vectors: AnyVectors) -> Index:
    number = {label: place for place, label in enumerate(labels_of(phrases))}
    return Index(vectors, np.array([number[phrase.label] for phrase in phrases], np.int64), len(number))


def _without_repeats(phrases: Sequence[Phrase]) -> list[int]:
    """Returns the indices of the phrases, without duplicates within a label."""
    by_label: dict[str, list[int]] = {}
    for place, phrase in enumerate(phrases):
        by_label.setdefault(phrase.label, []).append(place)
    found: list[int] = []
    for places in by_label.values():
        first: dict[str, int] = {}
        for place in places:
            first.setdefault(normalize(phrases[place].text, fold=True), place)
        found += first.values()
    return sorted(found)


def _rows(vectors: AnyVectors, selected: list[int]) -> AnyVectors:
    """Returns those rows; without a copy when they are all."""
    if isinstance(vectors, PackedVectors):
        return vectors.chosen(selected)
    vectors = np.asarray(vectors, np.float32)
    return vectors if len(selected) == len(vectors) else vectors[selected]


def _training_set(phrases: Sequence[Phrase], vectors: AnyVectors, labels: Sequence[str]) -> TrainingSet:
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
    held_out = np.flatnonzero(fold == 0)
    most = _MAX_HELD_OUT if len(counts) <= SHORTLISTED_ABOVE else _MAX_HELD_OUT // 2
    held_out = held_out[:: -(-len(held_out) // most) or 1]
    return [np.isin(np.arange(len(phrases)), held_out)] if len(held_out) else []


def _tick(progress: Progress | None, share: float) -> Tick | None:
    """Reports that share now, and returns a callback that reports it again."""
    if progress is None:
        return None
    progress(share)
    return functools.partial(progress, share)


def _held_out(
    training: TrainingSet, held_out: NDArray[np.bool_], tick: Tick | None
) -> tuple[Sequence[Floats], Sequence[Classes]]:
    """Scores the held-out phrases with scorers fitted on the others.

    Returns:
        The raw scores, and the index of each phrase's right label among its scored ones, both in parts.
    """
    rest = training.without(held_out)
    scorers = fit_scorers(rest, tick)
    rows, count = np.flatnonzero(held_out), len(scorers.starts)
    # Each row has a score of every label.
    at_once, scored = (len(rows), len(rows)) if count <= SHORTLISTED_ABOVE else (_HELD_OUT_AT_ONCE, _SCORED_AT_ONCE)
    raw_scores, places = [], []
    for start in range(0, len(rows), at_once):
        best = nearest_by_label(training.vectors[rows[start : start + at_once]], rest, count)
        for first in range(0, len(best), scored):
            some = rows[start + first : start + min(first + scored, at_once)]
            texts = [training.texts[row] for row in some.tolist()]
            output = scorers.score(texts, training.vectors[some], best[first : first + scored])
            raw_scores.append(output.raw_scores)
            places.append(output.positions(training.owners[some]))
    return raw_scores, places


def labels_of(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    """Returns the labels, in the order of their first phrase."""
    if isinstance(phrases, GroupedPhrases):
        return tuple(group[0].label for group in phrases.groups)
    return tuple(dict.fromkeys(phrase.label for phrase in phrases))


def _groups(phrases: Sequence[Phrase]) -> Sequence[Sequence[Phrase]]:
    if isinstance(phrases, GroupedPhrases):
        return phrases.groups
    return [tuple(group) for _, group in itertools.groupby(phrases, key=lambda phrase: phrase.label)]
