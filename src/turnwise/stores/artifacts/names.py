"""Artifact names, and their paths in a tree of folders or object keys.

The tree is `<app>/<user>/user/<name>/<version>` for artifacts that a user's sessions share, and
`<app>/<user>/sessions/<session>/<name>/<version>` for the others. Every part is encoded, so that no name or id can leave its
folder or collide with another.
"""

import hashlib
import re
import unicodedata
from urllib.parse import quote

from turnwise.facts.errors import ArtifactError, ArtifactName, ArtifactTooLarge
from turnwise.facts.limits import Limits
from turnwise.facts.sessions import USER_PREFIX, SessionKey

NAME_BYTES = 255
MAX_BYTES = Limits().blob_bytes
PathParts = tuple[str, ...]

# Longer parts are cut and end in a hash: file systems allow 255 bytes a part, object stores 1,024 for the whole key.
_PART_BYTES, _PREFIX_BYTES = 200, 150
_MIME_TYPE = re.compile(r"[!-~][ -~]{0,254}")
_DRIVE = re.compile(r"[A-Za-z]:/")


def check_name(name: str) -> str:
    """Returns the name of an artifact (behaviour A28).

    A name has 1 to 255 bytes in UTF-8, not counting the prefix `user:`. Slashes may divide it like a relative path.

    Raises:
        ArtifactName: The name is not valid; the error says why.
    """
    bare = name.removeprefix(USER_PREFIX)
    problem = _problem(bare)
    if problem:
        raise ArtifactName(
            f"The artifact name {_display(name)} {problem}.",
            fix=f"Use 1 to {NAME_BYTES} bytes, such as 'report.pdf' or 'user:letters/2026.txt'.",
        )
    return name


def _problem(bare: str) -> str:
    """Returns why the name cannot be stored; empty if it can."""
    if not bare:
        return "is empty"
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in bare):
        return "has a control character or half of a surrogate pair"
    if len(bare.encode()) > NAME_BYTES:
        return f"is longer than {NAME_BYTES} bytes"
    if "\\" in bare:
        return "has a backslash"
    if bare.startswith("/") or _DRIVE.match(bare):
        return "is an absolute path"
    if {"", ".", ".."} & set(bare.split("/")):
        return "has a part that is empty, '.' or '..'"
    return ""


def _display(name: str) -> str:
    return ascii(name if len(name) <= 80 else name[:79] + "…")


def check_artifact(name: str, size: int, mime_type: str, max_bytes: int) -> None:
    """Validates an artifact before it is saved.

    Raises:
        ArtifactName: The name is not valid.
        ArtifactTooLarge: The data has more than `max_bytes`.
        ArtifactError: The MIME type is not valid.
    """
    check_name(name)
    if size > max_bytes:
        raise ArtifactTooLarge(
            f"The artifact {_display(name)} has {size:,} bytes, more than the {max_bytes:,} allowed.",
            fix="Save less, or raise the store's max_bytes.",
        )
    if not _MIME_TYPE.fullmatch(mime_type):
        raise ArtifactError(
            f"The MIME type {_display(mime_type)} of the artifact {_display(name)} is empty, too long or not plain ASCII.",
            fix="Use one such as 'text/plain'.",
        )


def encode(part: str) -> str:
    """Returns a name or id as one part of a path: ASCII, at most 200 bytes, injective, never empty, `.` or `..`."""
    quoted = quote(part, safe="", errors="surrogatepass").replace("~", "%7E") or "%"
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) <= _PART_BYTES:
        return quoted
    digest = hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{quoted[:_PREFIX_BYTES]}~{digest[:40]}"


def user_path(app: str, user: str) -> PathParts:
    """Returns the path of everything that belongs to a user."""
    return encode(app), encode(user)


def session_path(key: SessionKey) -> PathParts:
    """Returns the path of the session's own artifacts."""
    return *user_path(key.app, key.user), "sessions", encode(key.id)


def shared_path(key: SessionKey) -> PathParts:
    """Returns the path of the artifacts that the user's sessions share."""
    return *user_path(key.app, key.user), "user"


def artifact_path(key: SessionKey, name: str) -> PathParts:
    """Returns the path of an artifact's versions. ArtifactName for a name that is not valid."""
    bare = check_name(name).removeprefix(USER_PREFIX)
    return *(session_path(key) if bare == name else shared_path(key)), encode(bare)
