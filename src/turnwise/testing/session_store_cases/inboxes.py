"""The inbox and the decisions (behaviours A32, A34, E1, E4)."""

from turnwise.facts.content import text_content
from turnwise.facts.errors import InvocationMissing, QueueFull, SessionBusy, SessionMissing
from turnwise.facts.messages import Message, MessageContext
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    OTHER_LEASE,
    Case,
    asked,
    at_once,
    ended,
    fresh_key,
    lost,
    message,
    opened,
    refused,
    rewinds,
    said,
    told,
    won,
)

DECISION_CHARACTERS = 500


async def accepted_means_stored(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    sent = Message(
        id="m-1", content=text_content("Grüße 🙂", "user"), context=MessageContext(channel="web", attributes={"a": [1]})
    )
    await refused(store.inbox.accept(key, sent, create=False, limit=9), SessionMissing)
    assert await store.inbox.queued(key) is None
    receipt = await store.inbox.accept(key, sent, create=True, limit=9)
    assert receipt == Receipt(sent, "queued", None, repeated=False, number=1)
    assert await store.inbox.queued(key) == sent
    assert await store.inbox.queued(key) == sent, "it stays there"
    assert (await opened(store, key)).last_sequence == 0


async def the_same_message_again_is_the_same_message(store: SessionStore) -> None:
    """A34: the first content counts, for the message's whole lifetime."""
    key = fresh_key()
    session = await store.create(key)
    first, again = message("first", "m-1"), message("other", "m-1")
    await store.inbox.accept(key, first, create=False, limit=1)
    assert await store.inbox.accept(key, again, create=False, limit=1) == Receipt(
        first, "queued", None, repeated=True, number=1
    )
    begun = await store.begin(session, LEASE, first, [asked(invocation="i-7")], queue_limit=None)
    started = Receipt(first, "started", "i-7", repeated=True, number=1)
    assert await store.inbox.accept(key, again, create=False, limit=0) == started
    assert await store.inbox.receipt(key, "m-1") == started
    assert await store.inbox.receipt(key, "m-2") is None
    assert await store.open(key) == begun
    other = await store.inbox.accept(key._replace(id="session-2"), again, create=True, limit=1)
    assert not other.repeated, "ids count within a session"


async def messages_wait_in_the_order_of_acceptance(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    await store.create(key)
    ids = ["z", "a", "m", "B"]
    receipts = [await store.inbox.accept(key, message(id_=id_), create=False, limit=4) for id_ in ids]
    assert [receipt.number for receipt in receipts] == [1, 2, 3, 4]
    assert [receipt.after_others for receipt in receipts] == [False, True, True, True]
    assert (await refused(store.inbox.accept(key, message(), create=False, limit=4), QueueFull)).code == "session.queue_full"
    taken = []
    while (oldest := await store.inbox.queued(key)) is not None:
        taken.append(oldest.id)
        await store.inbox.refuse(key, oldest.id, "blocked")
    assert taken == ids
    await store.inbox.accept(key, message(), create=False, limit=1)


async def only_the_oldest_message_begins(store: SessionStore) -> None:
    """A32: also for a process that has just seen what waits."""
    key = fresh_key()
    await store.create(key)
    first, second = message("first", "m-1"), message("second", "m-2")
    for each in (first, second, first, second):
        await store.inbox.accept(key, each, create=False, limit=3)
    seen = await opened(store, key)
    assert seen.queued == 2
    await refused(store.begin(seen, LEASE, second, [asked(invocation="i-2")], queue_limit=9), SessionBusy)
    assert await opened(store, key) == seen
    begun = await store.begin(seen, LEASE, first, [asked(invocation="i-1")], queue_limit=9)
    assert (begun.queued, begun.last_sequence) == (1, 1)
    assert await opened(store, key) == begun
    await refused(store.begin(begun, OTHER_LEASE, second, [asked(invocation="i-2")], queue_limit=9), SessionBusy)
    over = await store.append(begun, [ended(invocation="i-1")], release=True)
    last = await store.begin(over, OTHER_LEASE, second, [asked(invocation="i-2")], queue_limit=9)
    assert (last.queued, last.epoch, last.last_sequence) == (0, begun.epoch + 1, 3)
    third = await store.inbox.accept(key, message("third", "m-3"), create=False, limit=3)
    assert (third.number, third.after_others) == (3, False), "a message that is accepted again is not counted"


async def a_full_inbox_makes_no_session(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    await refused(store.inbox.accept(key, message(), create=True, limit=0), QueueFull)
    assert await store.open(key) is None


async def a_refused_message_says_why(store: SessionStore) -> None:
    """A32"""
    key = fresh_key()
    session = await store.create(key)
    sent = message(id_="m-1")
    await store.inbox.accept(key, sent, create=False, limit=9)
    await store.inbox.refuse(key, "m-1", "message.blocked")
    await store.inbox.refuse(key, "m-1", "another reason")
    await store.inbox.refuse(key, "never", "x")
    await store.inbox.refuse(fresh_key(), "m-1", "x")
    assert await store.inbox.receipt(key, "m-1") == Receipt(
        sent, "refused", None, repeated=True, problem="message.blocked", number=1
    )
    assert await store.inbox.queued(key) is None
    begun = await store.begin(session, LEASE, message(id_="m-2"), [asked()], queue_limit=None)
    await store.inbox.refuse(key, "m-2", "too late")
    receipt = await store.inbox.receipt(key, "m-2")
    assert receipt is not None
    assert receipt.state == "started"
    assert await store.open(key) == begun


async def whoever_writes_is_told_what_waits(store: SessionStore) -> None:
    """A32: every returned session has the number of queued messages at that time."""
    key = fresh_key()
    begun = await store.begin(await store.create(key), LEASE, message(), [asked()], queue_limit=None)
    assert begun.queued == 0
    for id_ in ("m-1", "m-2", "m-3"):
        await store.inbox.accept(key, message(id_=id_), create=False, limit=9)
        await store.inbox.accept(key, message(id_=id_), create=False, limit=9)
    later = await store.append(begun, [said("help")])
    assert (later.queued, (await opened(store, key)).queued) == (3, 3)
    over = await store.append(later, [ended()], release=True)
    assert over.queued == 3
    begun = await store.begin(over, OTHER_LEASE, message(id_="m-1"), [asked(invocation="i-2")], queue_limit=None)
    assert begun.queued == 2
    await store.inbox.refuse(key, "m-2", "blocked")
    over = await store.append(begun, [ended(invocation="i-2")], release=True)
    assert over.queued == 1
    taken = await store.take(over, LEASE, [said("help")])
    assert (taken.queued, await store.open(key)) == (1, taken)
    given_up = await store.take(taken, LEASE, [rewinds(1)], release=True)
    assert (given_up.queued, await store.open(key)) == (1, given_up)
    assert (await store.fork(key, "copy")).queued == 0


async def what_waits_is_counted(store: SessionStore) -> None:
    """A32: over all sessions of one app."""
    key = fresh_key()
    other = key._replace(user="user-2", id="session-2")
    assert await store.inbox.lengths(key.app) == (0, 0, 0)
    begun = await store.begin(await store.create(key), LEASE, message(), [asked()], queue_limit=None)
    assert await store.inbox.lengths(key.app) == (0, 0, 0), "it is being answered, and waits no more"
    for id_ in ("m-1", "m-2"):
        await store.inbox.accept(key, message(id_=id_), create=False, limit=9)
    await store.inbox.accept(other, message(), create=True, limit=9)
    await store.inbox.accept(fresh_key(), message(), create=True, limit=9)
    assert await store.inbox.lengths(key.app) == (3, 2, 2)
    over = await store.append(begun, [ended()], release=True)
    assert await store.inbox.lengths(key.app) == (3, 2, 2)
    await store.begin(over, LEASE, message(id_="m-1"), [asked(invocation="i-2")], queue_limit=None)
    await store.inbox.refuse(key, "m-2", "blocked")
    assert await store.inbox.lengths(key.app) == (1, 1, 1)


async def accepting_disturbs_no_writer(store: SessionStore) -> None:
    """A33"""
    key = fresh_key()
    begun = await store.begin(await store.create(key), LEASE, message(), [asked()], queue_limit=None)
    await store.inbox.accept(key, message(id_="m-2"), create=True, limit=9)
    over = await store.append(begun, [ended()], release=True)
    seen = await store.inbox.queued(key)
    assert seen is not None
    await store.begin(over, OTHER_LEASE, seen, [asked(invocation="i-2")], queue_limit=None)


async def the_same_message_at_once_is_accepted_once(store: SessionStore) -> None:
    """A34"""
    key = fresh_key()
    results = await at_once(store.inbox.accept(key, message(str(n), f"m-{n % 3}"), create=True, limit=3) for n in range(30))
    assert lost(results) == []
    assert sum(not receipt.repeated for receipt in won(results)) == 3
    for id_ in ("m-0", "m-1", "m-2"):
        assert len({receipt.message.content.text for receipt in won(results) if receipt.message.id == id_}) == 1


async def a_decision_keeps_the_beginning_of_the_text(store: SessionStore) -> None:
    """E1"""
    key = fresh_key()
    begun = await store.begin(await store.create(key), LEASE, message(), [asked("ä" * 1000)], queue_limit=None)
    assert begun.last_sequence == 1
    (decision,) = (await store.decisions.search(key.app)).items
    assert decision.text == "ä" * DECISION_CHARACTERS


async def labels_stand_beside_the_log(store: SessionStore) -> None:
    """C15, E4"""
    key = fresh_key()
    await told(store, key, "i-1", "i-2")
    before = await opened(store, key), await store.events(key)
    await store.decisions.label(key, 1, "sales")
    await store.decisions.label(key, 3, "wrong")
    await store.decisions.label(key, 3, "billing")
    assert [d.label for d in (await store.decisions.search(key.app)).items] == ["billing", "sales"]
    await store.decisions.label(key, 1, None)
    await store.decisions.label(key, 1, None)
    assert [d.label for d in (await store.decisions.search(key.app)).items] == ["billing", None]
    assert (await opened(store, key), await store.events(key)) == before
    for where, sequence in ((key, 2), (key, 99), (fresh_key(), 1)):
        await refused(store.decisions.label(where, sequence, "x"), InvocationMissing)
        await refused(store.decisions.label(where, sequence, None), InvocationMissing)


async def only_selections_are_decisions(store: SessionStore) -> None:
    """E1: including selections in an agent's answer."""
    key = fresh_key()
    selection = asked().actions.selection
    await store.append(await store.create(key), [said("help", "a"), said("help", "b", selection=selection), ended()])
    assert [(d.sequence, d.text) for d in (await store.decisions.search(key.app)).items] == [(2, "b")]


CASES: tuple[Case, ...] = (
    accepted_means_stored,
    the_same_message_again_is_the_same_message,
    messages_wait_in_the_order_of_acceptance,
    only_the_oldest_message_begins,
    a_full_inbox_makes_no_session,
    a_refused_message_says_why,
    whoever_writes_is_told_what_waits,
    what_waits_is_counted,
    accepting_disturbs_no_writer,
    the_same_message_at_once_is_accepted_once,
    a_decision_keeps_the_beginning_of_the_text,
    labels_stand_beside_the_log,
    only_selections_are_decisions,
)
