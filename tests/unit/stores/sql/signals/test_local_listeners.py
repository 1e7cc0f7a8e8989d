import asyncio

from turnwise.facts.events import Event
from turnwise.stores.sql.local_signals import Listener, Listeners, SignalQueue
from turnwise.testing.signals_suite import fresh_key, piece


def kept(*items: Event | None, bound: int) -> list[Event | None]:
    news = SignalQueue(bound)
    for item in items:
        news.put(item)
    assert len(news) == len(list(news)) <= bound
    return [news.take() for _ in range(len(news))]


def test_adjacent_changes_are_one() -> None:
    a, b = piece("a"), piece("b", 1)
    assert kept(None, None, a, None, None, None, b, bound=9) == [None, a, None, b]


def test_what_does_not_fit_leaves_a_change_in_its_place() -> None:
    a, b, c, d, e = (piece(text, offset) for offset, text in enumerate("abcde"))
    assert kept(a, b, c, bound=3) == [a, b, c]
    assert kept(a, b, c, d, bound=3) == [None, c, d]
    assert kept(a, b, c, d, e, bound=3) == [None, d, e]
    assert kept(a, b, c, None, None, bound=3) == [None, c, None]


async def test_who_waits_is_woken_once_for_many() -> None:
    listener, loop = Listener(), asyncio.get_running_loop()
    waiting = loop.create_task(listener.next(60))
    await asyncio.sleep(0)
    for offset in range(3):
        listener.notify(piece("x", offset))
    assert await waiting == piece("x", 0)
    assert [await listener.next(0), await listener.next(0), await listener.next(0)] == [piece("x", 1), piece("x", 2), None]


def test_a_watch_that_is_left_leaves_nothing() -> None:
    listeners, key = Listeners(), fresh_key()
    first, second = listeners.add(key), listeners.add(key)
    assert (listeners.keys(), len(listeners), key in listeners) == ((key,), 1, True)
    listeners.remove(key, first)
    assert key in listeners
    listeners.remove(key, second)
    assert (listeners.keys(), len(listeners), key in listeners) == ((), 0, False)
