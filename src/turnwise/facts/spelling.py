"""What was probably meant by a name that is not there."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import accumulate

NAME_SHOWN = 200
"""So many characters of a name are looked at, and told."""
NAMES_SHOWN, CHARACTERS_SHOWN = 20, 500
"""So many names are told, and so many characters of them in all."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence that names what was probably meant, or else what there is; of much, the first names."""
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
    """As it is written, or else whatever the case of its letters."""
    close = difflib.get_close_matches(given, names, n=1)
    if close:
        return close[0]
    folded = {name.casefold(): name for name in names}
    return next((folded[each] for each in difflib.get_close_matches(given.casefold(), folded, n=1)), None)


def _first(names: Sequence[str]) -> Sequence[str]:
    """So many of them that they are not too long together."""
    return names[: sum(length <= CHARACTERS_SHOWN for length in accumulate(map(len, names)))]
