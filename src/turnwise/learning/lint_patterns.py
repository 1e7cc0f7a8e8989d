"""Patterns that send messages to the wrong agent: they match everything, or what belongs to another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from turnwise.facts.tree import AgentTree
from turnwise.learning.findings import Finding
from turnwise.learning.samples import samples_of
from turnwise.matching.patterns import PatternIndex

SATURATED_SHARE, SATURATED_EXAMPLES = 0.25, 20
_PROBES = ("qzx jk", "zv 74 kw", "wq pf 9")
_SHOWN = 3


class _Pattern(NamedTuple):
    agent: str
    regex: str
    confidence: float


class _Matched(NamedTuple):
    """Which texts a pattern matches: its own agent's examples, and others' by agent."""

    own: Sequence[str]
    others: Mapping[str, Sequence[str]]


def lint_patterns(tree: AgentTree, examples: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """What is wrong with active patterns. `examples` are the agents' own, by name. PatternError for a pattern RE2 refuses."""
    patterns = [
        _Pattern(card.name, pattern.regex, pattern.confidence) for card in tree for pattern in card.patterns if pattern.active
    ]
    if not patterns:
        return
    index = PatternIndex((str(place), pattern.regex, pattern.confidence) for place, pattern in enumerate(patterns))
    total = sum(len(texts) for texts in examples.values())
    saturated = {place for place, count in _counts(index, _PROBES).items() if count == len(_PROBES)}
    matched = _examples_matched(index, patterns, examples)
    for place, pattern in enumerate(patterns):
        found = matched[place]
        count = len(found.own) + sum(map(len, found.others.values()))
        if place in saturated:
            yield _matches_all(pattern)
        elif total >= SATURATED_EXAMPLES and count > SATURATED_SHARE * total and found.others:
            saturated.add(place)
            yield _matches_many(pattern, count, total, found)
        elif found.others and not found.own and examples.get(pattern.agent):
            yield _strays(pattern, found)
    yield from _overlaps(index, patterns, matched, saturated)


def _counts(index: PatternIndex, texts: Sequence[str]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for text in texts:
        for hit in index.match(text):
            counts[int(hit.label)] = counts.get(int(hit.label), 0) + 1
    return counts


def _examples_matched(
    index: PatternIndex, patterns: Sequence[_Pattern], examples: Mapping[str, Sequence[str]]
) -> list[_Matched]:
    own: list[list[str]] = [[] for _ in patterns]
    others: list[dict[str, list[str]]] = [{} for _ in patterns]
    for agent, texts in examples.items():
        for text in texts:
            for hit in index.match(text):
                place = int(hit.label)
                (own[place] if patterns[place].agent == agent else others[place].setdefault(agent, [])).append(text)
    return [_Matched(mine, theirs) for mine, theirs in zip(own, others, strict=True)]


def _overlaps(
    index: PatternIndex, patterns: Sequence[_Pattern], matched: Sequence[_Matched], saturated: set[int]
) -> Iterator[Finding]:
    """Pairs of agents whose patterns match the same text: an example of one of them, or what a pattern spells out."""
    texts: dict[str, None] = {}
    for place, pattern in enumerate(patterns):
        if place in saturated:
            continue
        texts |= dict.fromkeys(matched[place].own)
        texts |= dict.fromkeys(samples_of(pattern.regex))
    pairs: dict[tuple[str, str], list[tuple[str, _Pattern, _Pattern]]] = {}
    for text in texts:
        hits = [patterns[int(hit.label)] for hit in index.match(text) if int(hit.label) not in saturated]
        best: dict[str, _Pattern] = {}
        for pattern in hits:
            best.setdefault(pattern.agent, pattern)
        agents = list(best)
        for number, one in enumerate(agents):
            for other in agents[number + 1 :]:
                first, second = sorted((one, other))
                pairs.setdefault((first, second), []).append((text, best[first], best[second]))
    for (one, other), found in sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0])):
        yield _overlap(one, other, found)


def _overlap(one: str, other: str, found: Sequence[tuple[str, _Pattern, _Pattern]]) -> Finding:
    _, mine, theirs = found[0]
    confidences = f"{mine.confidence:g} and {theirs.confidence:g}"
    return Finding(
        "pattern.overlap",
        "warning",
        (one, other),
        f"Patterns of {one} and {other} match the same message, with the confidences {confidences}.",
        (*(text for text, _, _ in found[:_SHOWN]), f"{one}: {mine.regex}", f"{other}: {theirs.regex}"),
        "Make one narrower, or give one a clearly lower confidence.",
    )


def _matches_all(pattern: _Pattern) -> Finding:
    return Finding(
        "pattern.saturated",
        "error",
        (pattern.agent,),
        f"A pattern of {pattern.agent} matches any message.",
        (pattern.regex,),
        "Say what should be in the message, or make the agent the default.",
    )


def _matches_many(pattern: _Pattern, count: int, total: int, found: _Matched) -> Finding:
    others = [text for texts in found.others.values() for text in texts]
    return Finding(
        "pattern.saturated",
        "error",
        (pattern.agent, *found.others),
        f"A pattern of {pattern.agent} matches {count} of all {total} examples, of {len(found.others)} other agents too.",
        (pattern.regex, *others[:_SHOWN]),
        "Make it narrower.",
    )


def _strays(pattern: _Pattern, found: _Matched) -> Finding:
    others = [text for texts in found.others.values() for text in texts]
    return Finding(
        "pattern.stray",
        "error",
        (pattern.agent, *found.others),
        f"A pattern of {pattern.agent} matches none of its examples, but {len(others)} of {', '.join(found.others)}.",
        (pattern.regex, *others[:_SHOWN]),
        "Move the pattern, or correct it; else add the examples it is for.",
    )
