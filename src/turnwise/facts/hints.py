"""Hints in error messages: the closest known name, and how to install a missing extra of this package."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from itertools import accumulate
from urllib.parse import unquote, urlsplit

NAME_SHOWN = 200
"""The number of characters of a name that are compared and shown."""
NAMES_SHOWN, CHARACTERS_SHOWN = 20, 500
"""The maximum number of suggested names, and of characters in all of them."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Returns a sentence with the closest known name, or else with the first known names."""
    names = list(known)
    close = _closest_name(given[:NAME_SHOWN], names)
    if close is not None:
        return f"Did you mean {close!r}?"
    if not names:
        return "There are none."
    shown = _first_names([name[:NAME_SHOWN] for name in names[:NAMES_SHOWN]])
    more = f", … ({len(names):,} in all)" if len(shown) < len(names) else ""
    return f"Known: {', '.join(shown)}{more}."


def _closest_name(given: str, names: Sequence[str]) -> str | None:
    """Returns the closest name, matching case first."""
    close = difflib.get_close_matches(given, names, n=1)
    if close:
        return close[0]
    folded = {name.casefold(): name for name in names}
    return next((folded[each] for each in difflib.get_close_matches(given.casefold(), folded, n=1)), None)


def _first_names(names: Sequence[str]) -> Sequence[str]:
    """Returns the first names that fit into CHARACTERS_SHOWN."""
    return names[: sum(length <= CHARACTERS_SHOWN for length in accumulate(map(len, names)))]


UNKNOWN = "file:///PATH"
"""Stands for the wheel or the checkout if the installation does not say where it came from."""


def install_command(extras: Iterable[str]) -> str:
    """Returns the command that adds these extras to this installation, from the same wheel or checkout."""
    url, is_editable = _origin()
    names = ",".join(extras)
    if is_editable:
        return f"pip install -e '{unquote(urlsplit(url).path)}[{names}]'"
    return f"pip install 'turnwise[{names}] @ {url}'"


def install_hint(extras: Iterable[str]) -> str:
    """Returns the fix of an error about a missing extra: the command, and what PATH means if it has one."""
    command = install_command(extras)
    note = " (PATH is the wheel, or a checkout)" if UNKNOWN in command else ""
    return f"Install it with: {command}{note}"


def _origin() -> tuple[str, bool]:
    """Returns the URL that pip installed from, and whether as an editable checkout."""
    try:
        recorded = json.loads(distribution("turnwise").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        recorded = {}
    # pip records a user and password of the URL, too.
    url = re.sub(r"//[^/@]*@", "//", recorded.get("url", UNKNOWN))
    return url, bool(recorded.get("dir_info", {}).get("editable"))
