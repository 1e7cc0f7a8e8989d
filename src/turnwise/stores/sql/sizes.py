"""Sizes of texts in bytes of UTF-8, counted alike before and after they are stored."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def size_of(text: str) -> int:
    """Returns the size of a text. Plain ASCII, which is usual, is not encoded."""
    return len(text) if text.isascii() else len(text.encode())


class stored_size(FunctionElement[int]):
    """The size of a column's text in SQL. `length` counts characters."""

    type = BigInteger()
    inherit_cache = True


@compiles(stored_size, "sqlite")
def _sqlite_size(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    # octet_length needs SQLite 3.43.
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@compiles(stored_size, "postgresql")
def _postgresql_size(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length({compiler.process(element.clauses, **options)})"
