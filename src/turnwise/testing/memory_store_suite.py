"""Conformance suite for the memory of a `SessionStore`: test cases that a test calls.

    @pytest.mark.parametrize("case", memory_store_suite.CASES, ids=lambda case: case.__name__)
    def test_my_memory(case):
        asyncio.run(case(MyStore()))

Each case uses a new app, so all cases may share one store; the test closes it. A case fails with AssertionError.
`SHARED_CASES` take a function that opens several handles on the same data, like several processes, and close them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import JsonValue

from turnwise.facts.errors import CursorInvalid, SessionMissing
from turnwise.facts.events import StepRecord
from turnwise.facts.memory import FORGOTTEN, Entity, MemoryEntry, MemorySource, Recalled
from turnwise.facts.sessions import SessionKey
from turnwise.ports.memory import MemoryFilter, MemoryReader, QueryVector
from turnwise.ports.stores import SessionStore
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.session_store_cases.making import (
    Case,
    SharedCase,
    at_once,
    fresh_key,
    lost,
    opened,
    refused,
    rewinds,
    said,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def entry(id: str, text: str, **fields: Any) -> MemoryEntry:
    """Returns an entry with these fields and defaults for the others."""
    return MemoryEntry(**{"id": id, "text": text, "created_at": NOW, **fields})


def order(id: str, number: str, **fields: Any) -> MemoryEntry:
    """Returns an entity: an order with this number."""
    return entry(
        id, f"order {number}", kind="entity", entity=Entity(type="order", value=f"Order {number}", normal=number), **fields
    )


async def recalled(store: SessionStore, key: SessionKey, query: str, **options: Any) -> list[str]:
    """Returns the ids that a search finds, best first."""
    return [each.entry.id for each in await store.memory.search(key.app, key.user, query, **options)]


async def listed(store: SessionStore, key: SessionKey, **options: Any) -> list[str]:
    """Returns the ids of the newest entries."""
    return [each.id for each in (await store.memory.recent(key.app, key.user, **options)).items]


async def noted(store: SessionStore, key: SessionKey, *entries: MemoryEntry, invocation: str = "i-1", **actions: Any) -> int:
    """Appends an event with the entries to the session, which is created if need be. Returns the event's number."""
    session = await store.open(key) or await store.create(key)
    await store.append(session, [said("help", "noted", invocation=invocation, remembered=tuple(entries), **actions)])
    return session.last_sequence + 1


async def rewound(store: SessionStore, key: SessionKey, from_sequence: int) -> None:
    await store.append(await opened(store, key), [rewinds(from_sequence)])


async def an_entry_comes_back_as_it_was(store: SessionStore) -> None:
    key = fresh_key()
    await store.create(key)
    full = order(
        "e-1",
        "10412",
        session=key.id,
        span="short",
        expires_at=datetime.now(UTC).replace(microsecond=0) + timedelta(days=1),
        said_by="document",
        agent="shop",
        roles=("staff",),
        supersedes=("e-0",),
    )
    plain = entry("e-2", "Straße – 東京 🔑")
    stored = await store.memory.remember(key.app, key.user, [full, plain])
    assert list(stored) == [full, plain]
    assert await store.memory.get(key.app, key.user, "e-1") == full
    assert await store.memory.get(key.app, key.user, "e-3") is None
    assert await listed(store, key) == ["e-2", "e-1"], "newest first"


async def an_id_is_remembered_once(store: SessionStore) -> None:
    """G2."""
    key = fresh_key()
    first, again = entry("same", "She likes tea."), entry("same", "She likes coffee.")
    await store.memory.remember(key.app, key.user, [first])
    assert list(await store.memory.remember(key.app, key.user, [again, again])) == [first, first]
    session = await store.create(key)
    event = said("help", "noted", remembered=(entry("other", "She likes cake."),))
    session = await store.append(session, [event])
    await store.append(session, [event])
    assert await listed(store, key) == ["other", "same"]
    assert await recalled(store, key, "coffee") == []


async def words_find_entries(store: SessionStore) -> None:
    """G4: by words, the rarer word more."""
    key = fresh_key()
    texts = {"a": "The blue bicycle is in the garage.", "b": "The red car is in the garage.", "c": "Nothing of that."}
    await store.memory.remember(key.app, key.user, [entry(id_, text) for id_, text in texts.items()])
    assert await recalled(store, key, "Where is my BICYCLE?") == ["a"]
    assert sorted(await recalled(store, key, "garage")) == ["a", "b"]
    assert (await recalled(store, key, "red garage"))[0] == "b"
    for nothing in ("", " ", "?!", "\0", "xyzzy", "the"):
        assert await recalled(store, key, nothing) == []
    assert await recalled(store, key, "bicycle " * 125_000) == ["a"], "a query of 1 MB"


async def words_find_entries_of_any_age(store: SessionStore) -> None:
    """G4: the newest as well as older ones, also after some were remembered again or forgotten."""
    key = fresh_key()
    texts = {f"e-{n}": f"Ann: tea number{n} of {n % 7} kinds" for n in range(80)}
    made = [entry(id_, text) for id_, text in texts.items()]
    for some in (made[:3], made[:60], made[55:63], made[60:61], made[60:64], *([each] for each in made[63:])):
        await store.memory.remember(key.app, key.user, some)
        assert (await recalled(store, key, some[-1].text))[0] == some[-1].id
    wanted = ("e-0", "e-2", "e-3", "e-59", "e-60", "e-62", "e-63", "e-64", "e-65", "e-79")
    for id_ in wanted:
        assert (await recalled(store, key, texts[id_]))[0] == id_
    await store.memory.forget(key.app, key.user, ids=wanted)
    for id_ in wanted:
        assert await recalled(store, key, f"number{id_[2:]}") == []
    assert (await recalled(store, key, texts["e-78"]))[0] == "e-78"
    assert len(await store.memory.search(key.app, key.user, "tea", limit=100)) == 70


async def vectors_find_entries(store: SessionStore) -> None:
    """G4: by meaning, with the vectors of one encoder; words find what has none."""
    key, encoder = fresh_key(), BagOfWordsEncoder()
    name = encoder.fingerprint
    await store.memory.remember(key.app, key.user, [entry(str(n), f"alpha{n} beta{n}") for n in range(70)])
    query = QueryVector(name, encoder.encode(["alpha3 beta3"])[0])
    assert (await recalled(store, key, "alpha3", vector=query)) == ["3"]
    done = 0
    while texts := await store.memory.unencoded(key.app, key.user, name, limit=30):
        numbers = [each.number for each in texts]
        vectors = encoder.encode([each.text for each in texts])
        await store.memory.put_vectors(key.app, key.user, name, numbers, vectors)
        await store.memory.put_vectors(key.app, key.user, name, numbers, vectors)
        done += len(texts)
    assert done == 70, "each is encoded once"
    assert (await recalled(store, key, "?", vector=query))[0] == "3", "no word fits"
    await store.memory.remember(key.app, key.user, [entry("new", "alpha3 beta3 gamma")])
    assert set((await recalled(store, key, "gamma", vector=query))[:2]) == {"3", "new"}
    other = QueryVector("another encoder", query.vector)
    assert await recalled(store, key, "?", vector=other) == []
    await store.memory.remember(key.app, key.user, [entry(f"more-{n}", f"delta{n}") for n in range(600)])
    texts = await store.memory.unencoded(key.app, key.user, name, limit=1_000)
    numbers = [each.number for each in texts]
    await store.memory.put_vectors(key.app, key.user, name, numbers, encoder.encode([each.text for each in texts]))
    assert not await store.memory.unencoded(key.app, key.user, name), "a batch of more than a block"
    assert {"3", "new"} == set((await recalled(store, key, "?", vector=query))[:2])
    await store.memory.forget(key.app, key.user, ids=["3"])
    assert "3" not in await recalled(store, key, "?", vector=query)


async def an_emptied_memory_can_be_searched(store: SessionStore) -> None:
    """G4: also with the vectors that a search before has read."""
    key, encoder = fresh_key(), BagOfWordsEncoder()
    query = QueryVector(encoder.fingerprint, encoder.encode(["alpha"])[0])
    await store.memory.remember(key.app, key.user, [entry("only", "alpha")])
    (text,) = await store.memory.unencoded(key.app, key.user, encoder.fingerprint)
    await store.memory.put_vectors(key.app, key.user, encoder.fingerprint, [text.number], encoder.encode([text.text]))
    assert await recalled(store, key, "alpha", vector=query) == ["only"]
    await store.memory.forget(key.app, key.user, ids=["only"])
    assert await recalled(store, key, "alpha", vector=query) == []
    await store.memory.remember(key.app, key.user, [entry("next", "alpha")])
    assert await recalled(store, key, "alpha", vector=query) == ["next"]


async def memory_is_of_one_user(store: SessionStore) -> None:
    """G4: another user's entries are as if they were not there."""
    key = fresh_key()
    other = key._replace(user="user-2")
    await store.memory.remember(key.app, key.user, [order("e-1", "10412")])
    for stranger in (other, key._replace(app=f"{key.app}-2")):
        app, user = stranger.app, stranger.user
        assert await recalled(store, stranger, "order 10412") == []
        assert await listed(store, stranger) == []
        assert await store.memory.get(app, user, "e-1") is None
        assert await store.memory.entities(app, user, normals=["10412"]) in ([], ())
        assert await store.memory.forget(app, user, ids=["e-1"]) == 0
        assert await store.memory.forget(app, user) == 0
        assert not await store.memory.unencoded(app, user, "x")
    await store.memory.remember(other.app, other.user, [entry("e-1", "Something else.")])
    assert (await store.memory.get(key.app, key.user, "e-1") or entry("", "")).text == "order 10412"


async def a_rewind_hides_what_came_with_its_events(store: SessionStore) -> None:
    """G2."""
    key = fresh_key()
    elsewhere = MemoryReader(session=key._replace(id="session-2"))
    at = await noted(store, key, entry("e-1", "She lives in Berlin."))
    await noted(store, key, entry("e-2", "She has a cat.", session=key.id), invocation="i-2")
    assert await listed(store, key, reader=MemoryReader(session=key)) == ["e-2", "e-1"]
    assert await listed(store, key, reader=elsewhere) == ["e-1"], "e-2 belongs to its session"
    await rewound(store, key, at + 1)
    assert await listed(store, key) == ["e-1"]
    await rewound(store, key, at)
    for reader in (MemoryReader(), MemoryReader(session=key), elsewhere):
        assert await listed(store, key, reader=reader) == []
        assert await recalled(store, key, "Berlin cat", reader=reader) == []
    await noted(store, key, entry("e-1", "", session=None))
    assert await listed(store, key) == ["e-1"], "a new attempt that repeats a step notes it again"


async def a_rewind_brings_back_what_was_replaced(store: SessionStore) -> None:
    """G6: an entry is replaced as long as the newer one can be seen; history stays."""
    key = fresh_key()
    await noted(store, key, entry("e-1", "She lives in Berlin."))
    at = await noted(store, key, entry("e-2", "She lives in Paris.", supersedes=("e-1",)), invocation="i-2")
    await noted(store, key, entry("e-3", "She lives in Rome.", supersedes=("e-2",)), invocation="i-3")
    assert await recalled(store, key, "lives") == ["e-3"]
    assert await listed(store, key) == ["e-3"]
    assert await listed(store, key, superseded=True) == ["e-3", "e-2", "e-1"]
    await rewound(store, key, at + 1)
    assert await recalled(store, key, "lives") == ["e-2"]
    await rewound(store, key, at)
    assert await recalled(store, key, "lives") == ["e-1"]
    assert await listed(store, key) == ["e-1"]


async def a_fork_sees_what_was_there(store: SessionStore) -> None:
    """G2: what a session noted before the fork, also after the session is rewound; not what it noted later."""
    key = fresh_key()
    at = await noted(store, key, entry("e-1", "She has a cat.", session=key.id))
    await store.fork(key, "fork")
    fork = key._replace(id="fork")
    await noted(store, key, entry("e-2", "She has a dog.", session=key.id), invocation="i-2")
    await noted(store, fork, entry("e-3", "She has a bird.", session="fork"), invocation="i-3")
    assert await listed(store, key, reader=MemoryReader(session=fork)) == ["e-3", "e-1"]
    assert await listed(store, key, reader=MemoryReader(session=key)) == ["e-2", "e-1"]
    await rewound(store, key, at)
    assert await listed(store, key, reader=MemoryReader(session=fork)) == ["e-3", "e-1"]
    assert await recalled(store, key, "cat dog bird", reader=MemoryReader(session=key)) == []


async def expired_entries_never_return(store: SessionStore) -> None:
    """G1."""
    key = fresh_key()
    past, soon = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(seconds=0.3)
    await store.memory.remember(
        key.app,
        key.user,
        [
            order("old", "1", span="working", expires_at=past),
            order("soon", "2", span="working", expires_at=soon),
            entry("kept", "order 3", supersedes=()),
            entry("newer", "order 4", supersedes=("kept",), span="short", expires_at=past),
        ],
    )
    assert set(await listed(store, key)) <= {"soon", "kept"}
    await asyncio.sleep(0.4)
    assert await recalled(store, key, "order 1 2 3 4") == ["kept"]
    assert not await store.memory.entities(key.app, key.user)
    assert await store.memory.get(key.app, key.user, "soon") is None
    assert await listed(store, key, superseded=True) == ["kept"]


async def entities_are_found_by_what_they_are(store: SessionStore) -> None:
    key = fresh_key()
    mail = Entity(type="email", value="Ann@x.org", normal="ann@x.org")
    await store.memory.remember(
        key.app,
        key.user,
        [order("o-1", "10412", agent="shop"), order("o-2", "777"), entry("m-1", "x", kind="entity", entity=mail)],
    )
    await store.memory.remember(key.app, key.user, [order("o-3", "10412", agent="returns")])

    async def found(**options: Any) -> list[str]:
        return [each.id for each in await store.memory.entities(key.app, key.user, **options)]

    assert await found() == ["o-3", "m-1", "o-2"], "each once, newest first"
    assert await found(types=["order"]) == ["o-3", "o-2"]
    assert await found(normals=["10412", "ann@x.org"]) == ["o-3", "m-1"]
    assert await found(types=["email"], normals=["10412"]) == []
    assert await found(limit=1) == ["o-3"]


async def roles_limit_what_is_seen(store: SessionStore) -> None:
    """G5: what an agent for some roles noted is seen by callers with one of them."""
    key = fresh_key()
    await store.memory.remember(
        key.app, key.user, [entry("open", "pay day"), entry("closed", "pay rise", roles=("staff", "boss"))]
    )
    for roles, ids in ((None, {"open", "closed"}), (frozenset[str](), {"open"}), (frozenset({"boss"}), {"open", "closed"})):
        reader = MemoryReader(roles=roles)
        assert set(await listed(store, key, reader=reader)) == ids
        assert set(await recalled(store, key, "pay", reader=reader)) == ids
        assert (await store.memory.get(key.app, key.user, "closed", reader=reader) is None) == ("closed" not in ids)


async def filters_and_pages_go_together(store: SessionStore) -> None:
    key = fresh_key()
    await store.create(key)
    await store.memory.remember(
        key.app,
        key.user,
        [
            *(entry(f"f-{n}", f"tea {n}", said_by="user" if n % 2 else "tool") for n in range(7)),
            entry("s", "tea of the session", session=key.id, kind="message"),
            entry("w", "tea now", span="working"),
            entry("t", "tea then", created_at=NOW - timedelta(days=9)),
        ],
    )
    all_ids, after = [], None
    while True:
        page = await store.memory.recent(key.app, key.user, after=after, limit=3)
        all_ids += [each.id for each in page.items]
        after = page.next
        if after is None:
            break
    assert all_ids == ["t", "w", "s", *(f"f-{n}" for n in reversed(range(7)))]
    for filter_, ids in (
        (MemoryFilter(kinds=["message"]), {"s"}),
        (MemoryFilter(spans=["working"]), {"w"}),
        (MemoryFilter(said_by=["user"]), {"f-1", "f-3", "f-5"}),
        (MemoryFilter(session=key.id), {"s"}),
        (MemoryFilter(session="nowhere"), set[str]()),
        (MemoryFilter(before=NOW), {"t"}),
        (MemoryFilter(since=NOW, spans=["working", "short"]), {"w"}),
        (MemoryFilter(kinds=[]), set[str]()),
    ):
        assert set(await listed(store, key, filter=filter_)) == ids, filter_
        assert set(await recalled(store, key, "tea", filter=filter_, limit=20)) == ids, filter_
    for wrong in ("x", "", after or "bm8"):
        await refused(store.memory.recent(key.app, key.user, after=wrong), CursorInvalid)


async def what_is_forgotten_is_gone(store: SessionStore) -> None:
    """G7: entries with those that they replace; those of a session; all of a user."""
    key = fresh_key()
    await noted(store, key, entry("e-1", "She lives in Berlin."), entry("e-2", "She lives in Rome.", supersedes=("e-1",)))
    await store.memory.remember(key.app, key.user, [entry("e-3", "She lives well.")])
    assert await store.memory.forget(key.app, key.user, ids=["e-2", "nothing", "\0"]) == 2
    assert await listed(store, key, superseded=True) == ["e-3"]
    await noted(store, key, entry("e-4", "She has a cat."), invocation="i-2")
    assert await store.memory.forget(key.app, key.user, session=key.id) == 1
    assert await listed(store, key) == ["e-3"]
    await store.memory.remember(key.app, key.user, [entry(f"n-{n}", f"number {n}") for n in range(250)])
    assert await store.memory.forget(key.app, key.user) == 251
    assert await listed(store, key, superseded=True) == []
    assert await recalled(store, key, "number lives") == []
    await store.memory.remember(key.app, key.user, [entry("e-5", "She is back.")])
    await noted(store, key, entry("e-6", "She is here."), invocation="i-3")
    await store.delete_user(key.app, key.user)
    assert await listed(store, key, superseded=True) == []


async def forgotten_texts_leave_recorded_steps(store: SessionStore) -> None:
    """G3, G7: a step that recalled it does not hold it any longer."""
    key = fresh_key()
    secret, short = entry("e-1", 'She is "ill"\nin bed.'), entry("e-2", "cat")
    await noted(store, key, secret, short)
    found: list[JsonValue] = [Recalled(entry=each, score=1.0).model_dump(mode="json") for each in (secret, short)]
    step = StepRecord(key="1:recall", value={"found": found, "told": f"It says: {secret.text}"}, recalled=("e-1", "e-2"))
    at = await noted(store, key, invocation="i-2", steps=(step,))
    await store.memory.forget(key.app, key.user, ids=["e-1", "e-2"])
    (event,) = await store.events(key, after=at - 1)
    value: Any = event.actions.steps[0].value
    assert [each["entry"]["text"] for each in value["found"]] == [FORGOTTEN, FORGOTTEN]
    assert value["told"] == f"It says: {FORGOTTEN}"
    assert "ill" not in "".join(each.model_dump_json() for each in await store.events(key, hidden=True))


async def sources_decide_what_can_be_seen(store: SessionStore) -> None:
    """An entry that names an event is hidden with it, and not stored when it is hidden already."""
    key = fresh_key()
    at = await noted(store, key)
    source = MemorySource(session=key.id, sequence=at)
    await store.memory.remember(key.app, key.user, [entry("e-1", "She has a cat.", source=source)])
    found = await store.memory.get(key.app, key.user, "e-1")
    assert found is not None
    assert found.source == source
    await rewound(store, key, at)
    assert await listed(store, key) == []
    assert not await store.memory.remember(key.app, key.user, [entry("e-2", "She has a dog.", source=source)])
    missing = MemorySource(session="nowhere", sequence=1)
    await refused(store.memory.remember(key.app, key.user, [entry("e-3", "x", source=missing)]), SessionMissing)
    await refused(store.memory.remember(key.app, key.user, [entry("e-4", "x", session="nowhere")]), SessionMissing)


async def handles_share_a_memory(open_store: Any) -> None:
    """Two processes: what one notes, replaces, rewinds or forgets the other sees at once, also in what it keeps in memory."""
    key, one, two = fresh_key(), open_store(), open_store()
    try:
        at = await noted(one, key, entry("e-1", "She likes tea."))
        assert await recalled(two, key, "tea") == ["e-1"]
        await noted(one, key, entry("e-2", "She likes green tea.", supersedes=("e-1",)), invocation="i-2")
        assert await recalled(two, key, "tea") == ["e-2"]
        await rewound(one, key, at + 1)
        assert await recalled(two, key, "tea") == ["e-1"]
        await one.memory.forget(key.app, key.user, ids=["e-1"])
        assert await recalled(two, key, "tea") == []
        await one.memory.forget(key.app, key.user)
        await one.memory.remember(key.app, key.user, [entry("e-9", "He likes milk.")])
        assert await recalled(two, key, "milk tea") == ["e-9"]
    finally:
        await one.close()
        await two.close()


async def handles_see_the_changes_of_many_entries(open_store: Any) -> None:
    """A process that reads a long memory for the first time sees every change of it, like one that knew it before."""
    key, one, two = fresh_key(), open_store(), open_store()
    stores = [one, two]
    try:
        notes = [entry(f"e-{number}", f"tea number{number}") for number in range(700)]
        for first in range(0, 700, 100):
            at = await noted(one, key, *notes[first : first + 100], invocation=f"i-{first}")
        await noted(one, key, entry("e-701", "tea newer", supersedes=("e-2",)), invocation="i-last")
        assert await recalled(two, key, "tea newer", limit=1) == ["e-701"]
        assert await recalled(two, key, "number2") == []
        await rewound(one, key, at)
        secret = entry("f-300", "tea secret", roles=("staff",), said_by="operator")
        await one.memory.remember(key.app, key.user, [secret, *(entry(f"f-{n}", f"more{n}") for n in range(300))])
        await one.memory.forget(key.app, key.user, ids=["e-1", "f-299"])
        stores.append(open_store())
        for store in stores:
            for number, is_there in ((0, True), (1, False), (2, True), (599, True), (600, False), (699, False)):
                assert bool(await recalled(store, key, f"number{number}", limit=1)) is is_there
            assert await recalled(store, key, "more0 more299") == ["f-0"]
            by_operators = MemoryFilter(said_by=frozenset({"operator"}))
            assert await recalled(store, key, "tea", filter=by_operators) == ["f-300"]
            assert await recalled(store, key, "secret", reader=MemoryReader(roles=frozenset())) == []
    finally:
        for store in stores:
            await store.close()


async def handles_write_a_memory_at_once(open_store: Any) -> None:
    """Entries noted at once are all stored, once."""
    key = fresh_key()
    stores: Sequence[Any] = [open_store() for _ in range(3)]
    try:

        def batch(number: int) -> Iterable[MemoryEntry]:
            return [entry(f"e-{n}", f"number {n}") for n in range(number * 4, number * 4 + 8)]

        results = await at_once(
            store.memory.remember(key.app, key.user, list(batch(number))) for number in range(6) for store in stores
        )
        assert lost(results) == []
        assert sorted(await listed(stores[0], key, limit=100)) == sorted({f"e-{n}" for n in range(28)})
    finally:
        for store in stores:
            await store.close()


CASES: tuple[Case, ...] = (
    an_entry_comes_back_as_it_was,
    an_id_is_remembered_once,
    words_find_entries,
    words_find_entries_of_any_age,
    vectors_find_entries,
    memory_is_of_one_user,
    a_rewind_hides_what_came_with_its_events,
    a_rewind_brings_back_what_was_replaced,
    a_fork_sees_what_was_there,
    expired_entries_never_return,
    entities_are_found_by_what_they_are,
    roles_limit_what_is_seen,
    filters_and_pages_go_together,
    what_is_forgotten_is_gone,
    an_emptied_memory_can_be_searched,
    forgotten_texts_leave_recorded_steps,
    sources_decide_what_can_be_seen,
)
SHARED_CASES: tuple[SharedCase, ...] = (
    handles_share_a_memory,
    handles_see_the_changes_of_many_entries,
    handles_write_a_memory_at_once,
)
