"""Suggests known names for an unknown one, for error messages."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import accumulate

NAME_SHOWN = 200
"""The number of characters of a name that are compared and shown."""
NAMES_SHOWN, CHARACTERS_SHOWN = 20, 500
"""The maximum number of suggested names, and of characters in all of them."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Returns a sentence with the closest known name, or else with the first known names."""
    names = list(known)
    close = _closest(given[:NAME_SHOWN], names)
    if close is not None:
        return f"Did you mean {close!r}?"
    if not names:
        return "There are none."
    shown = _first([name[:NAME_SHOWN] for name in names[:NAMES_SHOWN]])
    more = f", … ({len(names):,} in all)" if len(shown) < len(names) else ""
    return f"Known: {', '.join(shown)}{more}."


def _closest(given: str, names: Sequence[str]) -> str | None:
    """Returns the closest name, matching case first."""
    close = difflib.get_close_matches(given, names, n=1)
    if close:
        return close[0]
    folded = {name.casefold(): name for name in names}
    return next((folded[each] for each in difflib.get_close_matches(given.casefold(), folded, n=1)), None)


def _first(names: Sequence[str]) -> Sequence[str]:
    """Returns the first names that fit into CHARACTERS_SHOWN."""
    return names[: sum(length <= CHARACTERS_SHOWN for length in accumulate(map(len, names)))]
