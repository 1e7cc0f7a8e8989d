"""The feed of new decisions: who is told what, and when the store is read."""

import asyncio
from collections.abc import AsyncIterator

from turnwise import Runner, SqlSessionStore, agent
from turnwise.gateway.services.decision_feed import DecisionFeed
from turnwise.ports.decisions import Decision


@agent
def echo(message: str) -> str:
    return message


async def next_texts(followed: AsyncIterator[Decision | None], count: int) -> list[str]:
    async with asyncio.timeout(30):
        return [each.text for _ in range(count) if (each := await anext(followed)) is not None]


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
