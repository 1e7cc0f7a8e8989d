"""Encodes texts that are known in advance, with a cache on disk."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from turnwise.facts.errors import EncoderError
from turnwise.ports.encoder import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.disk_cache import IndexCache, Keys, Vectors
    from turnwise.matching.packed_vectors import PackedVectors

Progress = Callable[[str, int, int], None]
"""Progress callback: (step, done, total). An exception from it stops the work."""

_BATCH = 128
_MOST_AT_ONCE, _MOST_ALONE = 1_000, 10_000
_PART = 25_000
_SURPLUS = 1.05


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
