"""What turns texts into vectors that lie close together when the texts mean much the same."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Encoder(Protocol):
    """Safe to share between threads. Equal texts give equal vectors, in every process."""

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: two encoders with one fingerprint give the same vector for the same text."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether encoding one text is about a millisecond's work of this process. False: it waits for somebody else, so
        who decides asks it in a thread."""
        ...

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row a text, in their order, each of length 1; an empty text has a vector too.

        Any text is allowed; what is too long is read from the beginning. EncoderError when it cannot.
        """
        ...
