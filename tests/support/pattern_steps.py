"""Counting what the standard library's patterns look at: a backtracking matcher, as `re` is one, that counts.

`re` does not say how often it looks at a text. This matcher takes the same parsed pattern the same way, one step for each
character or condition that it tries. It finds what `re` finds, which `steps_of` checks on every text.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

Rest = Callable[[int], int | None]
"""What follows: where all of it ends from that place on, or None."""

_SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}
_RECURSION = 200_000


class _Search:
    """One pattern on one text. Groups by number, as (start, end)."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self.steps = 0
        self._flags, self._text = pattern.flags, text
        self._tree = _parsed(pattern.pattern, pattern.flags)
        self._groups: dict[int, tuple[int, int]] = {}

    def spans(self) -> list[tuple[int, int]]:
        """As `finditer` gives them, with a step for every place that is tried."""
        found: list[tuple[int, int]] = []
        at, after_empty = 0, -1
        while at <= len(self._text):
            self._groups.clear()
            end = self._sequence(self._tree, 0, at, self._flags, _unless(after_empty))
            if end is None:
                at, after_empty = at + 1, -1
                continue
            found.append((at, end))
            at, after_empty = end, end if end == at else -1
        return found

    def _sequence(self, items: Any, index: int, at: int, flags: int, rest: Rest) -> int | None:
        if index == len(items):
            return rest(at)
        self.steps += 1
        name, value = str(items[index][0]), items[index][1]
        if name in _SINGLE:
            fits = self._fits(items[index], at, flags)
            return self._sequence(items, index + 1, at + 1, flags, rest) if fits else None
        go_on: Rest = lambda place: self._sequence(items, index + 1, place, flags, rest)  # noqa: E731
        return self._item(name, value, at, flags, go_on)

    def _item(self, name: str, value: Any, at: int, flags: int, go_on: Rest) -> int | None:
        match name:
            case "AT":
                return go_on(at) if _condition(name, value, flags).match(self._text, at) else None
            case "BRANCH":
                ends = (self._sequence(branch, 0, at, flags, go_on) for branch in value[1])
                return next((end for end in ends if end is not None), None)
            case "SUBPATTERN":
                group, added, removed, inner = value
                return self._sequence(inner, 0, at, (flags | added) & ~removed, self._closing(group, at, go_on))
            case "ASSERT" | "ASSERT_NOT":
                width: int = value[1].getwidth()[0]
                begin = at - width if value[0] < 0 else at
                ends_here: Rest = lambda place: place if value[0] > 0 or place == at else None  # noqa: E731
                met = begin >= 0 and self._sequence(value[1], 0, begin, flags, ends_here) is not None
                return go_on(at) if met == (name == "ASSERT") else None
            case "ATOMIC_GROUP":
                end = self._sequence(value, 0, at, flags, lambda place: place)
                return None if end is None else go_on(end)
            case "GROUPREF":
                start, end = self._groups.get(value, (0, -1))
                same = end >= start and self._text.startswith(self._text[start:end], at)
                return go_on(at + end - start) if same else None
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(name, value, at, flags, go_on)
        raise NotImplementedError(name)

    def _closing(self, group: int | None, start: int, go_on: Rest) -> Rest:
        def close(place: int) -> int | None:
            if group is None:
                return go_on(place)
            before = self._groups.get(group)
            self._groups[group] = (start, place)
            end = go_on(place)
            if end is None and before is not None:
                self._groups[group] = before
            return end

        return close

    def _repeat(self, name: str, value: Any, at: int, flags: int, go_on: Rest) -> int | None:
        least, most, inner = value
        items, most = inner, sys.maxsize if most is _constants.MAXREPEAT else most
        if len(items) == 1 and str(items[0][0]) in _SINGLE:
            return self._repeat_character(name, items[0], (least, most), at, flags, go_on)
        if name == "POSSESSIVE_REPEAT":
            count = 0
            while count < most and (end := self._sequence(items, 0, at, flags, lambda place: place)) not in {None, at}:
                assert end is not None
                at, count = end, count + 1
            return go_on(at) if count >= least else None

        def again(count: int, place: int) -> int | None:
            more: Rest = lambda end: again(count + 1, end) if end > place or count < least else None  # noqa: E731
            tries: list[Callable[[], int | None]] = []
            if count < most:
                tries.append(lambda: self._sequence(items, 0, place, flags, more))
            if count >= least:
                tries.insert(0 if name == "MIN_REPEAT" else len(tries), lambda: go_on(place))
            return next((end for each in tries if (end := each()) is not None), None)

        return again(0, at)

    def _repeat_character(self, name: str, item: Any, bounds: tuple[int, int], at: int, flags: int, go_on: Rest) -> int | None:
        least, most = bounds
        count = 0
        wanted = least if name == "MIN_REPEAT" else most
        while count < wanted and self._fits(item, at + count, flags):
            count += 1
        if name == "POSSESSIVE_REPEAT":
            return go_on(at + count) if count >= least else None
        while least <= count <= most:
            end = go_on(at + count)
            if end is not None:
                return end
            if name == "MIN_REPEAT" and not self._fits(item, at + count, flags):
                return None
            count += 1 if name == "MIN_REPEAT" else -1
        return None

    def _fits(self, item: Any, at: int, flags: int) -> bool:
        self.steps += 1
        return at < len(self._text) and _character(_frozen(item), flags, self._text[at])


def _unless(forbidden: int) -> Rest:
    return lambda place: place if place != forbidden else None


def _frozen(item: Any) -> Any:
    return tuple(_frozen(each) for each in item) if isinstance(item, list | tuple) else item


@cache
def _parsed(pattern: str, flags: int) -> Any:
    return _parser.parse(pattern, flags)


@cache
def _character(item: Any, flags: int, char: str) -> bool:
    """Whether the character fits the item, which stands for one."""
    thawed = (item[0], [tuple(each) for each in item[1]] if str(item[0]) == "IN" else item[1])
    return bool(_one_item(thawed, flags).fullmatch(char))


@cache
def _condition(name: str, value: Any, flags: int) -> re.Pattern[str]:
    return _one_item((_constants.AT, value), flags)


def _one_item(item: Any, flags: int) -> re.Pattern[str]:
    state = _parser.State()
    state.flags, state.str = flags, ""
    compiled: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, [item]), flags)
    return compiled


def is_bounded(pattern: re.Pattern[str]) -> bool:
    """Whether nothing in the pattern repeats without end: then each place in a text costs the same, at most."""
    return not _repeats(_parsed(pattern.pattern, pattern.flags))


def _repeats(value: Any) -> bool:
    if isinstance(value, list | tuple | _parser.SubPattern):
        return any(_repeats(each) for each in value)
    return value is _constants.MAXREPEAT


def steps_of(pattern: re.Pattern[str], text: str) -> int:
    """How often the pattern looks at a character or a condition, until it has found all that `finditer` finds."""
    search, before = _Search(pattern, text), sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION)
    try:
        found = search.spans()
    finally:
        sys.setrecursionlimit(before)
    assert found == [match.span() for match in pattern.finditer(text)], (pattern.pattern, text[:100])
    return search.steps
