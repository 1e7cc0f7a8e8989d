"""Texts that a pattern means to match, drawn from its expression: `\\b(where|track)\\b.*order` gives "where order"."""

import re
from collections.abc import Iterable
from itertools import islice, product

SAMPLES = 16
_CLASSES = {"d": "7", "w": "a", "s": " ", "D": "a", "W": " ", "S": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_NOTHING = frozenset("bBAzQE")
_MOST_REPEATS = 20
_GROUP = re.compile(r"\?(?:[imsU-]*[:)]|P?<\w+>)")


class _Reader:
    """Reads an expression from left to right. It knows the common parts of RE2's syntax; the rest raises ValueError."""

    def __init__(self, regex: str) -> None:
        self._regex, self._at = regex, 0

    def alternatives(self) -> list[str]:
        """The samples of what is left, up to a closing parenthesis or the end."""
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
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign == "[":
            return [self._class()]
        if sign == "\\":
            return [self._escape()]
        if sign in "^$":
            return [""]
        return [" " if sign == "." else sign]

    def _group(self) -> list[str]:
        if self._next_is("?"):
            head = _GROUP.match(self._regex, self._at)
            if head is None:
                raise ValueError("not known")
            self._at = head.end()
            if head[0].endswith(")"):  # flags for what follows
                return [""]
        found = self.alternatives()
        if self._take() != ")":
            raise ValueError("a parenthesis too few")
        return found

    def _class(self) -> str:
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
        while self._at < len(self._regex) and self._regex[self._at] in "*+?{":
            sign = self._take()
            if sign == "?":
                found = _few([*found, ""])
            elif sign == "*" and found != [" "]:  # a gap between words stays one, or they would be one word
                found = [""]
            elif sign == "{":
                found = self._counted(found)
            if self._next_is("?"):
                self._at += 1
        return found

    def _counted(self, found: list[str]) -> list[str]:
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


def samples_of(regex: str) -> tuple[str, ...]:
    """A few texts that the expression is likely to match, at most 16; none for what this does not understand."""
    try:
        found = _Reader(regex).whole()
    except (ValueError, RecursionError):
        return ()
    readable = (" ".join(text.split()) for text in found)
    return tuple(dict.fromkeys(text for text in readable if any(sign.isalnum() for sign in text)))


def _few(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(islice(texts, SAMPLES)))
