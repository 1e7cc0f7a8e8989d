"""What others give as vectors is checked, and made of length 1."""

from typing import Any

import numpy as np
import pytest

from turnwise.facts.errors import EncoderError
from turnwise.models.encoders import checked_vectors


def test_rows_get_the_length_one() -> None:
    rows = checked_vectors([[3, 4], [0, -2], [1e-200, 0], [1e200, 1e200]], count=4, dimensions=2, who="It")
    assert rows.dtype == np.float32
    assert np.allclose(rows, np.array([[0.6, 0.8], [0.0, -1.0], [1.0, 0.0], [0.5, 0.5] / np.sqrt(0.5)]))


def test_a_row_of_zeros_becomes_one_of_equal_numbers() -> None:
    assert np.allclose(checked_vectors([[0, 0, 0, 0]], count=1, dimensions=None, who="It"), 0.5)


WRONG: dict[str, tuple[Any, str]] = {
    "too few rows": ([[1, 2]], "shape (1, 2)"),
    "too many columns": ([[1, 2, 3]] * 2, "shape (2, 3)"),
    "no columns": ([[], []], "shape (2, 0)"),
    "one row as it is": ([1, 2], "shape (2,)"),
    "rows of several lengths": ([[1, 2], [1]], "something else"),
    "words": ([["a", "b"]] * 2, "something else"),
    "nothing": (None, "shape ()"),
    "not a number": ([[1, 2], [float("nan"), 1]], "not finite"),
    "too large": ([[1, 2], [10**400, 1]], "something else"),
    "infinite": ([[1, 2], [float("inf"), 1]], "not finite"),
}


@pytest.mark.parametrize(("answer", "message"), WRONG.values(), ids=WRONG)
def test_anything_else_is_named(answer: Any, message: str) -> None:
    with pytest.raises(EncoderError) as raised:
        checked_vectors(answer, count=2, dimensions=2, who="The service")
    assert str(raised.value).startswith("The service gave ")
    assert message in str(raised.value)
    assert "2 row(s) of 2" in raised.value.fix
