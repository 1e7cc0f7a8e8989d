"""Which versions of the protocol are spoken."""

import re

from a2a.utils.errors import VersionNotSupportedError

SPOKEN = "1.0"
HEADER = "A2A-Version"

_SPOKEN = re.compile(r"1\.0(\.[0-9]{1,6})?")
_SHOWN = 20


def check_version(asked: str | None) -> None:
    """VersionNotSupportedError unless that is spoken here. Patch numbers do not count; nothing means 0.3, by the protocol."""
    text = (asked or "").strip()
    if _SPOKEN.fullmatch(text):
        return
    told = (
        f"Version {text[:_SHOWN]!r} of A2A is not spoken here." if text else f"Without {HEADER}, a request is one of A2A 0.3."
    )
    raise VersionNotSupportedError(f"{told} Send the header {HEADER}: {SPOKEN}.", data={"supported": SPOKEN})
