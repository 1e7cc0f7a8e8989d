"""Lint checks of patterns: patterns that match everything, match other agents' examples, or overlap."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import NamedTuple

from turnwise.facts.tree import AgentTree
from turnwise.learning.lint_examples import Finding
from turnwise.matching.patterns import PatternIndex

SAMPLES = 16
_CLASSES = {"d": "7", "w": "a", "s": " ", "D": "a", "W": " ", "S": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_NOTHING = frozenset("bBAzQE")
_MOST_REPEATS = 20
_GROUP = re.compile(r"\?(?:[imsU-]*[:)]|P?<\w+>)")

SATURATED_SHARE, SATURATED_EXAMPLES = 0.25, 20
_PROBES = ("qzx jk", "zv 74 kw", "wq pf 9")
_SHOWN, _NAMED = 3, 5


class _Pattern(NamedTuple):
    agent: str
    regex: str
    confidence: float


_Meeting = tuple[_Pattern, ...]
"""The patterns by which several agents match a text: the most confident of each agent, by agent name."""


class _Matched(NamedTuple):
    """The examples that a pattern matches: examples of the pattern's agent, and of others by agent."""

    own: Sequence[str]
    others: Mapping[str, Sequence[str]]


def lint_patterns(tree: AgentTree, examples: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Finds problems in active patterns. `examples` are the agents' examples by name.

    Raises:
        PatternError: RE2 rejects a pattern.
    """
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


def samples_of(regex: str) -> tuple[str, ...]:
    """Returns at most 16 texts that the expression probably matches; none for unsupported syntax."""
    try:
        found = _Reader(regex).whole()
    except (ValueError, RecursionError):
        return ()
    readable = (" ".join(text.split()) for text in found)
    return tuple(dict.fromkeys(text for text in readable if any(sign.isalnum() for sign in text)))


class _Reader:
    """Generates sample texts from an expression. It supports common RE2 syntax and raises ValueError for the rest."""

    def __init__(self, regex: str) -> None:
        self._regex, self._at = regex, 0

    def alternatives(self) -> list[str]:
        """Returns samples of the rest, up to a closing parenthesis or the end."""
        found = self._sequence()
        while self._next_is("|"):
            self._at += 1
            found += self._sequence()
        return _few(found)

    def whole(self) -> list[str]:
        found = self.alternatives()
        if self._at < len(self._regex):
            raise ValueError("a parenthesis too many")
        return found

    def _sequence(self) -> list[str]:
        found = [""]
        while self._at < len(self._regex) and self._regex[self._at] not in "|)":
            found = _few(before + after for before, after in product(found, self._repeated(self._piece())))
        return found

    def _piece(self) -> list[str]:
        """Reads one unit of the expression and returns sample texts for it."""
        sign = self._take()
        if sign == "(":
            return self._group_samples()
        if sign == "[":
            return [self._class()]
        if sign == "\\":
            return [self._escape()]
        if sign in "^$":
            return [""]
        return [" " if sign == "." else sign]

    def _group_samples(self) -> list[str]:
        """Returns sample texts of a group; its parenthesis was just read."""
        if self._next_is("?"):
            head = _GROUP.match(self._regex, self._at)
            if head is None:
                raise ValueError("not known")
            self._at = head.end()
            if head[0].endswith(")"):  # flags for the rest of the expression
                return [""]
        found = self.alternatives()
        if self._take() != ")":
            raise ValueError("a parenthesis too few")
        return found

    def _class(self) -> str:
        """Reads a character class and returns one character of it."""
        begin, first = self._at, ""
        negated = self._next_is("^")
        self._at += negated
        while True:
            sign = self._take()
            if sign == "]" and self._at > begin + 1 + negated:
                break
            if sign == "[" and self._next_is(":"):
                raise ValueError("not known")
            first = first or (self._escape() if sign == "\\" else sign)
            if sign == "\\" and len(first) > 1:
                raise ValueError("not known")
        return "-" if negated else first

    def _escape(self) -> str:
        """Reads an escape and returns a sample text. Raises ValueError for an unknown one."""
        sign = self._take()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign in _NOTHING:
            return ""
        if sign.isalnum():
            raise ValueError("not known")
        return sign

    def _repeated(self, found: list[str]) -> list[str]:
        """Reads repetition signs and returns the repeated samples."""
        while self._at < len(self._regex) and self._regex[self._at] in "*+?{":
            sign = self._take()
            if sign == "?":
                found = _few([*found, ""])
            elif sign == "*" and found != [" "]:  # keep one space, which separates words
                found = [""]
            elif sign == "{":
                found = self._counted(found)
            if self._next_is("?"):
                self._at += 1
        return found

    def _counted(self, found: list[str]) -> list[str]:
        """Reads a counted repetition and returns the samples, repeated as often as necessary."""
        counts = ""
        while (sign := self._take()) != "}":
            counts += sign
        least = counts.partition(",")[0]
        if not least.isdigit():
            raise ValueError("not known")
        return [text * min(int(least), _MOST_REPEATS) for text in found]

    def _take(self) -> str:
        if self._at >= len(self._regex):
            raise ValueError("it ends too early")
        self._at += 1
        return self._regex[self._at - 1]

    def _next_is(self, sign: str) -> bool:
        return self._regex.startswith(sign, self._at)


def _few(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(islice(texts, SAMPLES)))


def _counts(index: PatternIndex, texts: Sequence[str]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for text in texts:
        for hit in index.match(text):
            counts[int(hit.label)] = counts.get(int(hit.label), 0) + 1
    return counts


def _examples_matched(
    index: PatternIndex, patterns: Sequence[_Pattern], examples: Mapping[str, Sequence[str]]
) -> list[_Matched]:
    """Returns which examples each pattern matches, of its own agent and of others."""
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
    """Finds agents with patterns that match the same text: an example of one of them, or a sample of a pattern.

    Reports one finding per set of agents. A subset that overlaps by the same patterns is not reported again.
    """
    texts: dict[str, None] = {}
    for place, pattern in enumerate(patterns):
        if place in saturated:
            continue
        texts |= dict.fromkeys(matched[place].own)
        texts |= dict.fromkeys(samples_of(pattern.regex))
    found: dict[tuple[str, ...], list[tuple[str, _Meeting]]] = {}
    for text in texts:
        hits = [patterns[int(hit.label)] for hit in index.match(text) if int(hit.label) not in saturated]
        best: dict[str, _Pattern] = {}
        for pattern in hits:
            best.setdefault(pattern.agent, pattern)
        if len(best) > 1:
            meeting = tuple(best[agent] for agent in sorted(best))
            found.setdefault(tuple(sorted(best)), []).append((text, meeting))
    covered = _covered_by_larger(found)
    remaining = {agents: [each for each in those if each[1] not in covered] for agents, those in found.items()}
    for agents, those in sorted(remaining.items(), key=lambda item: (-len(item[1]), -len(item[0]), item[0])):
        if those:
            yield _overlap(agents, those)


def _covered_by_larger(found: Mapping[tuple[str, ...], Sequence[tuple[str, _Meeting]]]) -> set[_Meeting]:
    """Returns the overlaps that are part of a larger one with the same patterns."""
    larger: dict[_Pattern, list[frozenset[_Pattern]]] = {}
    covered: set[_Meeting] = set()
    every = {meeting for those in found.values() for _, meeting in those}
    for meeting in sorted(every, key=lambda each: (-len(each), each)):
        met = frozenset(meeting)
        if any(met < other for other in larger.get(meeting[0], ())):
            covered.add(meeting)
        else:
            for pattern in meeting:
                larger.setdefault(pattern, []).append(met)
    return covered


def _overlap(agents: tuple[str, ...], found: Sequence[tuple[str, _Meeting]]) -> Finding:
    """Returns the finding of patterns that match the same message."""
    _, meeting = found[0]
    different = list(dict.fromkeys(f"{pattern.confidence:g}" for pattern in meeting))
    confidences = f"confidence{'s' if len(different) > 1 else ''} {_listed(different)}"
    sharing: dict[str, list[str]] = {}
    for pattern in meeting:
        sharing.setdefault(pattern.regex, []).append(pattern.agent)
    return Finding(
        "pattern.overlap",
        "warning",
        agents,
        f"Patterns of {_listed(agents)} match the same message, with the {confidences}.",
        (*(text for text, _ in found[:_SHOWN]), *(f"{_listed(those)}: {regex}" for regex, those in sharing.items())),
        "Make one narrower, or give one a clearly lower confidence.",
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def _matches_all(pattern: _Pattern) -> Finding:
    """Returns the finding of a pattern that matches any message."""
    return Finding(
        "pattern.saturated",
        "error",
        (pattern.agent,),
        f"A pattern of {pattern.agent} matches any message.",
        (pattern.regex,),
        "Say what should be in the message, or make the agent the default.",
    )


def _matches_many(pattern: _Pattern, count: int, total: int, found: _Matched) -> Finding:
    """Returns the finding of a pattern that matches many examples of others."""
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
    """Returns the finding of a pattern that matches only others' examples."""
    others = [text for texts in found.others.values() for text in texts]
    return Finding(
        "pattern.stray",
        "error",
        (pattern.agent, *found.others),
        f"A pattern of {pattern.agent} matches none of its examples, but {len(others)} of {', '.join(found.others)}.",
        (pattern.regex, *others[:_SHOWN]),
        "Move the pattern, or correct it; else add the examples it is for.",
    )
