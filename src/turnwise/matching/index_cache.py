"""The protocol of caches for phrases' vectors and fitted matchers. Every cached value can be computed again."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.disk_cache import Arrays, Keys, Vectors


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
