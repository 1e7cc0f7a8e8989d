import asyncio

from turnwise.facts.events import Event
from turnwise.stores.sql.signals.local import Listener, Listeners, SignalQueue
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
    ear, loop = Listener(), asyncio.get_running_loop()
    waiting = loop.create_task(ear.next(60))
    await asyncio.sleep(0)
    for offset in range(3):
        ear.tell(piece("x", offset))
    assert await waiting == piece("x", 0)
    assert [await ear.next(0), await ear.next(0), await ear.next(0)] == [piece("x", 1), piece("x", 2), None]


def test_a_watch_that_is_left_leaves_nothing() -> None:
    ears, key = Listeners(), fresh_key()
    first, second = ears.add(key), ears.add(key)
    assert (ears.keys(), len(ears), key in ears) == ((key,), 1, True)
    ears.remove(key, first)
    assert key in ears
    ears.remove(key, second)
    assert (ears.keys(), len(ears), key in ears) == ((), 0, False)
