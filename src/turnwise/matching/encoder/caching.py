"""An in-memory cache around an encoder."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST = 2_000


class _Encoder(Protocol):
    """The part of `ports.encoder` used here; this layer may not import ports."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def is_local(self) -> bool: ...

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]": ...


class CachingEncoder:
    """An encoder with an LRU cache around another one. Safe to share between threads.

    Caches the `capacity` most recent texts with their vectors (about 2 KB each). Texts of more than 2,000 characters are not
    cached. Two threads may encode the same text at the same time; both get the same vector.
    """

    def __init__(self, encoder: _Encoder, capacity: int = 10_000) -> None:
        self._encoder = encoder
        self._capacity = capacity
        self._lock = threading.Lock()
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def __repr__(self) -> str:
        return f"CachingEncoder({self._encoder!r}, capacity={self._capacity})"

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    @property
    def dimensions(self) -> int:
        return self._encoder.dimensions

    @property
    def is_local(self) -> bool:
        return self._encoder.is_local

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages that the wrapped encoder names, as in `ports.encoder`."""
        return getattr(self._encoder, "languages", None)

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Returns one row for each text, in order. The caller owns the array. Errors of the wrapped encoder propagate."""
        import numpy as np

        found: dict[str, NDArray[np.float32]] = {}
        with self._lock:
            for text in texts:
                if (known := self._vectors.get(text)) is not None:
                    self._vectors.move_to_end(text)
                    found[text] = known
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            found.update(zip(missing, self._encoder.encode(missing), strict=True))
            self._store({text: found[text].copy() for text in missing if len(text) <= _LONGEST})
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = found[text]
        return vectors

    def _store(self, vectors: "dict[str, NDArray[np.float32]]") -> None:
        with self._lock:
            self._vectors.update(vectors)
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)
