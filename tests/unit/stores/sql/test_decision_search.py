"""Every search of decisions uses an index whose entries are in order, and examines a bounded number of rows."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.dialects import sqlite

from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import DecisionFilter, Page
from turnwise.stores.sql import SqlSessionStore, decision_search
from turnwise.stores.sql.decision_search import Wanted, merged, sources
from turnwise.stores.sql.words import words_of
from turnwise.testing.session_store_cases.decisions import decided, write

SEARCHES: Sequence[tuple[dict[str, Any], str | None, str]] = [
    ({}, None, "app_id_ix"),
    ({}, "ada", "owner_id_ix"),
    ({"agent": "help"}, None, "app_agent_id_ix"),
    ({"method": "resume"}, None, "app_method_id_ix"),
    ({"min_confidence": 0.9}, None, "app_tenth_id_ix"),
    ({"min_confidence": 0.2, "max_confidence": 0.55}, None, "app_tenth_id_ix"),
    ({"outcome": "clarify"}, None, "outcome_ix"),
    ({"label": "help"}, None, "labelled_ix"),
    ({"labelled": True}, None, "labelled_ix"),
    ({"contradicted": True}, None, "labelled_ix"),
    ({"policy": "f-1"}, None, "app_fingerprint_id_ix"),
    ({"words": "parcel"}, None, "VIRTUAL TABLE INDEX"),
    ({"words": "parcel refund"}, "ada", "owner_id_ix"),
]


def plan(connection: Connection, wanted: Wanted) -> list[str]:
    """How SQLite reads the first source of candidates, a line for each step."""
    query = merged(next(iter(sources(wanted))), wanted, wanted.start, 51)
    compiled = query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    return [row[3] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}".replace(":", r"\:")))]


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(("fields", "user", "index"), SEARCHES, ids=str)
async def test_each_filter_has_an_index_in_order(
    fields: dict[str, Any], user: str | None, index: str, oldest_first: bool
) -> None:
    """E1"""
    store = SqlSessionStore("sqlite://")
    await store.create(SessionKey("app", "ada", "s"))
    filter_ = DecisionFilter(**fields)
    wanted = Wanted("app", user, filter_, words_of(filter_.words), ("f-1",), "sqlite", oldest_first)
    steps = await store._executor.read(lambda connection: plan(connection, wanted))
    reads = [step for step in steps if step.startswith(("SEARCH", "SCAN")) and "turnwise_" in step]
    assert reads
    assert all(index in step for step in reads), steps
    assert len(reads) > 1 or not any("TEMP B-TREE" in step for step in steps), "the entries are in order"
    assert index == "VIRTUAL TABLE INDEX" or all("COVERING INDEX" in step for step in reads), "no row is read"
    await store.close()


async def test_a_page_examines_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """E1: a page without any match has a next one, and the last page says that it is the last."""
    monkeypatch.setattr(decision_search, "SCAN", 4)
    store, key = SqlSessionStore("sqlite://"), SessionKey("app", "ada", "s")
    events = [decided(f"i-{n}", method="rare" if n == 1 else "resume", confidence=0.5) for n in range(10)]
    await write(store, key, *events)
    filter_ = DecisionFilter(min_confidence=0.45, max_confidence=0.52, agent="help", outcome="chosen")

    async def pages(**where: Any) -> list[int]:
        sizes, after = [], None
        while True:
            page: Page[Any] = await store.decisions.search("app", after=after, limit=2, **where)
            sizes.append(len(page.items))
            if (after := page.next) is None:
                return sizes

    assert sum(await pages(filter=filter_)) == sum(await pages(filter=filter_, key=key)) == 10
    never = DecisionFilter(agent="help", outcome="chosen", max_confidence=0.51, min_confidence=0.505)
    assert await pages(filter=never, key=key) == await pages(filter=never) == [0, 0, 0]
    await store.close()
