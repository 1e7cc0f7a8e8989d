"""The index of the words of decided messages: an FTS5 table of SQLite, a GIN index of PostgreSQL.

The database keeps it in step: with triggers on SQLite, and as an index on PostgreSQL. A row that is deleted leaves it, too.
"""

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, TextClause, bindparam, exists, literal_column, select, text
from sqlalchemy.types import BigInteger

from turnwise.stores.sql.tables import decisions, owner_of

TABLE = "turnwise_words"
INDEX = "turnwise_decisions_words_ix"
MOST_WORDS = 20

_d = decisions.c
_WORD = re.compile(r"[^\W_]+")

# The rowid is the decision's id: implicit rowids change with VACUUM. The scope narrows a search to an app or a user.
_VALUES = "{row}.id, {row}.text, 'a' || hex({row}.app) || ' u' || printf('%016x', {row}.owner)"
_ADD = f"INSERT INTO {TABLE} (rowid, text, scope) VALUES ({_VALUES.format(row='new')});"
_REMOVE = f"INSERT INTO {TABLE} ({TABLE}, rowid, text, scope) VALUES ('delete', {_VALUES.format(row='old')});"
_SQLITE = (
    f"CREATE VIRTUAL TABLE {TABLE} USING fts5 "
    "(text, scope, content='', columnsize=0, tokenize='unicode61 remove_diacritics 0')",
    f"CREATE TRIGGER {TABLE}_insert AFTER INSERT ON turnwise_decisions BEGIN {_ADD} END",
    f"CREATE TRIGGER {TABLE}_delete AFTER DELETE ON turnwise_decisions BEGIN {_REMOVE} END",
    f"CREATE TRIGGER {TABLE}_update AFTER UPDATE OF text ON turnwise_decisions BEGIN {_REMOVE} {_ADD} END",
)
# PostgreSQL's own parser would keep addresses and hyphenated words in one piece.
_VECTOR = "to_tsvector('simple'::regconfig, regexp_replace(turnwise_decisions.text, '(\\W|_)+', ' ', 'g'))"
_POSTGRESQL = (f"CREATE INDEX {INDEX} ON turnwise_decisions USING gin (({_VECTOR.replace('turnwise_decisions.', '')}))",)


def create_index(connection: Connection) -> None:
    """Creates the index of the words, after the table of the decisions."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.exec_driver_sql(statement)


def words_of(wanted: str) -> Sequence[str]:
    """Returns the words of a search, at most `MOST_WORDS`. Everything but letters and digits separates words."""
    return _WORD.findall(wanted)[:MOST_WORDS]


def candidates(dialect: str, app: str, user: str | None, words: Sequence[str]) -> Select[Any]:
    """Returns the ids of decisions with all the words. On SQLite the ids are those of the app or user, save for a clash of
    hashes.
    """
    if dialect == "sqlite":
        return select(_rowid).select_from(text(TABLE)).where(_match(app, user, words))
    return select(_d.id).where(_d.app == app, _has_words(words))


def rare_ids(words: Sequence[str], most: int) -> Select[Any]:
    """Returns the apps and ids of up to `most` decisions with all the words, in any order, for PostgreSQL.

    Without an order the planner uses the index of the words; with one it may read all rows in order to find a rare word.
    """
    return select(_d.app, _d.id).where(_has_words(words)).limit(most)


def has_words(dialect: str, app: str, user: str | None, words: Sequence[str]) -> ColumnElement[bool]:
    """Returns the condition of decisions with all the words."""
    if dialect != "sqlite":
        return _has_words(words)
    # Looked up by rowid for each row, instead of reading all decisions with the words.
    return exists(candidates(dialect, app, user, words).where(_rowid == _d.id).correlate(decisions))


_rowid: ColumnElement[int] = literal_column(f"{TABLE}.rowid", BigInteger).label("id")


def _match(app: str, user: str | None, words: Sequence[str]) -> TextClause:
    scope = f"u{owner_of(app, user) % 2**64:016x}" if user is not None else f"a{app.encode('utf-8', 'surrogatepass').hex()}"
    query = " AND ".join([f'scope : "{scope}"', *(f'text : "{word}"' for word in words)])
    return text(f"{TABLE} MATCH :words").bindparams(bindparam("words", query))


def _has_words(words: Sequence[str]) -> ColumnElement[bool]:
    condition = text(f"{_VECTOR} @@ plainto_tsquery('simple'::regconfig, :words)")
    return condition.bindparams(bindparam("words", " ".join(words)))  # type: ignore[return-value]
