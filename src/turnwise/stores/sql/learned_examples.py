"""Removes the examples that an app learned from the messages of an erased user, in all versions of its definitions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, and_, bindparam, select, update

from turnwise.facts.definitions import Definition
from turnwise.ports.definitions import Author
from turnwise.ports.records import Act
from turnwise.stores.sql import definitions as versions
from turnwise.stores.sql.audit import record
from turnwise.stores.sql.definition_tables import definition_revisions, definitions
from turnwise.stores.sql.rows import time_text
from turnwise.stores.sql.tables import clock

ERASURE = "erasure"
"""The author of versions without a user's examples."""
_d = definitions.c
_LOCK = select(definition_revisions.c.revision).where(definition_revisions.c.app == bindparam("at_app")).with_for_update()
_OF_AGENTS = and_(_d.app == bindparam("at_app"), _d.kind == "agent")
_IS_ROW = and_(_OF_AGENTS, _d.name == bindparam("at_name"), _d.version == bindparam("at_version"))
_REWRITE = update(definitions).where(_IS_ROW).values(body=bindparam("new_body"))


def retire_some(connection: Connection, app: str, user: str) -> bool:
    """Removes the user's examples from the versions of one agent. Returns whether there may be more agents with such.

    If the served version has some, a new version without them is stored, so that all processes stop using them. In older
    versions and in drafts, the texts are removed in place.
    """
    name = next(iter(_names_with(connection, app, user)), None)
    if name is None:
        return False
    connection.execute(_LOCK, {"at_app": app})  # no version is stored until the commit
    history = [each for each in _versions_of(connection, app, name) if isinstance(each, Definition)]
    served = next((each for each in history if each.status != "draft"), None)
    count = 0
    for each in history:
        count = max(count, _count(each, user))
        if _count(each, user):
            values = {"at_app": app, "at_name": name, "at_version": each.version}
            connection.execute(_REWRITE, values | {"new_body": versions.body_of(_without(each, user))})
    seconds: float = connection.execute(select(clock())).scalar_one()
    now = datetime.fromtimestamp(seconds, UTC)
    if served is not None and served.status == "active" and _count(served, user):
        author = Author(ERASURE, now, "Without the examples learned from a user who was erased.")
        versions.put_versions(connection, app, [_without(served, user)], {("agent", name): history[0].version}, author)
    record(connection, app, Act(ERASURE, "examples.retired", details={"agent": name, "examples": count}), time_text(now))
    return True


def _names_with(connection: Connection, app: str, user: str) -> Sequence[str]:
    """Returns the agents that learned from the user, at most one. The search finds more rows than it reads."""
    written = f'"user":{to_json(user).decode()}'
    wanted = select(definitions).where(_OF_AGENTS, _d.body.contains(written, autoescape=True))
    for row in connection.execute(wanted.order_by(_d.name), {"at_app": app}):
        found = versions.definition_of(row)
        if isinstance(found, Definition) and _count(found, user):
            return [found.name]
    return []


def _versions_of(connection: Connection, app: str, name: str) -> list[Any]:
    """Returns all versions, newest first."""
    wanted = select(definitions).where(_OF_AGENTS, _d.name == bindparam("at_name")).order_by(_d.version.desc())
    return [versions.definition_of(row) for row in connection.execute(wanted, {"at_app": app, "at_name": name})]


def _count(definition: Definition, user: str) -> int:
    return sum(each.user == user for each in definition.learned or ())


def _without(definition: Definition, user: str) -> Definition:
    return definition.replace(learned=tuple(each for each in definition.learned or () if each.user != user))
