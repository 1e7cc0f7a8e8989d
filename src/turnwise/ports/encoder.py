"""The protocol of an encoder, which turns texts into vectors that are close when the texts mean much the same."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Encoder(Protocol):
    """Encodes texts as vectors. Safe to share between threads. Equal texts get equal vectors in every process.

    An encoder may also have `languages`: the ISO 639-1 codes of the languages that it knows. Messages in other languages are
    not read by meaning. Without it, or with None, the encoder counts as knowing all.
    """

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


def languages_of(encoder: Encoder) -> frozenset[str] | None:
    """Returns the languages that the encoder names; None when it names none, and so counts as knowing all."""
    languages: Collection[str] | None = getattr(encoder, "languages", None)
    return None if languages is None else frozenset(languages)
