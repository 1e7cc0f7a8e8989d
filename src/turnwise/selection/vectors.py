"""Encodes texts that are known in advance, with layers of caches: this process, the database, the disk."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from turnwise.facts.errors import EncoderError
from turnwise.matching.match import Phrase
from turnwise.ports.encoder import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.disk_cache import Arrays, IndexCache, Keys, Vectors
    from turnwise.matching.matcher import Matcher
    from turnwise.matching.packed_vectors import PackedVectors

Progress = Callable[[str, int, int], None]
"""Progress callback: (step, done, total). An exception from it stops the work."""

_BATCH = 128
_MOST_AT_ONCE, _MOST_ALONE = 1_000, 10_000
_PART = 25_000
_SURPLUS = 1.05

_RENEW_SECONDS = 5.0
_log = logging.getLogger("turnwise.selection")


class EncodingStopped(EncoderError):
    """Encoding was cancelled: the process is exiting or the `Meaning` was closed."""

    def __init__(self) -> None:
        super().__init__(
            "It was closed before the agents' texts were read.", fix="Create a new one: a closed one cannot be used again."
        )


def encode_checked(texts: Sequence[str], encoder: Encoder) -> "NDArray[np.float32]":
    """Returns one row for each text.

    Raises:
        EncoderError: The encoder failed, or did not return one finite row per text. A NaN in the cache would spoil every
            decision.
    """
    import numpy as np

    rows = np.asarray(encoder.encode(texts))
    expected = (len(texts), encoder.dimensions)
    if rows.shape != expected or rows.dtype.kind != "f" or not np.isfinite(rows).all():
        problem = f"The encoder {encoder.fingerprint!r} gave something else than {expected[0]} rows of {expected[1]} numbers."
        raise EncoderError(problem, fix="See `encode` in turnwise.ports.encoder.")
    return rows.astype(np.float32, copy=False)


def vectors_of(
    texts: Sequence[str], encoder: Encoder, *, cache: "IndexCache | None", progress: Progress
) -> "NDArray[np.float32]":
    """Returns one row of length 1 for each text, as `packed_vectors_of`."""
    return packed_vectors_of(texts, encoder, cache=cache, progress=progress)[:]


def packed_vectors_of(
    texts: Sequence[str], encoder: Encoder, *, cache: "IndexCache | None", progress: Progress, in_parts: bool = False
) -> "PackedVectors":
    """Returns one row for each text, from the cache where possible.

    All rows are rounded to float16, so that they are equal in every process. New rows are cached even when the encoder fails
    half way or `progress` raises.

    Args:
        in_parts: Rows of very many texts are made part by part, as codes, which needs a third of the memory.
    """
    import numpy as np

    if in_parts and len(texts) > _MOST_ALONE:
        return _coded_vectors_of(texts, encoder, cache, progress)

    from turnwise.matching.disk_cache import text_keys
    from turnwise.matching.packed_vectors import PackedVectors

    keys = text_keys(texts)
    unique, indices = np.unique(keys, return_index=True)
    known = None if cache is None else cache.vectors(encoder.fingerprint, encoder.dimensions, unique)
    if known is not None and bool((known.places(unique) >= 0).all()):
        return known.rows.chosen(known.places(keys))
    rows = np.empty((len(unique), encoder.dimensions), np.float16)
    missing = np.ones(len(unique), bool) if known is None else _fill(rows, unique, known)
    del known
    # Texts of similar length share a batch, because some encoders pad all texts to the longest.
    lengths = np.array([len(texts[index]) for index in indices.tolist()])
    places = np.flatnonzero(missing)
    places = places[np.lexsort((places, lengths[places]))]
    done = 0
    try:
        for start in range(0, len(places), _BATCH):
            progress("encoding", done, len(places))
            batch = places[start : start + _BATCH]
            rows[batch] = encode_checked([texts[index] for index in indices[batch].tolist()], encoder)
            done += len(batch)
    finally:
        if cache is not None and done:
            cache.store_vectors(encoder.fingerprint, _at(np.sort(places[:done]), unique, rows))
    if done:
        progress("encoding", done, done)
    return PackedVectors((rows,), np.searchsorted(unique, keys))


class CachedEncoder:
    """An encoder with a disk cache, for texts that are encoded at every start."""

    def __init__(self, encoder: Encoder, cache: "IndexCache | None", progress: Progress) -> None:
        self._encoder, self._cache, self._progress = encoder, cache, progress

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Returns one row for each text, in order, as `vectors_of` does."""
        return vectors_of(texts, self._encoder, cache=self._cache, progress=self._progress)


def stoppable(progress: Progress, stop: threading.Event) -> Progress:
    """Returns a progress callback that raises EncodingStopped when `stop` is set or the program exits."""

    def step(what: str, done: int, total: int) -> None:
        # At exit, the main thread ends before the interpreter joins the other threads.
        if stop.is_set() or not threading.main_thread().is_alive():
            raise EncodingStopped
        progress(what, done, total)

    return step


def no_progress(what: str, done: int, total: int) -> None:
    """Ignores progress."""


class MemoryCache:
    """Vectors of this process. Implements `matching.disk_cache.IndexCache`.

    Args:
        is_alone: There is no other cache, so it keeps all vectors, unless they are very many: the index has those. Otherwise
            it keeps only those of changed agents.
    """

    def __init__(self, is_alone: bool) -> None:
        self._is_alone = is_alone
        self._lock = threading.Lock()
        self._known: Vectors | None = None

    def copy(self) -> "MemoryCache":
        """Returns another cache with the same vectors. Later changes of one do not change the other."""
        made = MemoryCache(self._is_alone)
        made._known = self._known
        return made

    def vectors(self, encoder: str, dimensions: int, keys: "Keys") -> "Vectors":
        """Returns all known vectors: those of other keys, too. Nothing is copied."""
        import numpy as np

        from turnwise.matching.disk_cache import Vectors

        known = self._known
        return Vectors(np.empty(0, "S32"), np.empty((0, dimensions), np.float16)) if known is None else known

    def store_vectors(self, encoder: str, vectors: "Vectors") -> bool:
        """Keeps the vectors, unless they are too many."""
        if len(vectors) > (_MOST_ALONE if self._is_alone else _MOST_AT_ONCE):
            return True
        with self._lock:
            self._known = vectors if self._known is None else self._known.joined(vectors.without(self._known))
        return True

    def retain(self, texts: Sequence[str]) -> None:
        """Drops the vectors of other texts, once they are many."""
        import numpy as np

        from turnwise.matching.disk_cache import Vectors, text_keys

        with self._lock:
            known = self._known
            if known is None or len(known) <= len(texts) * _SURPLUS:
                return
            kept = np.isin(known.keys, text_keys(texts))
            self._known = Vectors(known.keys[kept], known.rows.raw(kept))

    def matcher(self, fingerprint: str) -> None:
        """Keeps no matchers."""

    def store_matcher(self, fingerprint: str, arrays: object) -> None:
        """Keeps no matchers."""

    def remove_matcher(self, fingerprint: str) -> None:
        """Keeps no matchers."""

    def claim(self, fingerprint: str) -> bool:
        """Every process may fit."""
        return True

    def release(self, fingerprint: str) -> None:
        """There are no claims."""


def _coded_vectors_of(
    texts: Sequence[str], encoder: Encoder, cache: "IndexCache | None", progress: Progress
) -> "PackedVectors":
    import numpy as np

    from turnwise.matching.packed_vectors import PackedVectors, coded

    codes = np.empty((len(texts), encoder.dimensions), np.int8)
    # Equal parts: a small last one would also stay in the `MemoryCache`, although the index has its vectors.
    parts = -(-len(texts) // _PART)
    for part in range(parts):
        start, end = (len(texts) * bound // parts for bound in (part, part + 1))
        codes[start:end] = coded(packed_vectors_of(texts[start:end], encoder, cache=cache, progress=progress)).raw()
    return PackedVectors((codes,), np.arange(len(texts)))


def _fill(rows: "NDArray[np.float16]", keys: "NDArray[np.bytes_]", known: "Vectors") -> "NDArray[np.bool_]":
    """Copies the known rows and returns the mask of missing ones."""
    import numpy as np

    places = known.places(keys)
    rows[places >= 0] = known.rows.raw(places[places >= 0])
    return np.asarray(places < 0)


def _at(places: "NDArray[np.intp]", keys: "Keys", rows: "NDArray[np.float16]") -> "Vectors":
    """Returns those rows; without a copy if they are all."""
    from turnwise.matching.disk_cache import Vectors

    return Vectors(keys, rows) if len(places) == len(keys) else Vectors(keys[places], rows[places])


class Claim:
    """The right to fit the heads of some phrases, which one process has at a time."""

    def __init__(self, cache: "IndexCache", fingerprint: str) -> None:
        self.cache, self.fingerprint, self.waited = cache, fingerprint, False
        self._until, self._is_held = 0.0, False

    def renew(self) -> bool:
        """Returns whether this process has the claim. Asks the cache now and then."""
        now = time.monotonic()
        if not self._is_held or now > self._until:
            self._is_held, self._until = self.cache.claim(self.fingerprint), now + _RENEW_SECONDS
        self.waited = self.waited or not self._is_held
        return self._is_held

    def release(self) -> None:
        """Ends the claim, if this process has it."""
        if self._is_held:
            self.cache.release(self.fingerprint)


class LayeredCache:
    """Asks the layers in order, and stores in all of them. Implements `matching.disk_cache.IndexCache`.

    Args:
        layers: The caches, the fastest first.
    """

    def __init__(self, layers: "Sequence[IndexCache]") -> None:
        self._layers = layers

    def vectors(self, encoder: str, dimensions: int, keys: "Keys") -> "Vectors":
        """Returns the known vectors among these keys. Layers that lack some get them."""
        import numpy as np

        from turnwise.matching.disk_cache import Vectors

        missing, found = np.unique(keys), Vectors(np.empty(0, "S32"), np.empty((0, dimensions), np.float16))
        asked: list[IndexCache] = []
        for layer in self._layers:
            if not len(missing):
                break
            more = layer.vectors(encoder, dimensions, missing)
            if len(more):
                for earlier in asked:
                    earlier.store_vectors(encoder, more)
                found = found.joined(more)
                missing = missing[more.places(missing) < 0]
            asked.append(layer)
        return found

    def store_vectors(self, encoder: str, vectors: "Vectors") -> bool:
        """Stores vectors in all layers."""
        done = [layer.store_vectors(encoder, vectors) for layer in self._layers]
        return all(done)

    def matcher(self, fingerprint: str) -> "Arrays | None":
        """Returns the arrays of the matcher from the first layer that has it."""
        for layer in self._layers:
            arrays = layer.matcher(fingerprint)
            if arrays is not None:
                return arrays
        return None

    def store_matcher(self, fingerprint: str, arrays: "Mapping[str, NDArray[np.generic]]") -> None:
        """Stores a matcher in all layers."""
        for layer in self._layers:
            layer.store_matcher(fingerprint, arrays)

    def remove_matcher(self, fingerprint: str) -> None:
        """Removes a matcher from all layers."""
        for layer in self._layers:
            layer.remove_matcher(fingerprint)

    def claim(self, fingerprint: str) -> bool:
        """Returns whether every layer lets this process fit the matcher."""
        return all(layer.claim(fingerprint) for layer in self._layers)

    def release(self, fingerprint: str) -> None:
        """Ends the claims."""
        for layer in self._layers:
            layer.release(fingerprint)


def cached_matcher(cache: "IndexCache", fingerprint: str, phrases: tuple[Phrase, ...], dimensions: int) -> "Matcher | None":
    """Returns the cached fitted matcher; None when there is none that works."""
    import numpy as np

    from turnwise.matching.matcher import Matcher

    arrays = cache.matcher(fingerprint)
    if arrays is None:
        return None
    try:
        matcher = Matcher.from_arrays(phrases, arrays)
        # Tests it once: inconsistent parts would otherwise fail at every message, and after every restart.
        tried = matcher.match("hello", np.full(dimensions, dimensions**-0.5, np.float32))
        if not np.isfinite([*tried.probabilities, tried.novelty]).all():
            raise ValueError("no numbers")
        return matcher
    except (KeyError, ValueError, IndexError, TypeError) as problem:
        _log.info("A kept matcher cannot be used (%s) and is fitted again.", type(problem).__name__)
        cache.remove_matcher(fingerprint)
        return None
