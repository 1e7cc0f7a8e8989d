"""The feed of new decisions: who is told what, and when the store is read."""

import asyncio
from collections.abc import AsyncIterator

from turnwise import Runner, SqlSessionStore, agent
from turnwise.gateway.services.decisions import DecisionBatch, DecisionFeed
from turnwise.ports.decisions import Decision


@agent
def echo(message: str) -> str:
    return message


async def next_texts(followed: AsyncIterator[DecisionBatch | None], count: int) -> list[str]:
    texts: list[str] = []
    async with asyncio.timeout(30):
        while len(texts) < count:
            batch = await anext(followed)
            texts += [each.text for each in batch.decisions] if batch is not None else []
    return texts


async def test_followers_get_the_new_decisions_that_they_may_see() -> None:
    """K1"""
    runner = Runner(echo, store=SqlSessionStore("sqlite://"))
    async for _ in runner.run("before", user="ann", session="s"):
        pass
    feed = DecisionFeed(runner)
    every, anns = feed.follow(None), feed.follow("ann")
    assert await anext(every) is await anext(anns) is None
    waiting = [asyncio.create_task(next_texts(every, 2)), asyncio.create_task(next_texts(anns, 1))]
    for user, text in (("bob", "one"), ("ann", "two")):
        async for _ in runner.run(text, user=user, session="s"):
            pass
    assert await asyncio.gather(*waiting) == [["one", "two"], ["two"]]
    await every.aclose()  # type: ignore[attr-defined]
    await anns.aclose()  # type: ignore[attr-defined]
    await runner.close()


async def test_the_store_is_read_only_while_somebody_follows() -> None:
    runner = Runner(echo, store=SqlSessionStore("sqlite://"))
    feed = DecisionFeed(runner)
    before = set(asyncio.all_tasks())
    followed = feed.follow(None)
    assert await anext(followed) is None
    readers = set(asyncio.all_tasks()) - before
    assert len(readers) == 1
    await followed.aclose()  # type: ignore[attr-defined]
    await asyncio.gather(*readers, return_exceptions=True)
    assert all(each.cancelled() for each in readers)
    await runner.close()


async def test_what_is_written_of_a_batch_is_written_once_for_each_view() -> None:
    """K1: views that differ do not share it."""
    runner = Runner(echo, store=SqlSessionStore("sqlite://"))
    feed = DecisionFeed(runner)
    one, other = feed.follow(None), feed.follow(None)
    assert await anext(one) is await anext(other) is None
    async for _ in runner.run("hello", user="ann", session="s"):
        pass
    batch = await anext(one)
    assert batch is await anext(other)
    assert batch is not None
    asked: list[str] = []

    def write(decision: Decision) -> bytes:
        asked.append(decision.text)
        return decision.text.encode()

    assert [batch.written(view, write) for view in ("operator", "user", "operator")] == [b"hello"] * 3
    assert asked == ["hello"] * 2
    for followed in (one, other):
        await followed.aclose()  # type: ignore[attr-defined]
    await runner.close()
