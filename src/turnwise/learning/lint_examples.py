"""Lint checks of examples and descriptions: duplicates, and examples that look like another agent's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from turnwise.matching.normalize import normalize

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Finding(NamedTuple):
    """A problem that lint found in agents' cards."""

    code: str
    """Stable code, `subject.matter`."""
    severity: Severity
    """An error sends messages to the wrong agent or to none, a warning probably does, a note could be improved."""
    agents: tuple[str, ...]
    """The agents concerned; the first one is the one to change first."""
    problem: str
    evidence: tuple[str, ...]
    """Texts or patterns that show the problem."""
    fix: str
    """Recommended change."""

    def data(self) -> dict[str, JsonValue]:
        return {**self._asdict(), "agents": list(self.agents), "evidence": list(self.evidence)}


def ordered(findings: list[Finding]) -> list[Finding]:
    """Returns the findings, errors first, otherwise in their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


FEW = 5
COMPARED = 20_000
"""Maximum number of examples compared with each other; larger sets are sampled evenly."""

NEIGHBOURS = 3
# With 3 % of the labels changed at random, recall is 80 to 97 % and precision 50 to 80 %. Many of the other findings are
# wrong labels in the published data.
MARGIN, NEAR = 0.15, 0.5
ALIKE = 0.92
_ROWS = 512
_SHOWN = 3

Vectors = NDArray[np.float32]


class Example(NamedTuple):
    """An agent's example, as written."""

    agent: str
    text: str


def lint_duplicates(examples: Sequence[Example]) -> Iterator[Finding]:
    """Finds texts that are examples of several agents, or repeated within one, ignoring case and space."""
    owners: dict[str, list[Example]] = {}
    for example in examples:
        owners.setdefault(normalize(example.text, fold=True), []).append(example)
    repeated: dict[str, list[str]] = {}
    shared: dict[tuple[str, ...], list[str]] = {}
    for group in owners.values():
        agents = tuple(dict.fromkeys(example.agent for example in group))
        if len(agents) > 1:
            shared.setdefault(tuple(sorted(agents)), []).append(group[0].text)
        elif len(group) > 1:
            repeated.setdefault(agents[0], []).append(group[0].text)
    for together, texts in shared.items():
        yield Finding(
            "example.shared",
            "error",
            together,
            f"{_count(texts, 'example')} of {together[0]} {_be(texts)} also of {', '.join(together[1:])}.",
            tuple(texts[:_SHOWN]),
            "Leave each with the agent that should take it.",
        )
    for agent, again in repeated.items():
        yield Finding(
            "example.repeated",
            "note",
            (agent,),
            f"{_count(again, 'example')} of {agent} {_be(again)} repeated.",
            tuple(again[:_SHOWN]),
            "Remove the repetitions: they teach nothing.",
        )


def lint_neighbours(examples: Sequence[Example], vectors: Vectors) -> Iterator[Finding]:
    """Finds examples that are closer to another agent's examples than to their own agent's (leave-one-out).

    Closeness is the mean cosine of an agent's three nearest examples. An example among another agent's is probably mislabelled.
    Duplicated texts are skipped.

    Args:
        examples: The examples.
        vectors: One row of length 1 per example.
    """
    compared = _comparable(examples)
    if len(compared) < 2:
        return
    rows = vectors[compared]
    names = sorted({examples[place].agent for place in compared})
    owners = np.array([names.index(examples[place].agent) for place in compared])
    found: dict[tuple[str, str], list[tuple[float, str, str]]] = {}
    for row, closer, lead, nearest in _misplaced(rows, owners, len(names)):
        own = examples[compared[row]]
        found.setdefault((own.agent, names[closer]), []).append((lead, own.text, examples[compared[nearest]].text))
    for (agent, other), group in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        worst = sorted(group, key=lambda each: (-each[0], each[1]))[:_SHOWN]
        yield Finding(
            "example.stranger",
            "warning",
            (agent, other),
            f"{_count(group, 'example')} of {agent} {'looks' if len(group) == 1 else 'look'} like those of {other}.",
            tuple(f"{text}  ↔  {near}" for _, text, near in worst),
            f"Move what belongs to {other}; where both could take it, say how they differ.",
        )


def _comparable(examples: Sequence[Example]) -> list[int]:
    """Returns the indices of examples to compare: without exact duplicates, and at most COMPARED."""
    counts: dict[str, int] = {}
    for example in examples:
        key = normalize(example.text, fold=True)
        counts[key] = counts.get(key, 0) + 1
    single = [place for place, example in enumerate(examples) if counts[normalize(example.text, fold=True)] == 1]
    every = -(-len(single) // COMPARED) or 1
    return single[::every]


def _misplaced(rows: Vectors, owners: NDArray[np.int64], count: int) -> Iterator[tuple[int, int, float, int]]:
    """Yields (example, other agent, lead of that agent, its nearest example) for examples that look misplaced."""
    order = np.argsort(owners, kind="stable")
    places = np.argsort(order)  # each example's index in the order by agent
    starts = np.searchsorted(owners[order], np.arange(count))
    sizes = np.bincount(owners, minlength=count)
    for begin in range(0, len(rows), _ROWS):
        some = np.arange(begin, min(begin + _ROWS, len(rows)))
        cosines = rows[some] @ rows[order].T
        cosines[np.arange(len(some)), places[some]] = -1.0
        means = _closeness(cosines, starts, sizes)
        own = means[np.arange(len(some)), owners[some]]
        others = means.copy()
        others[np.arange(len(some)), owners[some]] = -1.0
        best = others.argmax(axis=1)
        lead = others[np.arange(len(some)), best] - own
        misplaced = (lead > MARGIN) & (others[np.arange(len(some)), best] > NEAR) & (sizes[owners[some]] > NEIGHBOURS)
        for row in np.flatnonzero(misplaced).tolist():
            other = int(best[row])
            span = slice(int(starts[other]), int(starts[other] + sizes[other]))
            yield int(some[row]), other, float(lead[row]), int(order[span][cosines[row, span].argmax()])


def _closeness(cosines: Vectors, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns, for each text and agent, the mean cosine of the agent's nearest three examples, or of all if it has fewer."""
    means = np.full((len(cosines), len(starts)), -1.0)
    for agent, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        group = cosines[:, start : start + size]
        few = min(NEIGHBOURS, size)
        means[:, agent] = np.partition(group, size - few, axis=1)[:, size - few :].mean(axis=1)
    return means


def lint_descriptions(described: Mapping[str, str], vectors: Vectors) -> Iterator[Finding]:
    """Finds agents with nearly equal descriptions. `vectors` has one row of length 1 per description, in order."""
    names = list(described)
    for begin in range(0, len(names), _ROWS):
        cosines = vectors[begin : begin + _ROWS] @ vectors.T
        for row, place in zip(*np.nonzero(cosines > ALIKE), strict=True):
            one, other = int(row) + begin, int(place)
            if one < other:
                yield Finding(
                    "description.alike",
                    "warning",
                    (names[one], names[other]),
                    f"{names[one]} and {names[other]} are described nearly alike (cosine {cosines[row, place]:.2f}).",
                    (described[names[one]], described[names[other]]),
                    "Say what each does that the other does not.",
                )


def _be(group: Sequence[object]) -> str:
    return "is" if len(group) == 1 else "are"


def _count(group: Sequence[object], what: str) -> str:
    return f"One {what}" if len(group) == 1 else f"{len(group)} {what}s"
