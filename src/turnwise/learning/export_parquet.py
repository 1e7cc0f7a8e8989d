"""Writes cases as a Parquet file, one row for each message (behaviour H2)."""

import io
from collections.abc import Iterable
from importlib import import_module

from turnwise.facts.errors import MissingExtra
from turnwise.learning.cases import Case

COLUMNS = ("dialogue", "turn", "system", "user", "agent")
"""The dialogue's id; the index in it, from 0; the reply before the message; the message; the right agent, null if unknown."""


def parquet(cases: Iterable[Case]) -> bytes:
    """Returns the cases as a Parquet file, with the columns `COLUMNS`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        arrow, files = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("Writing Parquet files", "parquet") from error
    rows = [(case.dialogue, at, turn.system, turn.user, turn.agent) for case in cases for at, turn in enumerate(case.turns)]
    schema = arrow.schema([(name, arrow.int32() if name == "turn" else arrow.string()) for name in COLUMNS])
    table = arrow.table([[row[at] for row in rows] for at in range(len(COLUMNS))], schema=schema)
    written = io.BytesIO()
    files.write_table(table, written)
    return written.getvalue()
