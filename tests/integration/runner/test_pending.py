"""Why a session waits, as people and callers read it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.facts.events import Await
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease
from turnwise.runner.message.open_invocations import Pending, pending_reasons
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.session_store_cases.making import asked, message, opened, said

KEY = SessionKey("app", "ann", "s")
HOLDER = Lease("host-1-p1", 60.0)


@agent
async def asking(context: AgentContext) -> str:
    return (await context.ask("Which?")).text


async def why(runner: Runner) -> tuple[Pending, ...]:
    session = await opened(runner.store, KEY)
    return await pending_reasons(runner.store, runner.sets.current, session, datetime.now(UTC))


def runner_of(**options: Any) -> Runner:
    return Runner(asking, store=SqlSessionStore("sqlite://"), **options)


async def test_an_agent_waits_until_a_time() -> None:
    runner = runner_of(config=RunConfig(limits=Limits(wait_seconds=600)))
    before = datetime.now(UTC)
    invocation = await runner.start("hello", user="ann", session="s")
    await invocation.result()
    await runner.idle()
    (found,) = await why(runner)
    assert (found.reason, found.agent, found.invocation_id) == ("reply", "asking", invocation.id)
    assert found.until is not None
    assert timedelta(seconds=600) <= found.until - before < timedelta(seconds=660)
    assert f"until {found.until:%Y-%m-%d %H:%M:%S} UTC" in found.detail
    await runner.close()


async def test_an_idle_session_waits_for_nothing() -> None:
    runner = runner_of()
    await runner.store.create(KEY)
    assert await why(runner) == ()
    await runner.close()


async def test_a_message_waits_for_a_process() -> None:
    """For any; for the one that holds the session; for one with room."""
    runner = runner_of()
    store = runner.store
    await store.inbox.accept(KEY, message(), create=True, limit=9)
    assert [each.reason for each in await why(runner)] == ["no_process"]
    other = await store.create(KEY._replace(id="other"))
    held = await store.begin(other, HOLDER, message(), [asked()], queue_limit=None)
    (found,) = await why(runner)
    assert (found.reason, "the 1 that are alive hold 1 other" in found.detail) == ("no_room", True)
    await store.leases.release(held)
    session = await opened(store, KEY)
    await store.take(session, HOLDER, [])
    (found,) = await why(runner)
    assert (found.reason, found.process, HOLDER.holder in found.detail) == ("held", HOLDER.holder, True)
    await runner.close()


async def test_an_answer_of_a_dead_process_waits() -> None:
    runner = runner_of()
    begun = await runner.store.begin(
        await runner.store.create(KEY), HOLDER, message(), [asked(agent="asking")], queue_limit=None
    )
    assert await why(runner) == (), "it is being answered"
    await runner.store.leases.release(begun)
    assert [each.reason for each in await why(runner)] == ["no_room"]
    await runner.store.leases.leave(HOLDER.holder)
    assert [each.reason for each in await why(runner)] == ["no_process"]
    await runner.close()


async def test_no_process_here_knows_the_agent() -> None:
    """An answer that a dead process left, and a message that may answer the question of an agent that is not here."""
    runner = runner_of()
    store = runner.store
    begun = await store.begin(await store.create(KEY), HOLDER, message(), [asked(agent="gone")], queue_limit=None)
    await store.leases.release(begun)
    (found,) = await why(runner)
    assert (found.reason, found.agent) == ("unknown_agent", "gone")
    waiting = await store.take(await opened(store, KEY), HOLDER, [said("gone", awaits=Await(id="w-1"))], release=True)
    await store.inbox.accept(KEY, message("this"), create=False, limit=9)
    assert waiting.head.waiting()
    assert [(each.reason, each.agent) for each in await why(runner)] == [("unknown_agent", "gone"), ("reply", "gone")]
    await runner.close()


async def test_no_living_process_knows_the_agent() -> None:
    """The processes that answer are asked, not the one that somebody happens to ask."""
    runner = runner_of()
    store = runner.store
    begun = await store.begin(await store.create(KEY), HOLDER, message(), [asked(agent="asking")], queue_limit=None)
    await store.leases.release(begun)
    await store.leases.introduce(HOLDER, "app", ["other"])
    (found,) = await why(runner)
    assert (found.reason, found.agent) == ("unknown_agent", "asking")
    assert "any of the 1 processes that answer" in found.detail
    await store.leases.introduce(Lease("host-2-p1", 60.0), "app", ["asking"])
    assert [each.reason for each in await why(runner)] == ["no_room"]
    await runner.close()


async def test_a_process_that_does_not_know_the_agent_sees_that_another_does() -> None:
    runner = runner_of()
    store = runner.store
    begun = await store.begin(await store.create(KEY), HOLDER, message(), [asked(agent="elsewhere")], queue_limit=None)
    await store.leases.release(begun)
    assert [each.reason for each in await why(runner)] == ["unknown_agent"]
    await store.leases.introduce(HOLDER, "app", ["asking", "elsewhere"])
    assert [each.reason for each in await why(runner)] == ["no_room"]
    await store.leases.introduce(HOLDER, "another app", ["asking", "elsewhere"])
    assert [each.reason for each in await why(runner)] == ["unknown_agent"]
    await runner.close()


async def test_a_process_that_works_says_which_agents_it_has() -> None:
    """Also before it has answered anything."""
    runner = runner_of()
    await runner.store.inbox.accept(KEY._replace(id="none"), message(), create=True, limit=9)
    working = asyncio.create_task(runner.work())
    try:
        async with asyncio.timeout(10):
            while not (holders := await runner.store.leases.holders("app")):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert {each.agents for each in holders} == {frozenset({"asking"})}
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await runner.close()
