import asyncio

from turnwise.stores.sql.local_signals import LocalSignals
from turnwise.testing.signals_suite import fresh_key, heard, piece


def test_how_often_others_look() -> None:
    assert LocalSignals().poll_seconds == 0.05
    assert LocalSignals(2.0).poll_seconds == 2.0


async def test_a_watch_is_left_by_an_error_too() -> None:
    signals, key = LocalSignals(), fresh_key()
    try:
        with signals.watch(key) as watch:
            raise ZeroDivisionError
    except ZeroDivisionError:
        signals.partial(key, piece("a"))
    assert await watch.next(0) is None


async def test_a_watch_begins_with_its_block() -> None:
    signals, key = LocalSignals(), fresh_key()
    waiting = signals.watch(key)
    signals.partial(key, piece("a"))
    with waiting as watch:
        signals.partial(key, piece("b", 1))
        assert await heard(watch) == piece("b", 1)


def test_many_threads_publish_at_once() -> None:
    """Nothing is lost or mixed up on the way between event loops."""
    signals, key, writers, count = LocalSignals(), fresh_key(), 4, 200

    async def write(author: str) -> None:
        for number in range(count):
            signals.partial(key, piece("x", number, author=author))
            if number % 20 == 0:
                await asyncio.sleep(0)

    async def read() -> None:
        with signals.watch(key) as watch:
            threads = [asyncio.create_task(asyncio.to_thread(asyncio.run, write(f"a{n}"))) for n in range(writers)]
            items = [await heard(watch) for _ in range(writers * count)]
            await asyncio.gather(*threads)
        for number in range(writers):
            mine = [item.offset for item in items if item is not None and item.author == f"a{number}"]
            assert mine == list(range(count))

    asyncio.run(read())
