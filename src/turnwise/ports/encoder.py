"""The protocol of an encoder, which turns texts into vectors that are close when the texts mean much the same."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Encoder(Protocol):
    """Encodes texts as vectors. Safe to share between threads. Equal texts get equal vectors in every process."""

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: two encoders with the same fingerprint give the same vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    @property
    def is_local(self) -> bool:
        """True if one text takes about a millisecond of local work. False if the encoder waits for a service; it is then
        called in a thread.
        """
        ...

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Returns one row per text, in order, each of length 1. An empty text has a vector, too.

        Accepts any text; one that is too long is truncated at the end. Raises EncoderError.
        """
        ...
