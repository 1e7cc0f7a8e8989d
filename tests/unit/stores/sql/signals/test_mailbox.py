"""Two processes without a wire: what one takes is what the other hears."""

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import signal_mailbox as module
from turnwise.stores.sql.local_signals import Listener, Listeners
from turnwise.stores.sql.signal_mailbox import Mailbox
from turnwise.testing.signals_suite import fresh_key, piece

KEY = SessionKey("shop", "ann", "s1")


class Clock:
    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


class Process:
    """A process that announces every 2 seconds, so that others believe it for 5."""

    def __init__(self, clock: Clock) -> None:
        self.listeners = Listeners()
        self.mailbox = Mailbox(self.listeners, 2.0, clock)
        self.mailbox.connected(after_a_gap=False)

    def watch(self, key: SessionKey = KEY) -> Listener:
        listener = self.listeners.add(key)
        self.mailbox.watch_opened(key)
        return listener

    def send(self, *others: "Process") -> int:
        """Sends what waits to the others; gives the number of payloads."""
        payloads = self.mailbox.take()
        self.mailbox.sent()
        for payload in payloads:
            for other in (self, *others):
                other.mailbox.receive(payload.encode())
        return len(payloads)


async def received(listener: Listener) -> list[Event | None]:
    """All that waits in an listener."""
    listener.notify(piece("end", id_="end"))
    items = []
    while (item := await listener.next(0)) != piece("end", id_="end"):
        items.append(item)
    return items


def settled(*processes: Process) -> None:
    """Sends until nobody has anything to say."""
    while any(process.mailbox.due() == 0.0 for process in processes):
        for process in processes:
            process.send(*(other for other in processes if other is not process))


def pair() -> tuple[Clock, Process, Process]:
    clock = Clock()
    here, there = Process(clock), Process(clock)
    settled(here, there)
    return clock, here, there


async def test_only_what_is_watched_is_sent() -> None:
    _, here, there = pair()
    assert not there.mailbox.publish(KEY, piece("a"))
    assert there.mailbox.due() is None
    listener = here.watch()
    assert here.mailbox.due() == 0.0
    settled(here, there)
    assert not there.mailbox.publish(fresh_key(), piece("b"))
    assert there.mailbox.publish(KEY, piece("c"))
    assert there.mailbox.publish(KEY, None)
    assert there.mailbox.due() == 0.0
    assert there.send(here) == 1
    assert await received(listener) == [piece("c"), None]


async def test_a_watch_is_believed_while_it_is_announced() -> None:
    clock, here, there = pair()
    listener = here.watch()
    settled(here, there)
    for _ in range(5):
        assert here.mailbox.due() == 2.0
        clock.now += 2.0
        assert here.mailbox.due() == 0.0
        assert here.send(there) == 1
        assert there.mailbox.publish(KEY, None)
    here.listeners.remove(KEY, listener)
    clock.now += 4.9
    assert here.mailbox.due() is None
    assert there.mailbox.publish(KEY, None)
    clock.now += 0.2
    assert not there.mailbox.publish(KEY, None)


async def test_who_begins_to_watch_hears_of_what_changed_just_before() -> None:
    """Its look at the store may have come before the change, its announcement after it."""
    clock, here, there = pair()
    there.mailbox.publish(KEY, None)
    clock.now += module.RECENT_SECONDS - 0.1
    first = here.watch()
    settled(here, there)
    assert await received(first) == [None]
    clock.now += 0.2
    third = Process(clock)
    second = third.watch()
    settled(third, here, there)
    assert await received(second) == [], "that was too long ago"


async def test_one_more_who_begins_to_watch_hears_of_it_too() -> None:
    clock, here, there = pair()
    third = Process(clock)
    here.watch()
    settled(here, there, third)
    there.mailbox.publish(KEY, None)
    settled(here, there, third)
    listener = third.watch()
    settled(here, there, third)
    assert await received(listener) == [None]


async def test_announcing_again_brings_no_change() -> None:
    clock, here, there = pair()
    listener = here.watch()
    settled(here, there)
    there.mailbox.publish(KEY, None)
    settled(here, there)
    clock.now += 2.0
    settled(here, there)
    assert await received(listener) == [None]


async def test_who_comes_late_learns_what_is_watched() -> None:
    clock, here, there = pair()
    listener = here.watch()
    settled(here, there)
    late = Process(clock)
    late.mailbox.publish(KEY, None)
    settled(late, here, there)
    assert await received(listener) == [None]
    assert late.mailbox.publish(KEY, piece("a"))
    assert late.send(here, there) == 1
    assert await received(listener) == [piece("a")]


async def test_what_may_not_have_been_sent_becomes_a_change() -> None:
    _, here, there = pair()
    listener = here.watch()
    settled(here, there)
    there.mailbox.publish(KEY, piece("a"))
    assert there.mailbox.take() != [], "and now the wire breaks"
    there.mailbox.publish(KEY, piece("b", 1))
    there.mailbox.connected(after_a_gap=True)
    settled(here, there)
    assert await received(listener) == [piece("b", 1), None]


async def test_a_wake_of_all_that_may_not_have_been_sent_is_sent_again() -> None:
    _, here, there = pair()
    listener = here.watch()
    settled(here, there)
    there.mailbox.publish_all()
    assert there.mailbox.take() != [], "and now the wire breaks"
    there.mailbox.connected(after_a_gap=True)
    settled(here, there)
    assert await received(listener) == [None]
    there.mailbox.connected(after_a_gap=True)
    settled(here, there)
    assert await received(listener) == [], "it was sent"


async def test_a_watch_that_begins_again_at_once_is_known() -> None:
    """So nothing is sent for it, and no change is repeated. A process that came since is told."""
    clock, here, there = pair()
    here.listeners.remove(KEY, here.watch())
    here.watch()
    settled(here, there)
    there.mailbox.publish(KEY, None)
    settled(here, there)
    here.listeners.remove(KEY, *here.listeners._listeners[KEY])
    clock.now += 1.9
    listener = here.watch()
    assert here.mailbox.due() != 0.0
    assert there.mailbox.publish(KEY, piece("a"))
    settled(here, there)
    assert await received(listener) == [piece("a")]
    late = Process(clock)
    settled(late, here, there)
    assert late.mailbox.publish(KEY, None)


def test_a_watch_that_begins_again_later_is_announced() -> None:
    clock, here, there = pair()
    here.listeners.remove(KEY, here.watch())
    here.watch()
    settled(here, there)
    here.listeners.remove(KEY, *here.listeners._listeners[KEY])
    clock.now += 5.1
    assert not there.mailbox.publish(KEY, None)
    here.watch()
    settled(here, there)
    assert there.mailbox.publish(KEY, None)


def test_a_watch_is_announced_again_on_a_new_wire() -> None:
    _, here, there = pair()
    here.watch()
    assert here.mailbox.take() != [], "and now the wire breaks"
    here.mailbox.connected(after_a_gap=True)
    settled(here, there)
    assert there.mailbox.publish(KEY, None)


async def test_after_a_gap_everybody_looks() -> None:
    clock, here, there = pair()
    listeners = here.watch(), here.watch(fresh_key())
    settled(here, there)
    here.mailbox.connected(after_a_gap=True)
    assert [await received(listener) for listener in listeners] == [[None], [None]]
    clock.now += 60.0
    here.mailbox.connected(after_a_gap=False)
    assert [await received(listener) for listener in listeners] == [[], []]
    settled(here, there)
    assert there.mailbox.publish(KEY, None)


async def test_many_watches_are_announced_in_few_payloads() -> None:
    _, here, there = pair()
    keys = [fresh_key() for _ in range(1_000)]
    for key in keys:
        here.watch(key)
    assert here.send(there) < 20
    assert all(there.mailbox.publish(key, None) for key in keys)


async def test_what_waits_to_be_sent_is_bounded() -> None:
    _, here, there = pair()
    keys = [fresh_key() for _ in range(11)]
    listeners = [here.watch(key) for key in keys]
    settled(here, there)
    first, last = piece("x"), piece("y")
    for key in keys:
        for _ in range(1_100):
            there.mailbox.publish(key, first)
        there.mailbox.publish(key, last)
    payloads = there.mailbox.take()
    assert sum(payload.count('"k":"partial"') for payload in payloads) <= module.OUTBOX_LENGTH
    for key, listener in list(zip(keys, listeners, strict=True))[1:-1]:
        here.listeners.remove(key, listener)
    for payload in payloads:
        here.mailbox.receive(payload.encode())
    assert await received(listeners[0]) == [], "the oldest goes"
    assert (await received(listeners[-1]))[-1] == last, "the newest stays"


async def test_what_is_believed_is_bounded() -> None:
    clock, here, there = pair()
    listeners = {key: here.watch(key) for key in (fresh_key() for _ in range(module.REMOTE_WATCHES))}
    settled(here, there)
    for key, listener in listeners.items():
        here.listeners.remove(key, listener)
    one_too_many, later = fresh_key(), fresh_key()
    here.watch(one_too_many)
    settled(here, there)
    assert not there.mailbox.publish(one_too_many, None)
    clock.now += 5.1
    here.watch(later)
    settled(here, there)
    assert there.mailbox.publish(later, None), "what nobody announces any more made room"


async def test_what_changed_lately_is_bounded() -> None:
    _, here, there = pair()
    there.mailbox.publish(KEY, None)
    newest = fresh_key()
    for key in [*(fresh_key() for _ in range(module.RECENT_CHANGES - 1)), newest]:
        there.mailbox.publish(key, None)
    forgotten, known = here.watch(), here.watch(newest)
    settled(here, there)
    assert (await received(forgotten), await received(known)) == ([], [None])


def test_nonsense_is_heard_in_silence() -> None:
    _, here, _ = pair()
    here.watch()
    for payload in (b"", b"\xff", b'{"v":1,"s":"x","n":[{"k":"partial","key":["shop","ann","s1"],"event":{"id":7}}]}'):
        here.mailbox.receive(payload)
