"""Messages that stand in the inbox when nobody works it off, and such as no process can run (A32, E7)."""

from typing import Any

import pytest
from busy_play import MakeRunner, SlowGate, state_of
from runner_play import ask, key, leave_behind, log, reason

from turnwise import AgentContext, Content, Limits, RunConfig, agent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import MessageBlocked, SessionBusy
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place


class Buggy:
    name = "buggy"

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        if content.text == "poison":
            raise ValueError("a bug in a guardrail")
        return ALLOW


async def test_a_poisonous_message_does_not_wedge_the_session(make_runner: MakeRunner) -> None:
    """A32, A18: a guardrail that fails has not allowed it. Nothing of it is kept, and those behind it are answered."""
    gate = SlowGate()
    runner = make_runner(gate.agent, guardrails=[Buggy()])
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageBlocked, match="'buggy' could not check"):
        await runner.start("poison", user="ada", session="s", message_id="bad")
    third = await runner.start("three", user="ada", session="s")
    gate.go.set()
    assert (await first.result()).text == "answer to slow"
    assert (await third.result()).text == "answer to three"
    assert (await ask(runner, "four")).text == "answer to four"
    assert "poison" not in str(await runner.store.events(key()))
    assert "poison" not in str(await runner.store.inbox.receipt(key(), "bad"))


async def test_a_poisonous_message_left_by_another_process_is_put_aside(make_runner: MakeRunner) -> None:
    """A32: whoever comes next is not stopped by it."""
    runner = make_runner(SlowGate().agent)
    poison = Content(role="user", parts=(ToolResultPart(call_id="nobody's", result=1),))
    await leave_behind(runner, poison)
    assert (await ask(runner, "next")).text == "answer to next"
    assert await state_of(runner, "left") == "refused"


async def test_what_was_put_in_the_inbox_is_not_shown_to_guardrails_again(make_runner: MakeRunner) -> None:
    """A18: once, by whoever accepted it."""
    runner = make_runner(SlowGate().agent, guardrails=[Buggy()])
    await leave_behind(runner, "poison")
    assert (await ask(runner, "next")).text == "answer to next"
    assert [text for author, text in await log(runner) if author == "user"] == ["poison", "next"]


@pytest.mark.parametrize("policy", ["queue", "reject", "interrupt"])
async def test_messages_left_behind_are_answered_first_and_block_nobody(make_runner: MakeRunner, policy: Any) -> None:
    """A32, A43: under every policy; they run under the runner's own configuration."""
    seen: list[tuple[str, int]] = []

    @agent
    async def sees(message: str, context: AgentContext) -> str:
        seen.append((message, context.config.limits.transfers))
        return message

    runner = make_runner(sees, config=RunConfig(when_busy=policy, limits=Limits(transfers=1)))
    await leave_behind(runner, "left")
    if policy == "reject":
        with pytest.raises(SessionBusy):
            await ask(runner, "zero")
        await runner.idle()
    for text in ("one", "two"):
        assert (await ask(runner, text)).text == text
    assert seen == [("left", 1), ("one", 1), ("two", 1)]


async def test_a_message_is_run_as_it_came_whoever_finds_it(make_runner: MakeRunner) -> None:
    """A43: its configuration is kept with it."""
    seen: list[int] = []

    @agent
    async def sees(context: AgentContext) -> str:
        seen.append(context.config.limits.transfers)
        return "seen"

    gate = SlowGate()
    busy, other = make_runner(gate.agent), make_runner(sees)
    first = await busy.start("slow", user="ada", session="s")
    await gate.began.wait()
    await busy.start("two", user="ada", session="s", message_id="two", config=RunConfig(limits=Limits(transfers=3)))
    receipt = await busy.store.inbox.receipt(key(), "two")
    assert receipt is not None
    await other.store.inbox.accept(key(), receipt.message, create=True, limit=1)
    assert await other.recover() == 1
    assert seen == [3]
    gate.go.set()
    await first.result()


async def test_a_message_behind_one_left_in_the_inbox_can_be_cancelled_and_so_can_that_one(make_runner: MakeRunner) -> None:
    """A23, A32: the one left behind runs in this process too, and is told so."""
    gate = SlowGate()
    runner = make_runner(gate.agent)
    await leave_behind(runner, "slow")
    behind = await runner.start("two", user="ada", session="s")
    last = await runner.start("three", user="ada", session="s")
    await gate.began.wait()
    await behind.cancel()
    assert reason(await behind.result()) == "cancelled"
    (running,) = (await runner.sessions.get(key())).head.invocations
    await runner.sessions.cancel(key(), running)
    assert (await last.result()).text == "answer to three"
    ends = [e.actions.end.reason for e in await runner.store.events(key()) if e.actions.end]
    assert ends == ["cancelled", "completed"]


async def test_a_newer_message_interrupts_one_left_in_the_inbox(make_runner: MakeRunner) -> None:
    """A32: what runs is interrupted, not what waits behind it."""
    gate = SlowGate()
    runner = make_runner(gate.agent)
    await leave_behind(runner, "slow")
    behind = await runner.start("two", user="ada", session="s")
    await gate.began.wait()
    newer = await runner.start("three", user="ada", session="s", config=RunConfig(when_busy="interrupt"))
    assert (await newer.result()).text == "answer to three"
    assert (await behind.result()).text == "answer to two"


async def test_a_busy_session_rejects_also_behind_a_message_left_behind(make_runner: MakeRunner) -> None:
    """A32: what was left behind runs here, so the session is busy."""
    gate = SlowGate()
    runner = make_runner(gate.agent)
    await leave_behind(runner, "slow")
    behind = await runner.start("two", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(SessionBusy):
        await ask(runner, "three", config=RunConfig(when_busy="reject"))
    gate.go.set()
    assert (await behind.result()).text == "answer to two"
