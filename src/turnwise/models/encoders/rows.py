"""What others say is a vector for each text, checked."""

from typing import TYPE_CHECKING, Any

from turnwise.facts.errors import EncoderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
