"""Pages of a large table of decisions use indexes on both databases, with the planner's statistics of that table.

The rows that a filter wants are few and old, which misleads a planner that hopes to meet them soon.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, text

from turnwise.ports.decisions import DecisionFilter
from turnwise.stores.sql import decision_search, decisions, words
from turnwise.stores.sql.app_tables import metadata
from turnwise.stores.sql.ids import first_decision_id
from turnwise.stores.sql.tables import owner_of
from turnwise.testing.postgres import new_postgres_database

COUNT, RARE, OTHERS = 12_000, 40, 200
"""All decisions; the oldest ones, which filters want; the sessions of other users."""
SCAN, MOST_ROWS, MOST_STEPS = 200, 3_000, 60_000
"""Rows of candidates; what a page may read of the table on PostgreSQL; its instructions on SQLite. To read all takes more."""

_SERIES = "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count})"
_SESSIONS = f"""{_SERIES.format(count=OTHERS)}
INSERT INTO turnwise_sessions (owner, number, app, user_id, session_id, epoch, revision, last_sequence, bytes, queued, accepted,
created_at, updated_at, head, state, initial_state)
SELECT n, n, 'app', 'u' || n, 's' || n, 0, 0, 1000, 0, 0, 0, '2026', '2026', '{{}}', '{{}}', '{{}}' FROM series
UNION ALL SELECT :big, 901, 'app', 'big', 'huge', 0, 0, 99999, 0, 0, 0, '2026', '2026', '{{}}', '{{}}', '{{}}'
UNION ALL SELECT :ann, 902, 'app', 'ann', 'small', 0, 0, 99999, 0, 0, 0, '2026', '2026', '{{}}', '{{}}', '{{}}'
"""
# Of the others, every tenth is of one of many sessions and the rest of a single one.
_IS_RARE, _IS_OTHER = f"n <= {RARE}", "n % 10 = 0"
_DECISIONS = f"""{_SERIES.format(count=COUNT)}
INSERT INTO turnwise_decisions (owner, session, sequence, id, app, user_id, invocation_id, agent, method, confidence, tenth,
outcome, fingerprint, label, state, changed_at, created_at, text, record)
SELECT CASE WHEN {_IS_RARE} THEN :ann WHEN {_IS_OTHER} THEN n / 10 % {OTHERS} + 1 ELSE :big END,
CASE WHEN {_IS_RARE} THEN 902 WHEN {_IS_OTHER} THEN n / 10 % {OTHERS} + 1 ELSE 901 END, n, :first + n * 1000, 'app',
CASE WHEN {_IS_RARE} THEN 'ann' WHEN {_IS_OTHER} THEN 'u' || (n / 10 % {OTHERS} + 1) ELSE 'big' END, 'i-' || n,
CASE WHEN {_IS_RARE} THEN 'rare' ELSE 'help' END, CASE WHEN {_IS_RARE} THEN 'direct' ELSE 'resume' END,
CASE WHEN {_IS_RARE} THEN 0.35 ELSE 0.85 END, CASE WHEN {_IS_RARE} THEN 3 ELSE 8 END,
CASE WHEN {_IS_RARE} THEN 'clarify' ELSE 'chosen' END, CASE WHEN {_IS_RARE} THEN 'f-old' ELSE 'f-new' END,
CASE WHEN {_IS_RARE} THEN 'help' END, 'completed', '2026', '2026-01-01T00:00:00Z',
CASE WHEN {_IS_RARE} THEN 'a parcel ' ELSE 'a letter ' END || n, '{{}}' FROM series
"""
_LABELS = """
INSERT INTO turnwise_labels (owner, session, sequence, source, author, id, label, unsure, weight, labelled_at, app, user_id,
session_id, invocation_id, agent, method, confidence, outcome, fingerprint, decided_at, note)
SELECT owner, session, sequence, 'user', 'ann', id, 'help', false, 1, '2026-01-01T00:00:00+00:00', app, user_id, 's',
invocation_id, agent, method, confidence, outcome, fingerprint, created_at, '' FROM turnwise_decisions
"""
OLD = datetime(2026, 1, 1, tzinfo=UTC)
NEW = datetime(2026, 1, 2, tzinfo=UTC)

FILTERS: Sequence[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({}, "ann"),
    ({"agent": "rare"}, None),
    ({"agent": "help"}, None),
    ({"method": "direct"}, None),
    ({"outcome": "clarify"}, None),
    ({"outcome": "chosen"}, None),
    ({"min_confidence": 0.3, "max_confidence": 0.4}, None),
    ({"min_confidence": 0.3, "max_confidence": 0.31}, None),
    ({"label": "help"}, None),
    ({"labelled": True}, None),
    ({"labelled": False}, None),
    ({"contradicted": True}, None),
    ({"policy": "f-old"}, None),
    ({"words": "parcel"}, None),
    ({"words": "parcel"}, "ann"),
    ({"until": OLD.replace(microsecond=20)}, None),
    ({"since": NEW}, None),
    ({"agent": "rare", "outcome": "chosen", "min_confidence": 0.1}, None),
    ({"agent": "help", "method": "direct", "max_confidence": 0.2}, "big"),
]

Job = Callable[[Connection], object]


@pytest.fixture(scope="module", params=["sqlite", "sqlite-unanalyzed", "postgresql"])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A large table, of which the planner has statistics. SQLite makes none by itself, so it has to do without, too."""
    if request.param == "postgresql":
        url = new_postgres_database().replace("postgresql:", "postgresql+psycopg:")
        # A plan that is asked for often would be prepared, with parameters that it lacks.
        engine = create_engine(url, connect_args={"prepare_threshold": None})
    else:
        engine = create_engine("sqlite://")
    values = {"big": owner_of("app", "big"), "ann": owner_of("app", "ann"), "first": first_decision_id(OLD)}
    with engine.begin() as opened:
        metadata.create_all(opened)
        words.create_index(opened)
        for statement in (_SESSIONS, _DECISIONS, _LABELS):
            opened.execute(text(statement), {name: value for name, value in values.items() if f":{name}" in statement})
        if request.param != "sqlite-unanalyzed":
            opened.exec_driver_sql("ANALYZE")
        yield opened
    engine.dispose()


@pytest.fixture(autouse=True)
def _small_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_search, "SCAN", SCAN)
    monkeypatch.setattr(decisions, "SCAN", SCAN)
    monkeypatch.setattr(decisions, "COUNTED", SCAN)


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(("fields", "user"), FILTERS, ids=str)
def test_a_page_reads_a_few_rows_by_an_index(
    connection: Connection, fields: dict[str, Any], user: str | None, oldest_first: bool
) -> None:
    """E1: whatever it filters, from both ends, and after a cursor."""
    filter_ = DecisionFilter(**fields)

    def job(connection: Connection) -> object:
        page = decision_search.search(connection, "app", user, None, filter_, None, 20, oldest_first=oldest_first)
        after = page.next
        return (
            page
            if after is None
            else decision_search.search(connection, "app", user, None, filter_, after, 20, oldest_first=oldest_first)
        )

    read_cheaply(connection, job)


def test_the_labels_of_a_page_are_read_by_an_index(connection: Connection) -> None:
    """E4: every decision of the table has one."""

    def job(connection: Connection) -> object:
        filter_ = DecisionFilter(labelled=True)
        page = decision_search.search(connection, "app", None, None, filter_, None, 20, brief=True, labels=True)
        assert [len(each.labels) for each in page.items] == [1] * 20
        return page

    read_cheaply(connection, job)


@pytest.mark.parametrize(
    ("fields", "user"), [({}, None), ({"agent": "rare"}, None), ({"method": "direct"}, None), ({}, "ann")], ids=str
)
def test_counts_read_a_few_rows_by_an_index(connection: Connection, fields: dict[str, Any], user: str | None) -> None:
    read_cheaply(connection, lambda given: decisions.count(given, "app", user, DecisionFilter(**fields)))


@pytest.mark.parametrize(
    ("user", "named", "state"), [(None, "", None), ("big", "", None), (None, "parcel", None), (None, "", "failed")]
)
def test_recent_sessions_read_a_few_rows_by_an_index(
    connection: Connection, user: str | None, named: str, state: str | None
) -> None:
    """One huge session is no burden."""
    read_cheaply(connection, lambda given: decisions.recent_sessions(given, "app", user, named, state, None, 20))


def read_cheaply(connection: Connection, job: Job) -> None:
    """Runs the job, and looks at the plan of each of its statements."""
    run = sqlite_costs if connection.dialect.name == "sqlite" else postgresql_costs
    run(connection, statements_of(connection, job))


def statements_of(connection: Connection, job: Job) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    try:
        job(connection)
    finally:
        event.remove(connection, "before_cursor_execute", note)
    return [each for each in found if "turnwise_decisions" in each[0]]


def sqlite_costs(connection: Connection, statements: Sequence[tuple[str, Any]]) -> None:
    driver: Any = connection.connection.driver_connection
    for statement, parameters in statements:
        steps = [row[3] for row in driver.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        whole = [
            step
            for step in steps
            if step.startswith("SCAN turnwise_") and "USING" not in step and "VIRTUAL TABLE INDEX" not in step
        ]
        assert not whole, (steps, statement)
        ticks = [0]

        def tick(ticks: list[int] = ticks) -> int:
            ticks[0] += 1
            return 0

        driver.set_progress_handler(tick, 100)
        driver.execute(statement, parameters).fetchall()
        driver.set_progress_handler(None, 0)
        assert 100 * ticks[0] <= MOST_STEPS, (100 * ticks[0], steps, statement)


def postgresql_costs(connection: Connection, statements: Sequence[tuple[str, Any]]) -> None:
    for statement, parameters in statements:
        (measured,) = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters).scalars()
        assert sum(map(rows_read, nodes(measured[0]["Plan"]))) <= MOST_ROWS, (json.dumps(measured, indent=1), statement)
        # What a prepared statement comes to when the planner no longer looks at the values.
        generic = statement
        for place, name in enumerate(parameters, 1):
            generic = generic.replace(f"%({name})s", f"${place}")
        (planned,) = connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {generic}").scalars()
        for node in (*nodes(measured[0]["Plan"]), *nodes(planned[0]["Plan"])):
            is_whole = node["Node Type"] == "Seq Scan" and node["Relation Name"] == "turnwise_decisions"
            assert not is_whole, (json.dumps(node), statement)


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def rows_read(node: Mapping[str, Any]) -> int:
    """The rows of the table of decisions that this step read."""
    if node.get("Relation Name") != "turnwise_decisions":
        return 0
    once = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int(once * node["Actual Loops"])
