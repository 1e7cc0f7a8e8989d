"""Patterns (RE2), in time linear in the text: an index finds those that match a text, a slot pattern finds a value in it."""

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import re2

from turnwise.facts.errors import PatternError
from turnwise.matching.normalize import composed, normalize, strip_invisible

PATTERN_CHARACTERS = 10_000
PATTERN_COUNT = 100_000
MATCHED_CHARACTERS = 10_000
"""Maximum number of characters that are matched, to bound the cost of a message."""

_PROGRAM_MEMORY = 1 << 20
# A message runs through the automaton of every portion, so portions are as large as usually fits into one automaton.
_FILTER_PATTERNS = 7_000
_FILTER_CHARACTERS = 180_000
_SHOWN_CHARACTERS = 60
_MOST_ADDED = 100

_CAUSES = (
    (("(?=", "(?!", "(?<"), "look-around is not supported", "Match the words themselves, without a condition around them."),
    (
        ("(?>", "++", "*+", "?+"),
        "atomic groups and possessive repeats are not supported",
        "Leave them out: RE2 never backtracks.",
    ),
    (("\\Z",), r"\Z is not supported", r"Use \z for the end of the text."),
    (("invalid escape sequence",), "RE2 does not know this escape, or it is a back-reference", "Write out what should match."),
    (("invalid repetition size",), "it repeats something more than 1000 times", "Use `*` or `+`, or a smaller number."),
    (("too large",), "it needs too much memory", "Shorten it, or split it into several patterns."),
)

VALUE_CHARACTERS = 1_000
"""Values are cut to this length."""


class Hit(NamedTuple):
    """A label with a matching pattern: the highest confidence, and the pattern with that confidence."""

    label: str
    confidence: float
    regex: str


class PatternIndex:
    """Patterns with labels and confidences, compiled once. Immutable and safe to share between threads.

    Patterns match anywhere in the text, without case. The text is normalized first (`normalize`: NFKC, single spaces), so
    `^`, `$` and a space in a pattern see one line. Patterns are composed (NFC) and lose invisible characters. A search for
    the patterns' required literals selects the few patterns to run.

    Args:
        patterns: Label, expression and confidence of each pattern.
        before: An index of earlier patterns. If few labels have other patterns now, only theirs are compiled.

    Raises PatternError with the label, the pattern, the cause and the fix.
    """

    def __init__(self, patterns: Iterable[tuple[str, str, float]], before: "PatternIndex | None" = None) -> None:
        self._entries: list[Hit] = []
        self._ranks: dict[str, int] = {}
        for label, regex, confidence in patterns:
            self._add(label, regex, confidence)
        self._filters: list[tuple[Sequence[Hit], re2.Filter]] = []
        self._base: PatternIndex | None = None
        """The index whose filters are shared, except for the labels in `_replaced`."""
        self._replaced: frozenset[str] = frozenset()
        own = self._entries if before is None else self._shared(before._base or before)
        options = _options()
        for start, stop in _portions(own):
            self._compile(own[start:stop], options)

    @cached_property
    def _by_label(self) -> dict[str, list[Hit]]:
        found: dict[str, list[Hit]] = {}
        for entry in self._entries:
            found.setdefault(entry.label, []).append(entry)
        return found

    def _shared(self, base: "PatternIndex") -> Sequence[Hit]:
        """Shares what is compiled there, unless most labels changed. Returns the patterns that remain to be compiled."""
        here, there = self._by_label, base._by_label
        changed = {label for label in here.keys() | there.keys() if here.get(label) != there.get(label)}
        own = [entry for entry in self._entries if entry.label in changed]
        if len(own) > max(_MOST_ADDED, len(self._entries) // 20):
            return self._entries
        self._base, self._replaced = base, frozenset(changed)
        return own

    def __len__(self) -> int:
        return len(self._entries)

    def holds(self, patterns: Sequence[tuple[str, str, float]]) -> bool:
        """Returns whether the index was made from these patterns, in this order."""
        return [(entry.label, entry.regex, entry.confidence) for entry in self._entries] == list(patterns)

    def _add(self, label: str, regex: str, confidence: float) -> None:
        """Adds a pattern. Raises PatternError for an empty, long or invalid one."""
        if len(self._entries) >= PATTERN_COUNT:
            raise PatternError(
                f"There are more than {PATTERN_COUNT} patterns.", fix="Route by examples instead, or leave some out."
            )
        if not regex:
            raise _refused(label, regex, "it is empty and would match every message", "Write what should match, or remove it.")
        if len(regex) > PATTERN_CHARACTERS:
            cause = f"it has {len(regex)} characters, at most {PATTERN_CHARACTERS} are allowed"
            raise _refused(label, regex, cause, "Split it into several patterns.")
        if not (math.isfinite(confidence) and 0.0 <= confidence <= 1.0):
            raise _refused(label, regex, f"its confidence is {confidence}", "Give a number from 0 to 1.")
        self._ranks.setdefault(label, len(self._ranks))
        self._entries.append(Hit(label, confidence, regex))

    def _compile(self, entries: Sequence[Hit], options: re2.Options) -> None:
        """Compiles patterns into a filter, or into several if one would be too large. Raises PatternError."""
        compiled = re2.Filter()
        for entry in entries:
            try:
                compiled.Add(_prepared(entry.regex), options)
            except (re2.error, UnicodeEncodeError) as problem:
                raise _explained(entry, options) from problem
        try:
            compiled.Compile()
        except re2.error as problem:
            if len(entries) == 1:
                raise _refused(entries[0].label, entries[0].regex, *_CAUSES[-1][1:]) from problem
            # The literals do not fit into one automaton; split the patterns into two.
            half = len(entries) // 2
            self._compile(entries[:half], options)
            self._compile(entries[half:], options)
            return
        self._filters.append((entries, compiled))

    def match(self, text: str) -> list[Hit]:
        """Returns the best hit of every matching label, highest confidence first, then in the labels' order.

        Only the first 10,000 characters are matched. Any text is allowed.
        """
        encoded = normalize(text[:MATCHED_CHARACTERS])[:MATCHED_CHARACTERS].encode()
        best: dict[str, Hit] = {}
        for hit in self._hits(encoded):
            if hit.label not in best or hit.confidence > best[hit.label].confidence:
                best[hit.label] = hit
        return sorted(best.values(), key=lambda hit: (-hit.confidence, self._ranks[hit.label]))

    def _hits(self, encoded: bytes) -> Iterator[Hit]:
        """Yields the patterns that match, those of a label in order."""
        if self._base is not None:
            yield from (hit for hit in self._base._hits(encoded) if hit.label not in self._replaced)
        for entries, compiled in self._filters:
            yield from (entries[index] for index in sorted(compiled.Match(encoded) or ()))


def _portions(entries: Sequence[Hit]) -> Iterator[tuple[int, int]]:
    """Yields ranges of patterns small enough for one filter."""
    start = characters = 0
    for at, entry in enumerate(entries):
        if at > start and (at - start >= _FILTER_PATTERNS or characters + len(entry.regex) > _FILTER_CHARACTERS):
            yield start, at
            start, characters = at, 0
        characters += len(entry.regex)
    if entries:
        yield start, len(entries)


def _options() -> re2.Options:
    """Returns RE2's options: ignore case, no captures, bounded memory."""
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PROGRAM_MEMORY
    return options


def _prepared(regex: str) -> str:
    return unicodedata.normalize("NFC", strip_invisible(regex))


def _explained(entry: Hit, options: re2.Options) -> PatternError:
    """Returns the error for a pattern that RE2 refuses, with cause and fix."""
    try:
        re2.compile(_prepared(entry.regex), options)
    except UnicodeEncodeError:
        return _refused(entry.label, entry.regex, "it is not valid Unicode", "Remove the lone surrogate.")
    except re2.error as problem:
        said = problem.args[0] if problem.args else ""
        message = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        for signs, cause, fix in _CAUSES:
            if any(sign in message for sign in signs):
                return _refused(entry.label, entry.regex, f"{cause} ({_clipped(message)})", fix)
        return _refused(entry.label, entry.regex, _clipped(message), "Patterns are written in RE2's syntax.")
    return _refused(entry.label, entry.regex, "RE2 does not take it", "Simplify it.")


def _refused(label: str, regex: str, cause: str, fix: str) -> PatternError:
    return PatternError(f"The pattern {_clipped(regex)!r} of {label!r} cannot be used: {cause}.", fix=fix)


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


class SlotPattern:
    """A pattern; its first group is the value; without a group, the whole match. Case makes no difference.

    Args:
        name: The name of the value, for error messages.
        regex: An RE2 expression.

    Raises:
        PatternError: RE2 refuses the pattern.
    """

    def __init__(self, name: str, regex: str) -> None:
        PatternIndex([(name, regex, 1.0)])  # explains what RE2 refuses
        options = re2.Options()
        options.case_sensitive, options.log_errors = False, False
        try:
            self._compiled = re2.compile(regex, options)
        except re2.error as error:
            problem = f"The pattern of the slot {name!r} cannot be used: it needs too much memory."
            raise PatternError(problem, fix=f"Shorten it; at most {PATTERN_CHARACTERS} characters are allowed.") from error

    def find(self, text: str) -> str | None:
        """Returns the value of the first match in the text's first 10,000 characters; None without a match."""
        found = self._compiled.search(composed(text[:MATCHED_CHARACTERS])[:MATCHED_CHARACTERS])
        if found is None:
            return None
        value = found.group(1) if self._compiled.groups else found.group(0)
        return value.strip()[:VALUE_CHARACTERS] or None if value is not None else None
