"""Caches of phrases' vectors and fitted matchers: their protocol, and a disk cache. Every cached value can be computed again.

The disk cache is a folder of `.npz` files that can be deleted at any time. Files contain no texts: the key of a text is the
first half of its SHA-256. Files are immutable; each is written under a temporary name and renamed atomically, so several
processes may start at once. A file that is damaged, truncated, or written or changed by another user is ignored and
created again.
"""

import contextlib
import functools
import hashlib
import hmac
import logging
import os
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import platformdirs
from numpy.typing import NDArray

from turnwise.matching.packed_vectors import Packed, PackedVectors

DIGEST_BYTES = 32
KEY_FILE = "key"
_KEY_BYTES = 32
_CHUNK_BYTES = 1 << 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_USE = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger("turnwise.matching")

VARIABLE = "TURNWISE_CACHE"
LIMIT_BYTES = 1_000_000_000

_FORMAT = "turnwise 2"
# A flipped bit can mark a part as encrypted or compressed by an unknown method (RuntimeError), or as huge (MemoryError).
_DAMAGE = (OSError, LookupError, ValueError, TypeError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)
_SEGMENTS = 8
_STALE_SECONDS = 3_600.0
_TOUCHED_SECONDS = 86_400.0
_SUFFIX = ".npz"
_ZIP = b"PK\x03\x04"
_warned: set[str] = set()

Arrays = dict[str, NDArray[np.generic]]
Keys = NDArray[np.bytes_]


def folder_from_environment() -> Path | None:
    """Returns the cache folder: `TURNWISE_CACHE`, else the system's cache folder. None when the variable is `off`."""
    setting = os.environ.get(VARIABLE, "").strip()
    if setting.casefold() == "off":
        return None
    if setting:
        return Path(setting).expanduser()
    with contextlib.suppress(RuntimeError):  # the user has no home directory
        return platformdirs.user_cache_path("turnwise", appauthor=False)
    return None


@functools.cache
def version() -> str:
    """Returns twelve hexadecimal digits that identify this package's code and data. Matchers of others are fitted again."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *(here / "data").glob("strangers.*")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def text_keys(texts: Iterable[str]) -> Keys:
    """Returns the texts' cache keys, 32 hexadecimal digits each."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32] for text in texts]
    return np.array(digests, "S32")


class Vectors:
    """Vectors of texts by key, as float16: half the memory, with an error of 0.0001 in a cosine. Immutable.

    Args:
        keys: The keys, each once.
        rows: Their rows. They are not copied.
    """

    def __init__(self, keys: Keys, rows: Packed) -> None:
        self._set(keys, (rows,), np.arange(len(keys)))

    def _set(self, keys: Keys, blocks: Sequence[Packed], numbers: NDArray[np.intp]) -> None:
        if bool((keys[:-1] > keys[1:]).any()):
            order = np.argsort(keys, kind="stable")
            keys, numbers = keys[order], numbers[order]
        self.keys, self.rows = keys, PackedVectors(blocks, numbers)

    def __len__(self) -> int:
        return len(self.keys)

    def places(self, keys: Keys) -> NDArray[np.intp]:
        """Returns the index of each key's row; -1 for missing keys."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.intp)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)

    def without(self, other: "Vectors") -> "Vectors":
        """Returns the vectors with keys that the other ones lack."""
        new = other.places(self.keys) < 0
        return self if bool(new.all()) else Vectors(self.keys[new], self.rows.raw(new))

    def joined(self, other: "Vectors") -> "Vectors":
        """Returns both together, which have no key in common. Rows are copied only of many small parts."""
        if not len(self) or not len(other):
            return self if len(self) else other
        made = Vectors.__new__(Vectors)
        blocks, numbers = self.rows.beside(other.rows)
        made._set(np.concatenate([self.keys, other.keys]), blocks, numbers)
        return made


class IndexCache(Protocol):
    """Its methods are called from threads. They do not raise: an unusable cache acts as an empty one."""

    def vectors(self, encoder: str, dimensions: int, keys: Keys) -> Vectors:
        """Returns the cached vectors among these keys (`text_keys`)."""
        ...

    def store_vectors(self, encoder: str, vectors: Vectors) -> bool:
        """Stores vectors and returns whether that succeeded."""
        ...

    def matcher(self, fingerprint: str) -> Arrays | None:
        """Returns the arrays of the matcher with this fingerprint; None when there is none."""
        ...

    def store_matcher(self, fingerprint: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Stores a matcher's arrays."""
        ...

    def remove_matcher(self, fingerprint: str) -> None:
        """Removes a matcher with invalid arrays."""
        ...

    def claim(self, fingerprint: str) -> bool:
        """Returns whether this process fits that matcher; others wait for it. The claim ends after a while: repeat it."""
        ...

    def release(self, fingerprint: str) -> None:
        """Ends the claim."""
        ...


class DiskCache:
    """A folder of cached vectors and matchers. Its methods do not raise: an unusable folder acts as an empty cache.

    A folder that belongs to another user, or that others may write to, is neither read nor written; this is logged once. The
    folder and its parents are created at the first write. Above `limit` bytes, the least recently used files are removed.
    """

    def __init__(self, folder: Path, *, limit: int = LIMIT_BYTES) -> None:
        self._folder, self._limit = folder, limit

    def matcher(self, fingerprint: str) -> Arrays | None:
        """Returns the arrays of the matcher with this fingerprint; None when there is none."""
        return self._read(self._path("matcher", fingerprint))

    def store_matcher(self, fingerprint: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Stores a matcher's arrays."""
        self._write(self._path("matcher", fingerprint), arrays)

    def remove_matcher(self, fingerprint: str) -> None:
        """Removes a matcher with readable but invalid arrays."""
        _remove(self._path("matcher", fingerprint))

    def claim(self, fingerprint: str) -> bool:
        """Every process may fit."""
        return True

    def release(self, fingerprint: str) -> None:
        """There are no claims."""

    def vectors(self, encoder: str, dimensions: int, keys: Keys) -> Vectors:
        """Returns the cached vectors among these keys. Files that share a key hold the same row for it."""
        missing, whole, used = np.unique(keys), Vectors(np.empty(0, "S32"), np.empty((0, dimensions), np.float16)), []
        for path in self._segments(encoder):
            if not len(missing):
                break
            found = self._segment(path, dimensions, missing)
            if found is not None and len(found):
                used.append(path)
                whole = whole.joined(found)
                missing = missing[found.places(missing) < 0]
        if len(used) > _SEGMENTS and self.store_vectors(encoder, whole):
            self._remove_covered(used, whole)
        return whole

    def store_vectors(self, encoder: str, vectors: Vectors) -> bool:
        """Stores vectors and returns whether that succeeded."""
        content = hashlib.sha256(vectors.keys.tobytes()).hexdigest()[:12]
        path = self._path(f"vectors-{_short(encoder)}", content)
        return self._write(path, {"keys": vectors.keys, "rows": vectors.rows.raw()})

    def _path(self, kind: str, fingerprint: str) -> Path:
        return self._folder / f"{kind}-{_short(fingerprint)}{_SUFFIX}"

    def _segments(self, encoder: str) -> list[Path]:
        """Returns the encoder's vector files, largest first, so that few files need to be read."""
        with contextlib.suppress(OSError):
            sizes = {path: path.stat().st_size for path in self._folder.glob(f"vectors-{_short(encoder)}-*{_SUFFIX}")}
            return sorted(sizes, key=lambda path: (-sizes[path], path.name))
        return []

    def _remove_covered(self, used: Sequence[Path], whole: Vectors) -> None:
        """Removes the files that a larger file covers completely."""
        for path in used:
            arrays = self._read(path, ("keys",))
            if arrays is not None and len(arrays["keys"]) < len(whole):
                covered = whole.places(arrays["keys"].astype("S32"))
                if bool((covered >= 0).all()):
                    _remove(path)

    def _write(self, path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> bool:
        """Writes arrays as a signed file, by rename, and evicts old files. Returns whether it did; logs a failure once."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_trusted():
                return False
            key = make_key(self._folder)
            handle, name = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=self._folder)
            try:
                with open(handle, "w+b") as file:
                    file.write(bytes(DIGEST_BYTES))
                    np.savez(file, **{"format": np.array(_FORMAT), **arrays})  # type: ignore[arg-type]
                    digest = digest_of(file, key, path.name)
                    file.seek(0)
                    file.write(digest)
                os.replace(name, path)
            except BaseException:
                _remove(Path(name))
                raise
            self._evict(path)
        except OSError as problem:
            self._warn_once(str(problem.strerror))
            return False
        return True

    def _is_trusted(self) -> bool:
        """Returns whether only this user can have put files here."""
        try:
            problem = folder_problem(self._folder)
        except OSError:
            return False
        if problem is not None:
            self._warn_once(problem)
        return problem is None

    def _warn_once(self, problem: str) -> None:
        if str(self._folder) not in _warned:
            _warned.add(str(self._folder))
            _log.warning("Nothing can be kept in %s (%s): work is repeated at every start.", self._folder, problem)

    def _segment(self, path: Path, dimensions: int, wanted: Keys) -> Vectors | None:
        """Returns the wanted vectors of a file; None when it is missing or damaged."""
        arrays = self._read(path, ("keys", "rows"))
        if arrays is None:
            return None
        keys, rows = arrays["keys"], arrays["rows"]
        if keys.dtype != np.dtype("S32") or rows.dtype != np.float16 or rows.shape != (len(keys), dimensions):
            _remove(path)
            return None
        picked = np.isin(keys, wanted)
        texts, packed = keys.astype("S32", copy=False), rows.astype(np.float16, copy=False)
        return Vectors(texts, packed) if bool(picked.all()) else Vectors(texts[picked], packed[picked])

    def _read(self, path: Path, names: Sequence[str] | None = None) -> Arrays | None:
        """Returns the arrays of a file; None when it is missing. Damaged and untrusted files are removed."""
        if not path.is_file() or not self._is_trusted():
            return None
        key = read_key(self._folder)
        try:
            with open(path, "rb") as opened:
                arrays = _load_checked(opened, key, path.name, names)
        except FileNotFoundError:
            return None
        except Untrusted as problem:
            _log.warning("%s is not used, for %s. It is made again.", path, problem)
            _remove(path)
            return None
        except _DAMAGE as problem:
            _log.info("%s cannot be used (%s) and is made again.", path.name, type(problem).__name__)
            _remove(path)
            return None
        _mark_used(path)
        return arrays

    def _evict(self, written: Path) -> None:
        """Removes the least recently used files until the cache is below its limit, and stale temporary files."""
        now = time.time()
        cached: list[tuple[float, int, Path]] = []
        for path in sorted(self._folder.iterdir()):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.suffix == ".tmp" and path.name.startswith("new-") and now - status.st_mtime > _STALE_SECONDS:
                    _remove(path)
                elif path.suffix == _SUFFIX and path.name.startswith(("vectors-", "matcher-")):
                    cached.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in cached)
        for _, size, path in sorted(cached):
            if total <= self._limit:
                break
            if path != written:
                _remove(path)
                total -= size


class Untrusted(ValueError):
    """The file or its owner and permissions do not match what this user wrote."""


def folder_problem(folder: Path) -> str | None:
    """Returns why the folder cannot be trusted; None when it can be or does not exist.

    Raises:
        OSError: The folder cannot be inspected.
    """
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
    """Raises Untrusted when another user owns the open file, or its mode has one of the `forbidden` bits."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise Untrusted("it is not a regular file")
    if not _has_owners():
        return
    if status.st_uid != os.geteuid():
        raise Untrusted(f"it belongs to the user with the id {status.st_uid}")
    if status.st_mode & forbidden:
        raise Untrusted(f"its permissions are {stat.S_IMODE(status.st_mode):o}")


def digest_of(file: BinaryIO, key: bytes, name: str) -> bytes:
    """Returns the keyed hash of the file's name and of its content after the first `DIGEST_BYTES`."""
    digest = hmac.new(key, name.encode() + b"\0", "sha256")
    file.seek(DIGEST_BYTES)
    for piece in iter(functools.partial(file.read, _CHUNK_BYTES), b""):
        digest.update(piece)
    return digest.digest()


def check_digest(file: BinaryIO, key: bytes, name: str) -> None:
    """Raises Untrusted when the content differs from the content written under this name.

    Otherwise leaves the file positioned after its hash.
    """
    file.seek(0)
    written = file.read(DIGEST_BYTES)
    if not hmac.compare_digest(written, digest_of(file, key, name)):
        raise Untrusted("its content is not what was written")
    file.seek(DIGEST_BYTES)


def read_key(folder: Path) -> bytes | None:
    """Returns the key of the folder's files; None when there is no valid one."""
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
    """Returns the folder's key, creating one if there is no valid key. If several processes create one at once, one wins.

    Raises:
        OSError: The key cannot be written.
    """
    found = read_key(folder)
    if found is not None:
        return found
    handle, name = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=folder)
    try:
        new_key = os.urandom(_KEY_BYTES)
        with open(handle, "wb") as file:
            file.write(new_key)
        _publish_key(Path(name), folder / KEY_FILE)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
    return read_key(folder) or new_key


def _publish_key(new_key: Path, place: Path) -> None:
    """Moves the new key into place, unless another process has stored a valid one meanwhile."""
    try:
        os.link(new_key, place)
    except FileExistsError:
        if read_key(place.parent) is None:
            os.replace(new_key, place)
    except OSError:
        os.replace(new_key, place)  # a file system without links


def _has_owners() -> bool:
    return hasattr(os, "geteuid")


def _load_checked(opened: BinaryIO, key: bytes | None, name: str, names: Sequence[str] | None) -> Arrays:
    """Reads the arrays of an open file after checking its owner and digest. Raises Untrusted or one of `_DAMAGE`."""
    check_owner(opened)
    if opened.read(len(_ZIP)) == _ZIP:
        raise ValueError("another format")  # an older version without hashes
    if key is None:
        raise Untrusted("there is no key to check it with")
    check_digest(opened, key, name)
    with np.load(opened, allow_pickle=False) as file:
        if str(file["format"]) != _FORMAT:
            raise ValueError("another format")
        return {name: file[name] for name in (names or file.files) if name != "format"}


def _mark_used(path: Path) -> None:
    """Updates the file's modification time, at most once a day."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _TOUCHED_SECONDS:
            os.utime(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _short(fingerprint: str) -> str:
    """Returns a hash of the fingerprint that is safe in a file name."""
    return hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
