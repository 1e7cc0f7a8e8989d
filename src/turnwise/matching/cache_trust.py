"""Which files of the cache count: those that this user wrote, in a folder that nobody else may write to.

Whoever can change what is fitted to the agents can change who answers. So the folder's owner and permissions are checked,
and each file begins with a keyed hash of its name and content. The key is a file of the folder that only its owner may read.
"""

import contextlib
import functools
import hmac
import logging
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

DIGEST_BYTES = 32
KEY_FILE = "key"
_KEY_BYTES = 32
_PIECE_BYTES = 1 << 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_USE = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger("turnwise.matching")


class Untrusted(ValueError):
    """A file that this user did not write as it is."""


def folder_problem(folder: Path) -> str | None:
    """Why the folder cannot be trusted; None when it can be, or does not exist. OSError when it cannot be looked at."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    if not _has_owners():
        return None
    if status.st_uid != os.geteuid():
        return f"it belongs to the user with the id {status.st_uid}; name a folder of your own"
    if status.st_mode & _OTHERS_WRITE:
        return f"other users may write to it; run `chmod go-w {folder}`"
    return None


def check_owner(file: BinaryIO, forbidden: int = _OTHERS_WRITE) -> None:
    """Raises Untrusted when another user owns the open file, or has one of the forbidden permissions."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise Untrusted("it is no regular file")
    if not _has_owners():
        return
    if status.st_uid != os.geteuid():
        raise Untrusted(f"it belongs to the user with the id {status.st_uid}")
    if status.st_mode & forbidden:
        raise Untrusted(f"its permissions are {stat.S_IMODE(status.st_mode):o}")


def digest_of(file: BinaryIO, key: bytes, name: str) -> bytes:
    """The keyed hash of the file's name, and of its content from `DIGEST_BYTES` on."""
    digest = hmac.new(key, name.encode() + b"\0", "sha256")
    file.seek(DIGEST_BYTES)
    for piece in iter(functools.partial(file.read, _PIECE_BYTES), b""):
        digest.update(piece)
    return digest.digest()


def check_digest(file: BinaryIO, key: bytes, name: str) -> None:
    """Raises Untrusted when the content is not what was written under this name; else leaves the file behind its hash."""
    file.seek(0)
    written = file.read(DIGEST_BYTES)
    if not hmac.compare_digest(written, digest_of(file, key, name)):
        raise Untrusted("its content is not what was written")
    file.seek(DIGEST_BYTES)


def read_key(folder: Path) -> bytes | None:
    """The key of the folder's files; None when there is none that counts."""
    try:
        with open(folder / KEY_FILE, "rb") as file:
            check_owner(file, _OTHERS_USE)
            key = file.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, Untrusted) as problem:
        _log.warning("The key of the cache %s cannot be used (%s). A new one is made.", folder, problem)
        return None
    return key if len(key) == _KEY_BYTES else None


def make_key(folder: Path) -> bytes:
    """The folder's key, which is made if there is none that counts. Of processes that make one at once, one wins. OSError."""
    found = read_key(folder)
    if found is not None:
        return found
    handle, name = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=folder)
    try:
        made = os.urandom(_KEY_BYTES)
        with open(handle, "wb") as file:
            file.write(made)
        _name_key(Path(name), folder / KEY_FILE)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
    return read_key(folder) or made


def _name_key(made: Path, place: Path) -> None:
    """Gives the new key its name, unless another process was faster with one that counts."""
    try:
        os.link(made, place)
    except FileExistsError:
        if read_key(place.parent) is None:
            os.replace(made, place)
    except OSError:
        os.replace(made, place)  # a file system without links


def _has_owners() -> bool:
    return hasattr(os, "geteuid")
