import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Connection, create_engine, select, text

from turnwise.facts.errors import StoreError
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.app_tables import metadata
from turnwise.stores.sql.ids import first_decision_id, new_decision_id, new_id
from turnwise.stores.sql.tables import clock, owner_of, session_params
from turnwise.testing.postgres import postgres_url


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_clock_is_in_seconds_and_goes_on_within_a_transaction(kind: str) -> None:
    """A33"""
    url = "sqlite://" if kind == "sqlite" else postgres_url().replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as connection:
        first = _now(connection)
        assert abs(first - time.time()) < 3600
        time.sleep(0.05)
        assert 0.01 < _now(connection) - first < 60
    engine.dispose()


def _now(connection: Connection) -> float:
    connection.execute(text("SELECT 1"))
    return connection.execute(select(clock())).scalar_one()


def test_all_names_are_ours() -> None:
    assert [name for name in metadata.tables if not name.startswith("turnwise_")] == []


REFERENCE = {
    "turnwise_version",
    "turnwise_processes",
    "turnwise_app_state",
    "turnwise_keys",
    "turnwise_versions",
    "turnwise_definitions",
    "turnwise_definition_revisions",
    "turnwise_rests",
    "turnwise_experiments",
    "turnwise_vectors",
    "turnwise_matchers",
}
"""Tables that a sharded database keeps everywhere."""
LIMITS = {"turnwise_counters", "turnwise_places"}
"""Tables of the limits of credentials, distributed by name."""


def test_every_table_of_a_user_has_the_owner_first_in_its_key() -> None:
    """A sharded database keeps a user's rows together, and finds them by this column."""
    others = REFERENCE | LIMITS
    keys = {name: next(iter(table.primary_key)).name for name, table in metadata.tables.items() if name not in others}
    assert set(keys.values()) == {"owner"}
    unique = [index for table in metadata.tables.values() for index in table.indexes if index.unique]
    assert {next(iter(index.columns)).name for index in unique} == {"owner"}


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), unique=True))
def test_owners_differ(users: list[tuple[str, str]]) -> None:
    """A24: also when the names of app and user together are the same text."""
    owners = {owner_of(*user) for user in users}
    assert len(owners) == len(users)
    assert all(-(2**63) <= owner < 2**63 for owner in owners)


def test_ids_increase_also_in_one_instant() -> None:
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert ids[-1] < 2**63


def test_ids_of_decisions_follow_their_time() -> None:
    """E1: also in one instant, and when a later decision is of an earlier time."""
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    ids = [new_decision_id(noon) for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert all(first_decision_id(noon) <= id_ < first_decision_id(noon + timedelta(milliseconds=1)) for id_ in ids)
    earlier = new_decision_id(noon - timedelta(seconds=1))
    assert first_decision_id(noon - timedelta(seconds=1)) <= earlier < first_decision_id(noon)
    assert first_decision_id(noon.replace(tzinfo=None)) == first_decision_id(noon)


@pytest.mark.parametrize("at", [datetime.min, datetime.max, datetime(213, 12, 19), datetime(3050, 5, 5)])
def test_ids_of_any_time_fit_into_a_column(at: datetime) -> None:
    assert -(2**63) < first_decision_id(at.replace(tzinfo=UTC)) < 2**63


def test_a_name_with_nul_is_refused() -> None:
    for key in (SessionKey("a\0", "b", "c"), SessionKey("a", "\0", "c"), SessionKey("a", "b", "c\0")):
        with pytest.raises(StoreError, match="NUL"):
            session_params(key)
