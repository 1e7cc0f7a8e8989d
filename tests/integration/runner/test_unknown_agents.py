"""Two versions of an app on one store: work for an agent that a process does not know is left to those who know it (I4)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import Crash, ask, direct, key, kill, leave_behind, log, reason, soon

from turnwise import AgentContext, ProcessConfig, RunConfig, Runner, agent
from turnwise.facts.messages import MessageContext

Process = Callable[..., Runner]
PATIENT = ProcessConfig(unknown_agent_seconds=60, recovery_seconds=0.02)
HURRIED = ProcessConfig(unknown_agent_seconds=0.3, recovery_seconds=0.02)


@agent
async def billing(context: AgentContext) -> str:
    invoice = await context.ask("Which invoice?")
    return f"thank you for {invoice.text}"


@agent
async def orders(message: str) -> str:
    return f"orders got {message}"


def old_tree() -> Any:
    @agent(name="desk", children=[orders])
    async def desk(message: str) -> str:
        return f"desk got {message}"

    return desk


def new_tree(*more: Any) -> Any:
    @agent(name="desk", children=[orders, billing, *more])
    async def desk(message: str) -> str:
        return f"desk got {message}"

    return desk


async def working(*runners: Runner) -> "list[asyncio.Task[None]]":
    return [asyncio.create_task(runner.work()) for runner in runners]


async def stop(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_answer_to_a_new_agents_question_goes_to_a_process_that_knows_it(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    """I4: whichever process the reply came to."""
    old, new = process(old_tree(), process=PATIENT), process(new_tree(), process=PATIENT)
    await ask(new, "hi", context=direct("billing"))
    with caplog.at_level(logging.WARNING, logger="turnwise.runner"):
        reply = await old.start("number 7", user="ada", session="s", message_id="m")
        receipt = await old.store.inbox.receipt(key(), "m")
        assert receipt is not None
        assert receipt.state == "queued"
        tasks = await working(old, new)
        assert (await soon(reply.result())).text == "thank you for number 7"
        await stop(tasks)
    assert any("'billing' is not in this process's tree" in record.getMessage() for record in caplog.records)
    assert [author for author, _ in await log(new)] == ["user", "billing", "user", "billing"]


async def test_after_a_stated_time_nobody_waits_for_an_unknown_agent(process: Process) -> None:
    """I4, A7: the agent was removed, so the message is decided like any other."""
    old, new = process(old_tree(), process=HURRIED), process(new_tree(), process=HURRIED)
    await ask(new, "hi", context=direct("billing"))
    result = await soon(ask(old, "number 7", message_id="m"))
    assert result.text in {"desk got number 7", "orders got number 7"}
    assert (await soon(ask(old, "number 8"))).text, "it does not wait again for what is over"


@pytest.mark.parametrize("when_busy", ["queue", "reject", "interrupt"])
async def test_the_order_of_messages_is_kept_behind_the_reply(process: Process, when_busy: Any) -> None:
    """I4, A32."""
    old, new = process(old_tree(), process=PATIENT), process(new_tree(), process=PATIENT)
    await ask(new, "hi", context=direct("billing"))
    first = await old.start("number 7", user="ada", session="s", config=RunConfig(when_busy=when_busy))
    second = await old.start("next", user="ada", session="s", context=direct("orders"))
    tasks = await working(new)
    assert (await soon(first.result())).text == "thank you for number 7"
    assert (await soon(second.result())).text == "orders got next"
    await stop(tasks)
    texts = [text for author, text in await log(new) if author == "user"]
    assert texts == ["hi", "number 7", "next"]


async def test_what_is_not_for_the_unknown_agent_is_answered_at_once(process: Process) -> None:
    """I4: a message for an agent by name, or that replies to another question, does not wait."""
    old, new = process(old_tree(), process=PATIENT), process(new_tree(), process=PATIENT)
    await ask(new, "hi", context=direct("billing"))
    assert (await soon(ask(old, "where is it?", context=direct("orders")))).text == "orders got where is it?"
    assert (await soon(ask(old, "other", session="another"))).text


async def test_an_answer_of_an_unknown_agent_that_was_cut_off_is_left_to_those_who_know_it(process: Process) -> None:
    """I4, decision 6: it is not ended as failed, nor does a message behind it overtake it."""
    crash = Crash()

    @agent
    async def refunds() -> str:
        await crash.here()
        return "refunded"

    await kill(process, new_tree(refunds), crash, message_id="m", context=direct("refunds"))
    old = process(old_tree(), process=PATIENT)
    assert await old.recover() == 1
    session = await old.sessions.get(key())
    assert [open_.state for open_ in session.head.invocations.values()] == ["running"]
    behind = await old.start("next", user="ada", session="s", message_id="n", context=MessageContext(direct_agent_id="orders"))
    new = process(new_tree(refunds), process=PATIENT)
    tasks = await working(old, new)
    assert (await soon(behind.result())).text == "orders got next"
    result = await soon((await old.attach(user="ada", session="s", message_id="m")).result())
    assert (result.text, reason(result)) == ("refunded", "completed")
    await stop(tasks)
    assert [text for _, text in await log(new) if text] == ["hi", "refunded", "next", "orders got next"]


async def test_an_answer_of_an_agent_that_is_gone_for_good_ends(process: Process) -> None:
    """I4: after the stated time the invocation fails, and the session is usable."""
    crash = Crash()

    @agent
    async def refunds() -> str:
        await crash.here()
        return "refunded"

    await kill(process, new_tree(refunds), crash, message_id="m", context=direct("refunds"))
    old = process(old_tree(), process=HURRIED)
    tasks = await working(old)
    result = await soon((await old.attach(user="ada", session="s", message_id="m")).result())
    assert reason(result) == "failed"
    await stop(tasks)
    assert (await ask(old, "next", context=direct("orders"))).text == "orders got next"


async def test_a_message_that_a_dead_process_left_is_left_to_those_who_know_the_agent(process: Process) -> None:
    """I4: nobody waits for it in this process."""
    old, new = process(old_tree(), process=PATIENT), process(new_tree(), process=PATIENT)
    await ask(new, "hi", context=direct("billing"))
    await leave_behind(old, "number 7", "left")
    tasks = await working(old)
    await asyncio.sleep(0.2)
    tasks += await working(new)
    result = await soon((await new.attach(user="ada", session="s", message_id="left")).result())
    assert result.text == "thank you for number 7"
    await stop(tasks)
