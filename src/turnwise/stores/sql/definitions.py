"""Definitions as rows: one for each version, never changed, with one revision number for each app.

The only change of a version is the erasure of a user: it removes the examples that the app learned from the user's messages.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from pydantic_core import to_json
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.errors import DefinitionSetChanged, StoreError
from turnwise.ports.decisions import Page
from turnwise.ports.definitions import (
    ACCESS_FIELDS,
    AnyDefinition,
    Author,
    Definition,
    DefinitionChange,
    DefinitionKey,
    DefinitionKind,
    DefinitionSet,
    PolicyDefinition,
    Versioned,
    conflict,
    differences,
)
from turnwise.ports.records import Act, AuditEntry
from turnwise.stores.sql.app_tables import definition_revisions, definitions
from turnwise.stores.sql.ids import check_limit, cursor, read_cursor
from turnwise.stores.sql.records import entries, record, record_all
from turnwise.stores.sql.rows import moment, time_text
from turnwise.stores.sql.tables import clock, insert_for
from turnwise.stores.sql.worker_pool import Executor

_d, _r = definitions.c, definition_revisions.c
_later = definitions.alias("later")
_TYPES: Mapping[str, type[Definition] | type[PolicyDefinition]] = {"agent": Definition, "policy": PolicyDefinition}
_COLUMNS_OF_VERSION = {*Versioned.model_fields} - {"name"}
"""Fields that have columns of their own; the body holds the others."""

_SAME_NAME = and_(_later.c.app == _d.app, _later.c.kind == _d.kind, _later.c.name == _d.name, _later.c.version > _d.version)
_IS_NEWEST = ~exists().where(_SAME_NAME)
_at_revision: BindParameter[int] = bindparam("at_revision", type_=BigInteger)
_IS_REPLACED = exists().where(_SAME_NAME, _later.c.status != "draft", _later.c.revision <= _at_revision)
_IS_SERVED = and_(_d.status != "draft", _d.revision <= _at_revision, ~_IS_REPLACED)
_OF_APP = _d.app == bindparam("at_app")
_OF_KIND = and_(_OF_APP, _d.kind == bindparam("at_kind"))
_OF_NAME = and_(_OF_KIND, _d.name == bindparam("at_name"))

_REVISION = select(_r.revision).where(_r.app == bindparam("at_app"))
_REVISION_THEN = _REVISION.scalar_subquery().label("app_revision")
_SERVED = select(definitions, _REVISION_THEN).where(_OF_APP, _d.revision > bindparam("after", type_=BigInteger), _IS_SERVED)
_SERVED_IN_ORDER = _SERVED.order_by(_d.kind, _d.name)
_SERVED_NAMES = select(_d.kind, _d.name, _d.version).where(_OF_APP, _IS_SERVED)
_VERSION = select(definitions).where(_OF_NAME, _d.version == bindparam("at_version"))
_DELETE = delete(definitions).where(_OF_NAME, _d.version == bindparam("at_version"))
_NEWEST = select(definitions).where(_OF_NAME).order_by(_d.version.desc()).limit(1)
_SERVED_OF_NAME = select(definitions).where(_OF_NAME, _d.status != "draft").order_by(_d.version.desc()).limit(1)
_EVERY_NAME = select(definitions).where(_OF_KIND, _IS_NEWEST).order_by(_d.name).limit(bindparam("most", type_=Integer()))
_HISTORY = (
    select(definitions)
    .where(_OF_NAME, _d.version < bindparam("before", type_=BigInteger))
    .order_by(_d.version.desc())
    .limit(bindparam("most", type_=Integer()))
)
_CHANGED = "definition.changed"
"""The action of the audit entries."""
_NAMES_AT_ONCE = 300
_MOST = 2**62


class SqlDefinitions:
    """The store's definitions."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def revision(self, app: str) -> int:
        return await self._executor.read(lambda connection: _revision(connection, app))

    async def served(self, app: str, *, after: int = 0, at: int | None = None) -> DefinitionSet:
        return await self._executor.read(partial(_served, app=app, after=after, at=at))

    async def list(self, app: str, kind: DefinitionKind, *, after: str | None = None, limit: int = 50) -> Page[AnyDefinition]:
        return await self._executor.read(partial(_list, app=app, kind=kind, after=after, limit=limit))

    async def get(self, app: str, kind: DefinitionKind, name: str, version: int | None = None) -> AnyDefinition | None:
        statement = _NEWEST if version is None else _VERSION
        return await self._executor.read(partial(_one, statement=statement, params=_at(app, kind, name, version)))

    async def get_served(self, app: str, kind: DefinitionKind, name: str) -> AnyDefinition | None:
        found = await self._executor.read(partial(_one, statement=_SERVED_OF_NAME, params=_at(app, kind, name)))
        return None if found is None or found.status == "retired" else found

    async def put(
        self,
        app: str,
        definitions: Sequence[AnyDefinition],
        expected: Mapping[DefinitionKey, int],
        author: Author,
        *,
        at: int | None = None,
    ) -> Sequence[AnyDefinition]:
        """Stores new versions, all or none, and raises the app's revision. Raises DefinitionConflict."""
        if not definitions:
            return ()
        job = partial(put_versions, app=app, new=tuple(definitions), expected=expected, author=author, at=at)
        # After a commit of unknown outcome a repetition would meet its own version as another writer's.
        return await self._executor.write(job, repeatable=False)

    async def history(
        self, app: str, kind: DefinitionKind, name: str, *, after: str | None = None, limit: int = 50
    ) -> Page[AnyDefinition]:
        return await self._executor.read(partial(_history, params=_at(app, kind, name), after=after, limit=limit))

    async def changes(self, app: str, *, after: str | None = None, limit: int = 50) -> Page[DefinitionChange]:
        return await self._executor.read(partial(_changes, app=app, after=after, limit=limit))

    async def prune(self, app: str, *, keep: int, revisions: Collection[int] = (), dry_run: bool = False) -> int:
        run = self._executor.read if dry_run else self._executor.write
        return await run(partial(_prune, app=app, keep=keep, revisions=revisions, dry_run=dry_run))


def _at(app: str, kind: str = "agent", name: str = "", version: int | None = None) -> dict[str, Any]:
    if "\0" in app or "\0" in name:
        raise StoreError("The name of an app or a definition holds the character NUL.", fix="Leave it out.")
    return {"at_app": app, "at_kind": kind, "at_name": name, "at_version": version}


def _revision(connection: Connection, app: str) -> int:
    revision: int | None = connection.execute(_REVISION, {"at_app": _at(app)["at_app"]}).scalar()
    return revision or 0


def _served(connection: Connection, app: str, after: int, at: int | None) -> DefinitionSet:
    """Returns what serves at a revision; with `after`, only what changed since, and the names retired since."""
    # Rows come with the revision of their own snapshot. Without rows, nothing served has changed up to this one.
    revision = _revision(connection, app)
    params = {"at_app": app, "after": after, "at_revision": _MOST if at is None else at}
    agents: list[Definition] = []
    policies: list[PolicyDefinition] = []
    retired: list[DefinitionKey] = []
    for row in connection.execute(_SERVED_IN_ORDER, params):
        revision = row.app_revision
        found = definition_of(row)
        if found.status == "retired":
            retired.append((found.what, found.name))
        elif isinstance(found, Definition):
            agents.append(found)
        else:
            policies.append(found)
    revision = revision if at is None else min(revision, at)
    return DefinitionSet(revision, tuple(agents), tuple(policies), tuple(retired) if after else ())


def _list(connection: Connection, app: str, kind: DefinitionKind, after: str | None, limit: int) -> Page[AnyDefinition]:
    """Lists the newest versions of one kind by name, a page at a time."""
    check_limit(limit)
    begin = read_cursor(f"definitions-{kind}", after, str)[0] if after is not None else None
    statement = _EVERY_NAME if begin is None else _EVERY_NAME.where(_d.name > begin)
    rows = connection.execute(statement, {**_at(app, kind), "most": limit + 1}).all()
    found = tuple(definition_of(row) for row in rows[:limit])
    return Page(found, cursor(f"definitions-{kind}", found[-1].name) if len(rows) > limit else None)


def _one(connection: Connection, statement: Select[Any], params: Mapping[str, Any]) -> AnyDefinition | None:
    row = connection.execute(statement, params).first()
    return definition_of(row) if row is not None else None


def _history(connection: Connection, params: Mapping[str, Any], after: str | None, limit: int) -> Page[AnyDefinition]:
    check_limit(limit)
    before = read_cursor("definition-history", after, int)[0] if after is not None else _MOST
    rows = connection.execute(_HISTORY, {**params, "before": before, "most": limit + 1}).all()
    found = tuple(definition_of(row) for row in rows[:limit])
    return Page(found, cursor("definition-history", found[-1].version) if len(rows) > limit else None)


def _changes(connection: Connection, app: str, after: str | None, limit: int) -> Page[DefinitionChange]:
    page = entries(connection, _at(app)["at_app"], None, _CHANGED, after, limit)
    return Page(tuple(map(_change, page.items)), page.next)


def _change(entry: AuditEntry) -> DefinitionChange:
    known = {**entry.details, "author": entry.actor, "created_at": entry.at}
    return DefinitionChange.model_validate(known, strict=False)


# Writing


@cache
def _raise(dialect: str) -> ReturningInsert[Any]:
    first = insert_for(dialect, definition_revisions).values(app=bindparam("app"), revision=1)
    raised = first.on_conflict_do_update(index_elements=["app"], set_={"revision": _r.revision + 1})
    return raised.returning(_r.revision)


def put_versions(
    connection: Connection,
    app: str,
    new: Sequence[AnyDefinition],
    expected: Mapping[DefinitionKey, int],
    author: Author,
    at: int | None = None,
) -> Sequence[AnyDefinition]:
    """Stores new versions in a transaction. Raises as `Definitions.put`."""
    _check_names(app, new)
    # The lock on this row orders the writers: what is read below cannot change before the commit.
    revision = connection.execute(_raise(connection.dialect.name), {"app": app}).scalar_one()
    newest = _newest(connection, app, new)
    stored = []
    for definition in new:
        before = newest.get((definition.what, definition.name))
        current, wanted = before.version if before else 0, expected.get((definition.what, definition.name), 0)
        if current != wanted:
            raise conflict(definition.what, definition.name, expected=wanted, current=current)
        stored.append(_numbered(definition, current + 1, revision, author))
    if at is not None and revision != at + 1:
        raise DefinitionSetChanged(f"The app {app!r} has revision {revision - 1}, but {at} was expected.", fix="Check again.")
    connection.execute(definitions.insert(), [_row(app, each) for each in stored])
    changes = [change_between(newest.get((each.what, each.name)), each) for each in stored]
    newest_last = sorted(changes, key=lambda each: (each.what, each.name), reverse=True)
    record_all(connection, app, map(_act, newest_last), time_text(author.at))
    return tuple(stored)


def _numbered(definition: AnyDefinition, version: int, revision: int, author: Author) -> AnyDefinition:
    return definition.replace(version=version, revision=revision, author=author.name, created_at=author.at, note=author.note)


def change_between(before: AnyDefinition | None, after: AnyDefinition) -> DefinitionChange:
    """Returns the audit entry of a stored version."""
    found = differences(before, after)
    assert after.created_at is not None
    return DefinitionChange(
        revision=after.revision,
        what=after.what,
        name=after.name,
        before=before.version if before else 0,
        after=after.version,
        author=after.author,
        created_at=after.created_at,
        note=after.note,
        fields=tuple(each.path for each in found),
        values={each.path: (each.before, each.after) for each in found if each.path in ACCESS_FIELDS},
    )


def _check_names(app: str, new: Sequence[AnyDefinition]) -> None:
    keys = [(definition.what, definition.name) for definition in new]
    for kind, name in keys:
        _at(app, kind, name)
    if len({*keys}) < len(keys):
        raise ValueError("One put holds two versions of one definition.")


def _newest(connection: Connection, app: str, new: Sequence[AnyDefinition]) -> dict[DefinitionKey, AnyDefinition]:
    """Returns the newest stored version of each of these names."""
    found: dict[DefinitionKey, AnyDefinition] = {}
    for kind in _TYPES:
        names = [definition.name for definition in new if definition.what == kind]
        for start in range(0, len(names), _NAMES_AT_ONCE):
            some = names[start : start + _NAMES_AT_ONCE]
            statement = select(definitions).where(_OF_KIND, _d.name.in_(some), _IS_NEWEST)
            for row in connection.execute(statement, _at(app, kind)):
                found[row.kind, row.name] = definition_of(row)
    return found


def _prune(connection: Connection, app: str, keep: int, revisions: Collection[int], dry_run: bool) -> int:
    """Deletes old versions: the newest `keep` of a name stay, and all that serve at these revisions. Returns their number."""
    if keep < 1:
        raise ValueError(f"The newest version always stays; keep is {keep}.")
    newer = select(func.count()).select_from(_later).where(_SAME_NAME).scalar_subquery()
    old = select(_d.kind, _d.name, _d.version).where(_OF_APP, newer >= keep)
    kept = {row for at in (_MOST, *revisions) for row in connection.execute(_SERVED_NAMES, {"at_app": app, "at_revision": at})}
    removed = [row for row in connection.execute(old, _at(app)) if row not in kept]
    if removed and not dry_run:
        connection.execute(_DELETE, [_at(app, row.kind, row.name, row.version) for row in removed])
    return len(removed)


def _row(app: str, definition: AnyDefinition) -> dict[str, Any]:
    """Returns the row of a definition."""
    assert definition.created_at is not None
    return {
        "app": app,
        "kind": definition.what,
        "name": definition.name,
        "version": definition.version,
        "status": definition.status,
        "revision": definition.revision,
        "author": definition.author,
        "created_at": time_text(definition.created_at),
        "note": definition.note,
        "body": body_of(definition),
    }


def _act(change: DefinitionChange) -> Act:
    return Act(change.author, _CHANGED, details=change.model_dump(mode="json", exclude={"author", "created_at"}))


def body_of(definition: AnyDefinition) -> str:
    """Returns what the column `body` holds of a version."""
    return definition.model_dump_json(exclude=_COLUMNS_OF_VERSION)


def definition_of(row: Any) -> AnyDefinition:
    """Returns the version of a row."""
    written = _TYPES[row.kind].model_validate_json(row.body)
    return written.replace(
        version=row.version,
        status=row.status,
        revision=row.revision,
        author=row.author,
        created_at=moment(row.created_at),
        note=row.note,
    )


ERASURE = "erasure"
"""The author of versions without a user's examples."""
_LOCK_REVISION = (
    select(definition_revisions.c.revision).where(definition_revisions.c.app == bindparam("at_app")).with_for_update()
)
_OF_AGENTS = and_(_d.app == bindparam("at_app"), _d.kind == "agent")
_IS_ROW = and_(_OF_AGENTS, _d.name == bindparam("at_name"), _d.version == bindparam("at_version"))
_REWRITE_BODY = update(definitions).where(_IS_ROW).values(body=bindparam("new_body"))


def retire_some(connection: Connection, app: str, user: str) -> bool:
    """Removes the user's examples from the versions of one agent. Returns whether there may be more agents with such.

    If the served version has some, a new version without them is stored, so that all processes stop using them. In older
    versions and in drafts, the texts are removed in place.
    """
    name = next(iter(_names_with(connection, app, user)), None)
    if name is None:
        return False
    connection.execute(_LOCK_REVISION, {"at_app": app})  # no version is stored until the commit
    history = [each for each in _versions_of(connection, app, name) if isinstance(each, Definition)]
    served = next((each for each in history if each.status != "draft"), None)
    count = 0
    for each in history:
        count = max(count, _count_examples(each, user))
        if _count_examples(each, user):
            values = {"at_app": app, "at_name": name, "at_version": each.version}
            connection.execute(_REWRITE_BODY, values | {"new_body": body_of(_without_examples(each, user))})
    seconds: float = connection.execute(select(clock())).scalar_one()
    now = datetime.fromtimestamp(seconds, UTC)
    if served is not None and served.status == "active" and _count_examples(served, user):
        author = Author(ERASURE, now, "Without the examples learned from a user who was erased.")
        put_versions(connection, app, [_without_examples(served, user)], {("agent", name): history[0].version}, author)
    record(connection, app, Act(ERASURE, "examples.retired", details={"agent": name, "examples": count}), time_text(now))
    return True


def _names_with(connection: Connection, app: str, user: str) -> Sequence[str]:
    """Returns the agents that learned from the user, at most one. The search finds more rows than it reads."""
    written = f'"user":{to_json(user).decode()}'
    wanted = select(definitions).where(_OF_AGENTS, _d.body.contains(written, autoescape=True))
    for row in connection.execute(wanted.order_by(_d.name), {"at_app": app}):
        found = definition_of(row)
        if isinstance(found, Definition) and _count_examples(found, user):
            return [found.name]
    return []


def _versions_of(connection: Connection, app: str, name: str) -> list[Any]:
    """Returns all versions, newest first."""
    wanted = select(definitions).where(_OF_AGENTS, _d.name == bindparam("at_name")).order_by(_d.version.desc())
    return [definition_of(row) for row in connection.execute(wanted, {"at_app": app, "at_name": name})]


def _count_examples(definition: Definition, user: str) -> int:
    return sum(each.user == user for each in definition.learned or ())


def _without_examples(definition: Definition, user: str) -> Definition:
    return definition.replace(learned=tuple(each for each in definition.learned or () if each.user != user))
