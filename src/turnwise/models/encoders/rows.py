"""What others say is a vector for each text, checked."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from turnwise.facts.errors import EncoderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class AskingEncoder(ABC):
    """What encoders that ask others have in common: they learn from the first answer how many numbers a vector has, unless
    they were told, and hold all others to it.
    """

    def __init__(self, dimensions: int | None) -> None:
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            self.encode(["dimensions"])
        return cast(int, self._dimensions)

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row a text, in their order, made of length 1. EncoderError when who is asked fails, or gives something else."""
        import numpy as np

        return self._asked(list(texts)) if texts else np.empty((0, self.dimensions), np.float32)

    @abstractmethod
    def _asked(self, texts: list[str]) -> "NDArray[np.float32]":
        """The rows of at least one text, `_checked`."""

    def _checked(self, answer: Any, texts: list[str], who: str) -> "NDArray[np.float32]":
        rows = checked(answer, count=len(texts), dimensions=self._dimensions, who=who)
        self._dimensions = rows.shape[1]
        return rows


def checked(answer: Any, *, count: int, dimensions: int | None, who: str) -> "NDArray[np.float32]":
    """`answer` as `count` rows of length 1, with `dimensions` columns unless that is None.

    A row of zeros says nothing of its text; it becomes the row whose numbers are all the same. EncoderError names `who`
    when the answer is no table of finite numbers of that shape.
    """
    import numpy as np

    fix = f"It must give {count} row(s) of {dimensions or 'equally many'} finite numbers, one row a text."
    try:
        rows = np.array(answer, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EncoderError(f"{who} gave something else than a table of numbers.", fix=fix) from error
    if rows.ndim != 2 or rows.shape[0] != count or rows.shape[1] == 0 or dimensions not in (None, rows.shape[1]):
        raise EncoderError(f"{who} gave vectors of the shape {rows.shape}.", fix=fix)
    if not np.isfinite(rows).all():
        raise EncoderError(f"{who} gave a number that is not finite.", fix=fix)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.where(largest == 0, 1.0, rows / np.where(largest == 0, 1.0, largest))
    unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit
