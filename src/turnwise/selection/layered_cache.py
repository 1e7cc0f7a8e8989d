"""The caches of phrases' vectors and fitted matchers as one: this process, the database, the disk."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from turnwise.matching.match import Phrase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.disk_cache import Arrays, IndexCache, Keys, Vectors
    from turnwise.matching.matcher import Matcher


_RENEW_SECONDS = 5.0
_log = logging.getLogger("turnwise.selection")


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
