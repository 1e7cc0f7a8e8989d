"""Labels, legal holds, the audit log and the erasure of a user, on SQLite (on disk and in memory) and PostgreSQL."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text
from store_play import on

from turnwise.access.api_keys import new_key
from turnwise.facts.callers import Caller
from turnwise.facts.errors import CursorInvalid, InvocationMissing, UserOnHold
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import LearnedExample
from turnwise.ports.decisions import DecisionFilter, Label
from turnwise.ports.definitions import Author, Definition
from turnwise.ports.pushes import PushConfig
from turnwise.ports.records import Act, AuditEntry, Hold
from turnwise.stores.sql import SqlSessionStore, removals, words
from turnwise.stores.sql.labels import MOST_CHANGES
from turnwise.testing.session_store_cases.making import fresh_id, fresh_key, message, refused, told, writes

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(url: str) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(url)
    yield store
    asyncio.run(store.close())


def a_hold(user: str, id_: str = "") -> Hold:
    return Hold(id=id_ or fresh_id("hold"), user=user, author="boss", at=NOW, reason="a lawsuit")


async def acts(store: SqlSessionStore, app: str) -> list[tuple[str, str, str | None, str | None]]:
    """The entries of the audit log, oldest first."""
    found: list[AuditEntry] = list((await store.audit.list(app)).items)
    return [(each.actor, each.action, each.user, each.session) for each in reversed(found)]


async def test_several_authors_label_one_decision(store: SqlSessionStore) -> None:
    """E4"""
    key = fresh_key()
    await told(store, key, "i-1", "i-2")
    written = [
        Label(source="model", author="judge", agent="billing", weight=0.2, picked="random", probability=0.25),
        Label(source="model", author="other", agent="help", weight=0.7, unsure=True, note="ä doubt"),
        Label(source="user", agent=None, weight=0.1),
    ]
    for label in written:
        await store.labels.put(key, 1, label, actor="test")
    found = await store.labels.of(key, 1)
    assert [each.label.replace(at=None) for each in found] == [written[1], written[0], written[2]]
    (decision, *_) = (await store.decisions.search(key.app)).items
    selection = decision.selection
    assert {(each.key, each.sequence, each.invocation_id, each.decided_at) for each in found} == {
        (key, 1, "i-1", decision.created_at)
    }
    assert {(each.agent, each.method, each.confidence, each.outcome, each.fingerprint) for each in found} == {
        (selection.agent, selection.method, selection.confidence, selection.outcome, selection.fingerprint)
    }
    assert await store.labels.of(key, 3) == await store.labels.of(key, 2) == []


async def test_the_newest_label_of_operators_is_shown_else_the_heaviest(store: SqlSessionStore) -> None:
    """E4"""
    key = fresh_key()
    await told(store, key, "i-1")

    async def shown() -> str | None:
        found = await store.decisions.find(key, 1)
        assert found is not None
        assert (await store.decisions.search(key.app)).items == (found,)
        return found.label

    await store.labels.put(key, 1, Label(source="model", author="a", agent="heavy", weight=9), actor="a")
    await store.labels.put(key, 1, Label(source="user", author="b", agent="light"), actor="b")
    assert await shown() == "heavy"
    await store.labels.put(key, 1, Label(author="op-1", agent="first", weight=2), actor="op-1")
    await store.decisions.label(key, 1, "second", actor="op-2")
    assert await shown() == "second"
    await store.labels.put(key, 1, Label(author="op-1", agent="first again", weight=0), actor="op-1")
    assert await shown() == "first again"
    await store.decisions.label(key, 1, None, actor="op-2")
    assert await shown() == "heavy", "None removes the labels of operators only"


async def test_every_change_of_a_label_is_recorded(store: SqlSessionStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    label = Label(source="user", author="u", agent="a")
    await store.labels.put(key, 1, label, actor="one")
    await store.labels.put(key, 1, label, actor="two")
    await store.labels.put(key, 1, label.replace(agent=None), actor="three")
    assert await store.labels.remove(key, 1, "user", "u", actor="four")
    assert not await store.labels.remove(key, 1, "user", "u", actor="five")
    assert not await store.labels.remove(key, 99, "user", "u", actor="five")
    changes = [
        (each.actor, each.before and each.before.agent, each.after and each.after.agent, each.after is None)
        for each in await store.labels.changes(key, 1)
    ]
    assert changes == [("one", None, "a", False), ("three", "a", None, False), ("four", None, None, True)]
    assert await acts(store, key.app) == [
        (actor, action, key.user, key.id)
        for actor, action in (("one", "label.put"), ("three", "label.put"), ("four", "label.removed"))
    ]
    await refused(store.labels.put(key, 2, label, actor="x"), InvocationMissing)
    await refused(store.labels.put(fresh_key(), 1, label, actor="x"), InvocationMissing)


async def test_a_toggled_rating_fills_no_log(store: SqlSessionStore) -> None:
    """H2"""
    key = fresh_key()
    await told(store, key, "i-1")
    ratings = [Label(source="user", author="ada", agent=f"agent {number % 7}") for number in range(3 * MOST_CHANGES)]
    for rating in ratings:
        await store.labels.put(key, 1, rating, actor="ada")
        await store.labels.put(key, 1, Label(source="user", author="bob", agent="b"), actor="bob")
    changes = await store.labels.changes(key, 1)
    own = [each for each in changes if each.author == "ada"]
    assert (len(own), len(changes), len(await acts(store, key.app))) == (MOST_CHANGES, MOST_CHANGES + 1, MOST_CHANGES + 1)
    last = own[-1]
    assert last.before is not None
    assert last.after is not None
    assert (last.before.agent, last.after.agent) == (ratings[MOST_CHANGES - 2].agent, ratings[-1].agent)
    assert await store.labels.remove(key, 1, "user", "ada", actor="ada")
    assert (await store.labels.changes(key, 1))[-1].after is None
    for number in range(MOST_CHANGES + 5):
        await store.labels.put(key, 1, Label(author="op", agent=f"agent {number % 7}"), actor="op")
    assert len(await store.labels.changes(key, 1)) == 2 * MOST_CHANGES + 6


async def test_labels_are_paged(store: SqlSessionStore) -> None:
    key = fresh_key()
    other = key._replace(user="user-2")
    await told(store, key, "i-1", "i-2", "i-3")
    await told(store, other, "i-4")
    for each, sequence in ((key, 5), (other, 1), (key, 1), (key, 3)):
        await store.labels.put(each, sequence, Label(agent="a"), actor="x")
    await store.labels.put(key, 1, Label(source="model", agent="a"), actor="x")
    found, after = [], None
    while True:
        page = await store.labels.search(key.app, user=key.user, source="operator", after=after, limit=2)
        found += [each.sequence for each in page.items]
        if (after := page.next) is None:
            break
    assert found == [5, 1, 3]
    assert len((await store.labels.search(key.app)).items) == 5
    await refused(store.labels.search(key.app, after="x"), CursorInvalid)


async def test_one_reviewer_has_a_decision_until_the_claim_expires(store: SqlSessionStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1")
    claims = await asyncio.gather(*(store.labels.claim(key, 1, f"r-{n}", seconds=600) for n in range(5)))
    (holder,) = {claim.reviewer for claim in claims}
    again = await store.labels.claim(key, 1, holder, seconds=10_000)
    assert (again.reviewer, again.seconds > 600) == (holder, True)
    await store.labels.unclaim(key, 1, "somebody else")
    assert (await store.labels.claim(key, 1, "late", seconds=0)).reviewer == holder
    await store.labels.unclaim(key, 1, holder)
    assert (await store.labels.claim(key, 1, "late", seconds=0)).reviewer == "late"
    assert (await store.labels.claim(key, 1, "later", seconds=60)).reviewer == "later", "the claim of 0 seconds is over"
    await refused(store.labels.claim(key, 2, "x", seconds=1), InvocationMissing)


async def test_a_hold_prevents_deletion_until_it_is_removed(store: SqlSessionStore) -> None:
    """A44"""
    key = fresh_key()
    other = key._replace(user="user-2")
    for each in (key, other):
        await told(store, each, "i-1")
    hold = a_hold(key.user)
    await store.holds.add(key.app, hold)
    await store.holds.add(key.app, hold)
    assert await store.holds.list(key.app) == await store.holds.list(key.app, user=key.user) == [hold]
    assert await store.holds.list(key.app, user="user-2") == await store.holds.list(key.app + "x") == []
    for call in (store.delete(key), store.delete_user(key.app, key.user)):
        error = await refused(call, UserOnHold)
        assert hold.id in str(error)
        assert hold.reason not in f"{error}{error.fix}"
    assert len(await store.events(key)) == 2
    await store.delete_user(key.app, other.user)
    assert not await store.holds.remove(key.app + "x", hold.id, actor="boss")
    assert await store.holds.remove(key.app, hold.id, actor="boss")
    assert not await store.holds.remove(key.app, hold.id, actor="boss")
    await store.delete(key, actor="boss")
    assert [act[:3] for act in await acts(store, key.app)] == [
        ("boss", "hold.added", key.user),
        ("", "user.erased", None),
        ("boss", "hold.removed", key.user),
        ("boss", "session.deleted", key.user),
    ]


async def test_the_audit_log_is_paged_newest_first(store: SqlSessionStore) -> None:
    app = fresh_key().app
    for number in range(5):
        await store.audit.record(app, Act("a", f"act.{number % 2}", f"u-{number}", details={"n": number}))
    await store.audit.record(app + "x", Act("a", "act.0"))
    page = await store.audit.list(app, limit=3)
    rest = await store.audit.list(app, after=page.next, limit=3)
    assert [entry.details["n"] for entry in (*page.items, *rest.items)] == [4, 3, 2, 1, 0]
    assert rest.next is None
    assert [entry.user for entry in (await store.audit.list(app, action="act.1")).items] == ["u-3", "u-1"]
    assert [entry.details for entry in (await store.audit.list(app, user="u-2")).items] == [{"n": 2}]


def rows_with(word: str) -> Callable[[Connection], dict[str, int]]:
    def find(connection: Connection) -> dict[str, int]:
        found = {}
        for table in inspect(connection).get_table_names():
            # The index of words cannot be read; it loses a row with its decision.
            if table.startswith("turnwise_") and not table.startswith(words.TABLE):
                rows = [str(tuple(row)) for row in connection.execute(text(f"SELECT * FROM {table}"))]
                if number := sum(word in row for row in rows):
                    found[table] = number
        return found

    return find


async def fill(store: SqlSessionStore, key: SessionKey) -> None:
    """Puts the user's id and text into every table."""
    session = await told(store, key, "i-1", text=f"I am {key.user}")
    await store.append(session, [writes({"user:name": key.user, "s": key.user})])
    await store.inbox.accept(key, message(f"I am {key.user}"), create=False, limit=10)
    await store.labels.put(key, 1, Label(agent="a", author="op", note=f"{key.user} says"), actor="op")
    await store.labels.claim(key, 1, "op", seconds=60)
    caller = Caller(id=f"token:{key.user}", user=key.user)
    await store.pushes.put(key, "m", PushConfig(id="p", url="https://x.example", caller=caller), after=0, most=5)
    await store.audit.record(key.app, Act("op", "looked", key.user, key.id, {"quote": f"I am {key.user}"}))
    await store.holds.add(key.app, a_hold(key.user, f"h-{key.user}"))
    await store.holds.remove(key.app, f"h-{key.user}", actor="op")
    await store.keys.add(key.app, new_key("name", NOW, role="user", user=key.user)[1])


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("step", [2, 500])
async def test_no_table_holds_an_erased_user(
    store: SqlSessionStore, url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A44: also where the user acted on the data of others, and in the sessions' forks."""
    monkeypatch.setattr(removals, "STEP_ROWS", step)
    key = fresh_key()
    gone, kept = key._replace(user=fresh_id("gone")), key._replace(user=fresh_id("kept"))
    for each in (gone, gone._replace(id="session-2"), kept):
        await fill(store, each)
    await store.fork(gone, "fork")
    for author in (gone.user, f"token:{gone.user}"):
        await store.labels.put(kept, 1, Label(agent="a", author=author, note=f"by {gone.user}"), actor=author)
        await store.holds.add(kept.app, a_hold("third").replace(author=author))
        await store.audit.record(kept.app, Act(author, "looked", kept.user))
    await store.labels.unclaim(kept, 1, "op")
    await store.labels.claim(kept, 1, gone.user, seconds=60)
    before = on(url, rows_with(kept.user))
    assert {f"turnwise_{name}" for name in ("labels", "label_changes", "audit", "holds", "keys", "pushes", "messages")} < set(
        on(url, rows_with(gone.user))
    )
    await store.delete_user(key.app, gone.user, actor=f"token:{gone.user}")
    assert on(url, rows_with(gone.user)) == {}
    after = on(url, rows_with(kept.user))
    assert after == {table: number for table, number in before.items() if table != "turnwise_label_claims"}
    assert len(await store.labels.of(kept, 1)) == 3, "labels of the erased user on other data stay, without the name"
    assert "user.erased" in [act[1] for act in await acts(store, key.app)]
    assert (await store.audit.list(key.app, user=gone.user)).items == ()


async def test_examples_learned_from_an_erased_user_are_retired(store: SqlSessionStore, url: str) -> None:
    """H4: in every version. What serves becomes a new version, which other processes load; drafts stay drafts."""
    key = fresh_key()
    gone, kept = 'a "quoted" 100% üser', key.user
    mine = LearnedExample(text="the words of one who goes", user=gone, session="s", sequence=1)
    theirs = LearnedExample(text="other words", user=kept, session="s", sequence=3)
    author = Author("op", NOW)
    put = store.definitions.put
    first = Definition(name="billing", examples=("Where is my bill?",), learned=(mine, theirs))
    draft = first.replace(status="draft", learned=(theirs, mine, mine.replace(text="more of such words")))
    await put(key.app, [first, Definition(name="orders", description="as user"), draft.replace(name="new")], {}, author)
    await put(key.app, [draft], {("agent", "billing"): 1}, author)
    revision = await store.definitions.revision(key.app)
    await store.delete_user(key.app, gone, actor="boss")
    assert on(url, rows_with("words of one who goes")) == on(url, rows_with("more of such words")) == {}
    served = await store.definitions.served(key.app, after=revision)
    assert [(each.name, each.version, each.learned, each.examples) for each in served.agents] == [
        ("billing", 3, (theirs,), ("Where is my bill?",))
    ]
    assert served.revision > revision
    versions = [(each.version, each.status) for each in (await store.definitions.history(key.app, "agent", "billing")).items]
    assert versions == [(3, "active"), (2, "draft"), (1, "active")]
    (new,) = (await store.definitions.history(key.app, "agent", "new")).items
    assert (new.status, new.version, new.content["learned"]) == (
        "draft",
        1,
        first.replace(learned=(theirs,)).content["learned"],
    )
    listed = await store.audit.list(key.app, action="examples.retired")
    assert sorted((each.details["agent"], each.details["examples"]) for each in listed.items) == [("billing", 2), ("new", 2)]
    await store.delete_user(key.app, gone, actor="boss")
    assert len((await store.audit.list(key.app, action="examples.retired")).items) == 2


async def test_the_search_finds_the_label_that_counts(store: SqlSessionStore) -> None:
    """E4: also after several writers at once, and a label that no agent should have been chosen is a label."""
    key = fresh_key()
    await told(store, key, "i-1", "i-2")

    async def found(**filter_: Any) -> list[int]:
        page = await store.decisions.search(key.app, filter=DecisionFilter(**filter_))
        return [each.sequence for each in page.items]

    await asyncio.gather(
        *(
            store.labels.put(key, 1, Label(source="model", author=f"{n}", agent=f"a-{n}", weight=n), actor="x")
            for n in range(1, 9)
        )
    )
    assert (await found(label="a-8"), await found(label="a-1"), await found(labelled=True)) == ([1], [], [1])
    await store.labels.put(key, 1, Label(author="op", agent=None), actor="op")
    assert (await found(label="a-8"), await found(labelled=True), await found(contradicted=True)) == ([], [1], [1])
    assert await found(labelled=False) == [3]
    assert await store.labels.remove(key, 1, "operator", "op", actor="op")
    assert await found(label="a-8") == [1]
    await asyncio.gather(
        *(store.labels.remove(key, 1, "model", f"{n}", actor="x") for n in range(1, 9)),
        store.labels.put(key, 3, Label(agent="b"), actor="x"),
    )
    assert (await found(labelled=True), await found(label="b"), await found(labelled=False)) == ([3], [3], [1])


async def test_a_search_adds_all_labels_if_it_is_asked(store: SqlSessionStore) -> None:
    """E4: of decisions of an app, of a session, and of those that a fork inherited; in the order of `Labels.of`."""
    key, other = fresh_key(), fresh_key()
    await told(store, key, "i-1", "i-2", "i-3")
    await told(store, other, "i-4")
    await store.labels.put(other, 1, Label(agent="theirs"), actor="x")
    for label in (
        Label(source="user", agent=None, unsure=True, weight=0.5),
        Label(source="signal", agent="b", weight=0.7, note="ä"),
        Label(author="op", agent="c", picked="random", probability=0.1),
    ):
        await store.labels.put(key, 1, label, actor="x")
    await store.labels.put(key, 5, Label(source="user", agent=None), actor="x")
    fork = await store.fork(key, "fork")
    known = {sequence: [each.label for each in await store.labels.of(key, sequence)] for sequence in (1, 3, 5)}
    assert [len(each) for each in known.values()] == [3, 0, 1]
    for asked in (
        {},
        {"brief": True},
        {"key": key},
        {"key": key, "oldest_first": True, "brief": True},
        {"key": fork.key},
        {"user": key.user, "limit": 2},
    ):
        found = await store.decisions.search(key.app, labels=True, **asked)
        assert len(found.items) == asked.get("limit", 3)
        assert [list(each.labels) for each in found.items] == [known[each.sequence] for each in found.items], asked
    assert all(not each.labels for each in (await store.decisions.search(key.app)).items)


async def test_a_user_who_comes_back_during_the_erasure_keeps_what_is_new(store: SqlSessionStore) -> None:
    """A44, E7: the process that erases dies after its first step; another one continues."""
    key = fresh_key()
    await fill(store, key)

    await store._executor.write(lambda connection: removals.hide_user(connection, key.app, key.user, "boss", "2026-01-01"))
    assert (await store.open(key), await store.keys.list(key.app)) == (None, [])
    await told(store, key, "new", text="new words")
    await store.labels.put(key, 1, Label(agent="a", author="op"), actor="op")
    hold = a_hold(key.user)
    await store.holds.add(key.app, hold)
    while await store.maintenance.finish_deletions():
        continue
    assert [event.text for event in await store.events(key)][:1] == ["new words"]
    assert len(await store.labels.of(key, 1)) == 1
    assert [each.id for each in await store.holds.list(key.app)] == [hold.id]
    assert (await store.decisions.search(key.app, filter=DecisionFilter(words=key.user))).items == ()
    await refused(store.delete_user(key.app, key.user), UserOnHold)
