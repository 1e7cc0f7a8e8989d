"""The log of a session: order, windows, refused appends, and the head folded from it (behaviours A24, A30, A31, A33, A34)."""

from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import SessionMissing, StaleWriter
from turnwise.facts.events import Actions, Await, Branch, End, ErrorInfo, Event, Rewind, StepRecord
from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.maintenance import Usage
from turnwise.ports.stores import SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    NOW,
    Case,
    asked,
    at_once,
    check_fold,
    ended,
    fresh_id,
    fresh_key,
    lost,
    message,
    opened,
    refused,
    said,
    texts,
    told,
    won,
    writes,
)


async def events_come_back_in_append_order(store: SessionStore) -> None:
    """A31: even if all have the same time."""
    key = fresh_key()
    session = await store.create(key)
    events = [said(f"agent-{9 - n % 3}", f"text {n}") for n in range(20)]
    for start, end in ((0, 1), (1, 2), (2, 12), (12, 20)):
        session = await store.append(session, events[start:end])
    stored = await store.events(key)
    assert [event.id for event in stored] == [event.id for event in events]
    assert [event.sequence for event in stored] == list(range(1, 21))
    assert session.last_sequence == 20


async def an_append_gives_the_session_as_it_is_stored(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    created = await store.create(key)
    session = await store.append(created, [asked(), writes({"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4})])
    assert (session.revision, session.epoch) == (created.revision + 1, created.epoch)
    assert session.updated_at == NOW
    assert await store.open(key) == session
    assert await check_fold(store, key) == session


async def windows_of_the_log(store: SessionStore) -> None:
    """A30"""
    key = fresh_key()
    session = await store.create(key)
    await store.append(session, [said("help", str(n), invocation=f"i-{n % 2}") for n in range(1, 8)])
    assert await texts(store, key) == list("1234567")
    assert await texts(store, key, after=4) == list("567")
    assert await texts(store, key, after=7) == []
    assert await texts(store, key, last=3) == list("567")
    assert await texts(store, key, last=0) == []
    assert await texts(store, key, last=100) == list("1234567")
    assert await texts(store, key, limit=2) == list("12")
    assert await texts(store, key, limit=0) == []
    assert await texts(store, key, after=2, limit=3) == list("345")
    assert await texts(store, key, after=5, last=4) == list("67")
    assert await texts(store, key, last=4, limit=1) == list("4")
    assert await texts(store, key, invocation_id="i-1") == list("1357")
    assert await texts(store, key, invocation_id="i-1", last=2) == list("57")
    assert await texts(store, key, invocation_id="i-0", after=2, limit=1) == list("4")
    assert await texts(store, key, invocation_id="i-9") == []
    assert await texts(store, fresh_key()) == []
    await refused(store.events(key, last=-1), ValueError)
    await refused(store.events(key, limit=-1), ValueError)


async def an_event_comes_back_whole(store: SessionStore) -> None:
    """A31"""
    key = fresh_key()
    event = _full_event()
    await store.append(await store.create(key), [event])
    (stored,) = await store.events(key)
    assert stored == event.replace(sequence=1)
    assert stored.model_dump_json() == event.replace(sequence=1).model_dump_json()


async def a_read_for_transcripts_keeps_what_they_show(store: SessionStore) -> None:
    """D8: a store may leave out steps, usage and state, but nothing that a transcript shows."""
    key = fresh_key()
    answer = said("help", "hi").with_actions(steps=(StepRecord(key="k", says=True),), end=End())
    # The first of these events holds a rewind, which hides only itself and what is before it.
    await store.append(await store.create(key), [_full_event(), asked(), answer])
    whole = await store.events(key, hidden=True)
    shown = await store.events(key, hidden=True, transcript=True)
    assert len(whole) == 3
    for one, other in zip(whole, shown, strict=True):
        assert (one.sequence, one.id, one.author, one.invocation_id) == (
            other.sequence,
            other.id,
            other.author,
            other.invocation_id,
        )
        assert (one.content, one.branch, one.scope, one.error) == (other.content, other.branch, other.scope, other.error)
        assert (one.actions.end, one.actions.awaits, one.actions.rewind) == (
            other.actions.end,
            other.actions.awaits,
            other.actions.rewind,
        )
        assert (one.actions.selection is None) == (other.actions.selection is None)
    assert await store.events(key, transcript=True, last=1) == shown[-1:]


async def what_a_newer_version_wrote_is_kept(store: SessionStore) -> None:
    """A31: fields and parts that this version does not know."""
    key = fresh_key()
    known = said("help", "hello").model_dump_json()
    newer = Event.model_validate_json(known[:-1] + ',"mood":{"joy":[1,2]}}')
    part = Content.model_validate_json('{"role":"agent","parts":[{"kind":"hologram","depth":3}]}')
    await store.append(await store.create(key), [asked(), newer, said("help").with_content(part), ended()])
    copy = await store.fork(key, "copy")
    for each in (key, copy.key):
        _, first, second, _ = await store.events(each)
        assert '"mood":{"joy":[1,2]}' in first.model_dump_json()
        assert '{"kind":"hologram","depth":3}' in second.model_dump_json()


async def temp_state_is_never_stored(store: SessionStore) -> None:
    """A24"""
    key = fresh_key()
    session = await store.append(await store.create(key), [writes({"temp:a": 1, "b": 2})])
    assert session.merged_state == {"b": 2}
    (event,) = await store.events(key)
    assert event.actions.state_delta == {"b": 2}


async def none_removes_a_key(store: SessionStore) -> None:
    """A24"""
    key = fresh_key()
    session = await store.create(key, state={"a": 1, "user:b": 1, "app:c": 1})
    gone = {"a": None, "user:b": None, "app:c": None, "never": None}
    session = await store.append(session, [writes(gone), writes({"user:b": None, "d": 4})])
    assert session.merged_state == {"d": 4}
    assert await store.open(key) == session


async def a_partial_event_is_refused(store: SessionStore) -> None:
    """A19"""
    key = fresh_key()
    session = await store.create(key)
    partial = said("help", "hel").replace(partial=True)
    await refused(store.append(session, [said("help"), partial]), ValueError)
    assert await store.events(key) == []
    assert await store.open(key) == session


async def the_same_event_again_changes_nothing(store: SessionStore) -> None:
    """A34: a retry with the old token, after the response was lost."""
    key = fresh_key()
    first = await store.create(key)
    events = [asked(), writes({"n": 1}), ended()]
    after = await store.append(first, events)
    for token in (first, after):
        for again in (events, events[:1], events[1:], [events[1], events[1]]):
            assert await store.append(token, again) == after
    assert len(await store.events(key)) == 3
    assert len((await store.decisions.search(key.app)).items) == 1


async def stored_events_among_new_ones_are_left_out(store: SessionStore) -> None:
    """A34"""
    key = fresh_key()
    one, two, three = (said("help", text) for text in ("one", "two", "three"))
    session = await store.append(await store.create(key), [one])
    session = await store.append(session, [one, two, one, three, two])
    assert await texts(store, key) == ["one", "two", "three"]
    assert session.last_sequence == 3
    assert await check_fold(store, key) == session


async def a_stale_append_stores_nothing(store: SessionStore) -> None:
    """A33, A34: unless all of its events are stored already."""
    key = fresh_key()
    first = await store.create(key)
    known = said("help", "known")
    current = await store.append(first, [known])
    assert current.updated_at == NOW, "equal times do not make it fresh"
    await refused(store.append(first, [said("help", "new")]), StaleWriter)
    await refused(store.append(first, [known, writes({"a": 1, "app:b": 2, "user:c": 3})]), StaleWriter)
    await refused(store.append(first, []), StaleWriter)
    await refused(store.append(current.replace(epoch=7), [said("help")]), StaleWriter)
    ahead = current.replace(revision=current.revision + 1)
    await refused(store.append(ahead, [asked()]), StaleWriter)
    assert await texts(store, key) == ["known"]
    assert await store.open(key) == current
    assert (await store.decisions.search(key.app)).items == ()


async def nothing_is_appended_to_a_missing_session(store: SessionStore) -> None:
    """A29"""
    key = fresh_key()
    blank = await store.open(key, blank=True)
    assert blank is not None
    await refused(store.append(blank, [said("help")]), SessionMissing)
    assert await store.open(key) is None


async def of_two_writers_at_once_one_wins(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    session = await store.create(key)
    results = await at_once(store.append(session, [said("help", str(n)), said("help", str(n))]) for n in range(10))
    (winner,) = won(results)
    assert [type(error) for error in lost(results)] == [StaleWriter] * 9
    assert await store.open(key) == winner
    one, two = await texts(store, key)
    assert one == two, "not interleaved"


async def many_sessions_at_once_lose_nothing(store: SessionStore) -> None:
    """A32: even if the store groups their commits. An append that fails does not affect the others."""
    key, count, turns = fresh_key(), 100, 3

    async def talk(number: int) -> Session:
        mine = key._replace(user=f"user-{number % 7}", id=f"session-{number}")
        for turn in range(turns):
            begun = await store.open(mine, blank=True)
            assert begun is not None
            begun = await store.begin(begun, LEASE, message(), [asked(str(turn), invocation=f"i-{turn}")], queue_limit=1)
            answer = ended("help", f"{number}.{turn}", invocation=f"i-{turn}", state_delta={f"user:{number}": turn})
            if turn == 1:
                await refused(store.append(begun.replace(revision=0), [answer]), StaleWriter)
            last = await store.append(begun, [answer], release=True)
        return last

    sessions = await at_once(talk(number) for number in range(count))
    assert lost(sessions) == []
    for number, session in enumerate(won(sessions)):
        assert await texts(store, session.key) == [text for t in range(turns) for text in (str(t), f"{number}.{t}")]
        current = await check_fold(store, session.key)
        assert (current.head, current.revision, current.epoch) == (session.head, session.revision, turns)
        assert current.user_state == {str(n): turns - 1 for n in range(number % 7, count, 7)}


async def a_long_log_is_read_in_part(store: SessionStore) -> None:
    """A30"""
    key = fresh_key()
    session = await store.create(key)
    for block in range(4):
        session = await store.append(session, [said("help", str(n)) for n in range(block * 300, block * 300 + 300)])
    assert await texts(store, key, last=2) == ["1198", "1199"]
    assert await texts(store, key, after=700, limit=2) == ["700", "701"]
    assert await check_fold(store, key) == session


async def heads_of_waits_and_calls_come_back(store: SessionStore) -> None:
    """A42"""
    key = fresh_key()
    call = Content(parts=(ToolCallPart(call_id="c-1", tool="pay", arguments={"eur": 3}),))
    waits = Await(id="c-1", kind="tool_result", expires_at=NOW)
    wait = said("help", awaits=waits, positions={"order": 2}).with_content(call)
    session = await store.append(await store.create(key), [asked(), wait])
    assert session.head.waiting() == (("i-1", "help", waits),)
    assert (await opened(store, key)).head == session.head
    await told(store, key, "i-2")
    head = (await check_fold(store, key)).head
    assert (head.waiting(), list(head.calls), head.positions) == ((("i-1", "help", waits),), ["c-1"], {"order": 2})


def _full_event() -> Event:
    verdict = Verdict(
        selector="patterns",
        outcome="chosen",
        agent="help",
        method="pattern",
        confidence=0.25,
        reason="„Grüße“",
        candidates=(Candidate(agent="help", score=0.25, evidence="x"),),
        passed_over=(Exclusion(agent="other", rule="unknown"),),
        position=3,
        ms=0.5,
    )
    parts = (
        TextPart(text="a\0b \u2028 🙂 漢字"),
        BlobPart(data=bytes(range(256)), mime_type="x/y", name="n"),
        ArtifactPart(name="a", version=2),
        ToolCallPart(call_id="c", tool="t", arguments={"a": [1, 2.5, None, True]}),
        ToolResultPart(call_id="c", result={"big": 2**70}),
        DataPart(data=[None]),
    )
    return Event(
        id=fresh_id(),
        author="Ä gent",
        invocation_id="i-1",
        created_at=NOW,
        content=Content(role="agent", parts=parts),
        actions=Actions(
            state_delta={"gone": None, "kept": {"x": [1, "ü"]}},
            artifact_versions={"a": 2},
            transfer_to="other",
            next="other",
            escalate=True,
            awaits=Await(id="w", expires_at=NOW),
            answers="w-0",
            selection=Selection(agent="help", method="m", confidence=1.0, reason="r", verdicts=(verdict,)),
            positions={"p": 1},
            steps=(StepRecord(key="k", value={"v": 1}),),
            finished=(Branch("1/a"),),
            blocked_by="g",
            rewind=Rewind(from_sequence=1, invocation_id="i-0"),
            end=End(reason="limit:turns", detail="d"),
        ),
        error=ErrorInfo(code="agent.failed", message="m"),
        branch=Branch("1/~a/>b"),
        scope=("task:1",),
        attempt=2,
    )


async def a_page_of_events_ends_by_bytes_too(store: SessionStore) -> None:
    """`max_bytes` ends a page before the event that would exceed it; one event is always returned."""
    session = await store.create(fresh_key())
    for size in (10, 5_000, 10, 10):
        session = await store.append(session, [said("desk", "x" * size)])
    key = session.key
    assert [e.sequence for e in await store.events(key, max_bytes=1)] == [1]
    assert [e.sequence for e in await store.events(key, max_bytes=3_000)] == [1]
    assert [e.sequence for e in await store.events(key, after=1, max_bytes=3_000)] == [2]
    assert [e.sequence for e in await store.events(key, after=2, max_bytes=3_000)] == [3, 4]
    assert [e.sequence for e in await store.events(key, max_bytes=50_000)] == [1, 2, 3, 4]
    assert [e.sequence for e in await store.events(key, limit=2, max_bytes=50_000)] == [1, 2]
    assert [e.sequence for e in await store.events(key, last=4, max_bytes=3_000)] == [3, 4]
    assert await store.events(key, after=4, max_bytes=1) == []
    assert (await opened(store, key)).bytes == session.bytes > 5_000


async def sizes_are_bytes_not_characters(store: SessionStore) -> None:
    """Characters of two and four bytes count as such, in the session's size and at the end of a page."""
    narrow, wide, widest = [await store.create(fresh_key()) for _ in range(3)]
    narrow, wide, widest = [
        await store.append(session, [said("desk", letter * 1_000), said("desk", "x")])
        for session, letter in ((narrow, "x"), (wide, "é"), (widest, "🙂"))
    ]
    assert (wide.bytes - narrow.bytes, widest.bytes - narrow.bytes) == (1_000, 3_000)
    assert [(await opened(store, session.key)).bytes for session in (wide, widest)] == [wide.bytes, widest.bytes]
    for session, shown in ((narrow, [1, 2]), (wide, [1]), (widest, [1])):
        assert [event.sequence for event in await store.events(session.key, max_bytes=narrow.bytes)] == shown
        assert [event.sequence for event in await store.events(session.key, max_bytes=session.bytes)] == [1, 2]


async def what_a_user_has_is_counted(store: SessionStore) -> None:
    """Sessions, forks and the bytes of the user's own events; without other users."""
    key = fresh_key()
    assert await store.maintenance.usage(key.app, key.user) == Usage(0, 0, 0)
    session = await store.append(await store.create(key), [said("desk", "x" * 100)])
    await store.fork(key, "fork")
    await store.create(SessionKey(key.app, "other", "s"))
    assert await store.maintenance.usage(key.app, key.user) == Usage(2, 1, session.bytes)
    await store.delete(SessionKey(key.app, key.user, "fork"))
    assert await store.maintenance.usage(key.app, key.user) == Usage(1, 0, session.bytes)


CASES: tuple[Case, ...] = (
    a_page_of_events_ends_by_bytes_too,
    sizes_are_bytes_not_characters,
    what_a_user_has_is_counted,
    events_come_back_in_append_order,
    an_append_gives_the_session_as_it_is_stored,
    windows_of_the_log,
    an_event_comes_back_whole,
    a_read_for_transcripts_keeps_what_they_show,
    what_a_newer_version_wrote_is_kept,
    temp_state_is_never_stored,
    none_removes_a_key,
    a_partial_event_is_refused,
    the_same_event_again_changes_nothing,
    stored_events_among_new_ones_are_left_out,
    a_stale_append_stores_nothing,
    nothing_is_appended_to_a_missing_session,
    of_two_writers_at_once_one_wins,
    many_sessions_at_once_lose_nothing,
    a_long_log_is_read_in_part,
    heads_of_waits_and_calls_come_back,
)
