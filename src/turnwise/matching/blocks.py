"""Phrases by label, and what is the same in two collections of them."""

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from turnwise.matching.heads import Classes
from turnwise.matching.match import GroupedPhrases, Phrase


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


def labels_of(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    """Returns the labels, in the order of their first phrase."""
    if isinstance(phrases, GroupedPhrases):
        return tuple(group[0].label for group in phrases.groups)
    return tuple(dict.fromkeys(phrase.label for phrase in phrases))


def _groups(phrases: Sequence[Phrase]) -> Sequence[Sequence[Phrase]]:
    if isinstance(phrases, GroupedPhrases):
        return phrases.groups
    return [tuple(group) for _, group in itertools.groupby(phrases, key=lambda phrase: phrase.label)]
