"""By whom it is believed what calls gave: what is looked at, and what is not (A6, A8)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from llm_play import answering
from offers_play import offering
from runner_play import Fails, ask, key

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.callers import Caller
from turnwise.facts.errors import Forbidden, SessionMissing, UnknownToolCall
from turnwise.gateway.services.messages import check_results

ADA = Caller(id="key:1", user="ada")
SERVER = Caller(id="key:2", acts_for_users=True)
OPERATOR = Caller(id="key:3", role="operator", user="ada")
ADMIN = Caller(id="key:4", role="admin", user="ada")


@agent
async def asker(message: str, context: AgentContext) -> str:
    return str(await context.ask("Well?", tool=message, offered=message == "show_map"))


@asynccontextmanager
async def opened() -> AsyncIterator[Runner]:
    runner = Runner(asker, store=SqlSessionStore("sqlite://"))
    yield runner
    await runner.close()


async def called(runner: Runner, tool: str) -> str:
    """The id of a call of that tool, which waits."""
    await ask(runner, tool, context=offering())
    (call,) = (await runner.sessions.get(key())).head.calls
    return call


async def check(runner: Runner, caller: Caller, call: str, message_id: str | None = None, *, create: bool = True) -> None:
    await check_results(runner, caller, key(), answering(call, 1), message_id, create=create)


async def test_what_was_offered_is_the_users_to_say() -> None:
    async with opened() as runner:
        call = await called(runner, "show_map")
        for caller in (ADA, OPERATOR, ADMIN, SERVER):
            await check(runner, caller, call)


async def test_what_was_not_is_said_by_who_acts_for_users_or_is_an_admin() -> None:
    """An agent that calls what nobody offered has it done elsewhere, also under the name of a question."""
    for tool in ("ship", "confirm"):
        async with opened() as runner:
            call = await called(runner, tool)
            for caller in (ADA, OPERATOR):
                with pytest.raises(Forbidden):
                    await check(runner, caller, call)
            for caller in (ADMIN, SERVER):
                await check(runner, caller, call)


async def test_calls_that_nobody_made() -> None:
    async with opened() as runner:
        for create, error in ((True, UnknownToolCall), (False, SessionMissing)):
            with pytest.raises(error):
                await check(runner, ADA, "call-1", create=create)
        await called(runner, "show_map")
        with pytest.raises(UnknownToolCall):
            await check(runner, ADA, "call-1")
        await check(runner, SERVER, "call-1")  # the runner says so, in its turn


async def test_a_message_that_was_begun_is_read_on() -> None:
    async with opened() as runner:
        call = await called(runner, "show_map")
        await ask(runner, answering(call, "shown"), message_id="m")
        await check(runner, ADA, call, "m")
        with pytest.raises(UnknownToolCall):
            await check(runner, ADA, call, "another")


async def test_for_messages_without_results_nothing_is_looked_up() -> None:
    async with opened() as runner:
        store = runner.store
        runner.store = Fails(store, "open", AssertionError())
        await check_results(runner, ADA, key(), "hi", None, create=True)
        await check(runner, SERVER, "call-1")
        runner.store = store
