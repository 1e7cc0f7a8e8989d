"""Versions: the policies and agent trees that decisions refer to, each stored once."""

from functools import cache

from sqlalchemy import Connection, Insert, bindparam, select

from turnwise.ports.decisions import Version, VersionKind
from turnwise.stores.sql.rows import moment, time_text
from turnwise.stores.sql.tables import insert_for, versions

_v = versions.c
_FIND = select(_v.name, _v.body, _v.created_at).where(
    _v.app == bindparam("at_app"), _v.kind == bindparam("at_kind"), _v.version == bindparam("at_version")
)


@cache
def _put(dialect: str) -> Insert:
    return insert_for(dialect, versions).on_conflict_do_nothing()


def put(connection: Connection, app: str, version: Version) -> None:
    row = version._asdict() | {"app": app, "created_at": time_text(version.created_at)}
    connection.execute(_put(connection.dialect.name), row)


def find(connection: Connection, app: str, kind: VersionKind, version: str) -> Version | None:
    row = connection.execute(_FIND, {"at_app": app, "at_kind": kind, "at_version": version}).first()
    return Version(kind, version, row.name, row.body, moment(row.created_at)) if row is not None else None
