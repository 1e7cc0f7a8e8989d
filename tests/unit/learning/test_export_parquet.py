"""Cases as Parquet, and what is said where pyarrow is missing."""

import io
import sys
from typing import Any

import pytest

from turnwise.facts.errors import MissingExtra
from turnwise.learning.cases import Case, Turn
from turnwise.learning.export_cases import COLUMNS, parquet

CASES = [
    Case((Turn("", "Where is <it>?", "orders"), Turn("There.", "ä bill", None)), "d-1"),
    Case((Turn("", "Hi", "desk"),), "d-2"),
]


def test_a_row_for_each_message() -> None:
    """H2"""
    files: Any = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table = files.read_table(io.BytesIO(parquet(CASES)))
    assert table.column_names == list(COLUMNS)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [
        ("d-1", 0, "", "Where is <it>?", "orders"),
        ("d-1", 1, "There.", "ä bill", None),
        ("d-2", 0, "", "Hi", "desk"),
    ]
    assert files.read_table(io.BytesIO(parquet(()))).num_rows == 0


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra) as raised:
        parquet(CASES)
    assert "parquet" in raised.value.fix
