"""How to install an extra of this package: the one place that knows. Turnwise is on no package index."""

import json
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

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
