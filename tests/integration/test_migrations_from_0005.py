"""Rows of every kind that the version before 0006 made are moved, in steps that can be cut off."""

import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from migration_play import NewUrl, migrate, shape, using
from sqlalchemy import Connection, MetaData, insert
from store_play import on

from turnwise.facts.content import text_content
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import DecisionFilter
from turnwise.ports.stores import Lease
from turnwise.stores.sql import SqlSessionStore, schema
from turnwise.stores.sql.schema import alembic_config
from turnwise.stores.sql.tables import SCHEMA
from turnwise.testing.session_store_cases.making import NOW, asked, check_fold, ended, opened, rewinds

FIXTURE = json.loads((Path(__file__).parent / "schema_0005.json").read_text())
"""Rows that the last version before 0006 made: a rewound and forked session, waits, a dead process, an inbox."""


def fifth_version(url: str, copies: int = 1) -> None:
    """A database of revision 0005 with rows of every kind, for several apps."""

    def fill(connection: Connection) -> None:
        tables = MetaData()
        tables.reflect(connection)
        for copy in range(copies):
            for name, rows in FIXTURE.items():
                moved = [_of_copy(row, copy) for row in rows]
                connection.execute(insert(tables.tables[f"turnwise_{name}"]), moved)

    on(url, lambda connection: command.upgrade(alembic_config(connection), "0005"))
    on(url, fill)


def _of_copy(row: dict[str, Any], copy: int) -> dict[str, Any]:
    """The row with other ids, and for the app `desk-N`."""
    changed = {name: row[name] + 1000 * copy for name in ("id", "session") if name in row}
    return row | changed | ({"app": f"desk-{copy}"} if "app" in row else {})


async def check_fifth(store: SqlSessionStore, app: str) -> None:
    """Everything of the fixture is there, and every session goes on."""
    plain, fork = SessionKey(app, "ada", "plain"), SessionKey(app, "ada", "fork")
    session = await check_fold(store, plain, {"given": 1})
    assert (session.state, session.user_state, session.app_state) == ({"given": 1, "n": 1}, {"name": "Ada"}, {"shared": 2})
    assert [event.text for event in await store.events(plain)][-3:] == ["", "again", "done"]
    assert len(await store.events(plain, hidden=True)) == session.last_sequence == 12
    decision = await store.decisions.find(plain, 1)
    assert decision is not None
    assert (decision.label, decision.selection.verdicts[1].candidates[1].agent) == ("sales", "sales")
    (first, *_) = await store.events(plain)
    assert first.actions.selection == decision.selection
    receipt = await store.inbox.receipt(plain, "m-0")
    assert receipt is not None
    assert (receipt.message.content.text, receipt.message.context.roles) == ("question 0 café 日本", ("staff",))
    assert [event.text for event in await store.events(fork)][-2:] == ["in the fork", "fork answer"]
    waits, runs, unclear = (SessionKey(app, *names) for names in (("bob", "waits"), ("bob", "runs"), ("eve", "unclear")))
    waiting = await check_fold(store, waits)
    assert [wait.id for _, _, wait in waiting.head.waiting()] == ["w-1"]
    queued, refused_ = await store.inbox.queued(waits), await store.inbox.receipt(waits, "m-3")
    assert queued is not None
    assert refused_ is not None
    assert (queued.id, refused_.state, refused_.problem) == ("m-2", "refused", "It was not allowed.")
    assert [config.id for config in await store.pushes.list(waits, "m-1")] == ["p-1"]
    assert [job.agent for job in await store.jobs.claim(app, Lease("jobs", 60.0), limit=9)] == ["help"]
    assert (await opened(store, unclear)).head.offered == ("help", "sales")
    assert set(await store.leases.due(app)) == {waits, runs}
    running = await opened(store, runs)
    taken = await store.take(running, Lease("other", 60.0), [rewinds(2)])
    assert (taken.stop, [event.text for event in await store.events(runs)]) == ("i-1", ["run", ""])
    new = Message(id="m-new", content=text_content("hello", "user"))
    for key in (plain, fork, unclear):
        now = await opened(store, key)
        later = asked(invocation="i-new").replace(created_at=NOW + timedelta(days=1))
        started = await store.begin(now, Lease("new", 60.0), new, [later], queue_limit=None)
        await store.append(started, [ended(invocation="i-new", text="goes on")], release=True)
        assert (await store.events(key, last=1))[0].text == "goes on"
        await check_fold(store, key, {"given": 1} if key in (plain, fork) else {})
    names = [decision.key.id for decision in (await store.decisions.search(app)).items]
    assert names.count("plain") == names.count("fork") == 5
    page = await store.decisions.search(app, filter=DecisionFilter(words="question CAFÉ"), key=plain)
    assert [each.sequence for each in page.items] == [7, 4, 1]
    page = await store.decisions.search(app, filter=DecisionFilter(label="sales"))
    assert [(each.key, each.sequence) for each in page.items] == [(plain, 1)]


@pytest.mark.parametrize("copies", [1, 50])
def test_rows_of_every_kind_are_moved_from_0005(new_url: NewUrl, copies: int) -> None:
    """One app fits one transaction, 50 need several."""
    url, reference = new_url(), new_url()
    fifth_version(url, copies)

    async def check(store: SqlSessionStore) -> None:
        for app in {f"desk-{copy}" for copy in (0, copies // 2, copies - 1)}:
            await check_fifth(store, app)
        assert len((await store.list("desk-0")).items) == 6

    using(url, check)
    migrate(reference)
    assert on(url, shape) == on(reference, shape)


def test_a_move_that_was_cut_off_goes_on(new_url: NewUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any number of transactions, with sessions cut in the middle."""
    monkeypatch.setattr(schema, "STEP_ROWS", 3)
    for steps in (0, 1, 5, 14):
        url = new_url()
        fifth_version(url, 2)
        on(url, lambda connection: command.upgrade(alembic_config(connection), SCHEMA))
        for _ in range(steps):
            assert on(url, schema.move_some), "this was to be cut off before the end"
        for copy in (0, 1):
            using(url, partial(check_fifth, app=f"desk-{copy}"))
