"""Real processes on one store, with a service over real HTTP: one asks and another goes on, one is killed (decision 6, A42)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llm_http import KEY, Line, Wire, calls, results
from llm_process import Setting, finished, runner_of, started
from llm_servers.answers import Sayable
from runner_play import key, soon, texts

from turnwise.models.naming import ModelEndpoint


def setting(folder: Path, wire: Wire, **options: Any) -> Setting:
    spec = wire.model()
    if isinstance(spec, ModelEndpoint):
        return Setting(str(folder), spec.model, spec.url, KEY, **options)
    return Setting(str(folder), spec, **options)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_confirmation_is_answered_after_a_restart(tmp_path: Path, wire: Wire, approved: bool) -> None:
    """A42: the process that asked is gone; the tool runs once, in the one that heard the answer, and what was done is not
    done again.
    """
    clerk = setting(tmp_path, wire, confirms=True)
    wire.say(calls(("first", {}), ("second", {}), text="I will."), "All is done.")
    asked = await finished(clerk, "do both")
    assert (asked["end"], asked["text"]) == ("waiting", "I will.\nMay I call second?")
    assert clerk.effects == ["first"]
    answered = await finished(clerk, call_id=asked["calls"][-1], result={"approved": approved, "reason": "not today"})
    assert (answered["end"], answered["text"]) == ("completed", "All is done.")
    assert clerk.effects == (["first", "second"] if approved else ["first"])
    one, two = results(wire.sent()[1])
    assert one == "first: first done"
    assert ("second done" if approved else "not today") in two
    assert not any("confirm" in line.text or "May I call" in line.text for line in wire.sent()[1] if line.role != "assistant")


IN_ONE_STEP: list[Sayable] = [calls(("first", {}), ("second", {})), "All is done."]
IN_TWO_STEPS: list[Sayable] = [calls(("first", {}), text="I begin."), calls(("second", {})), "All is done."]


@pytest.mark.parametrize("script", [IN_ONE_STEP, IN_TWO_STEPS], ids=["one-step", "two-steps"])
async def test_a_process_is_killed_between_two_tools(tmp_path: Path, wire: Wire, script: list[Sayable]) -> None:
    """Decision 6: by SIGKILL. The first tool is not called again, the model is not asked again for what it said, and what
    it reads at last is as if nothing had happened.
    """
    dying = setting(tmp_path, wire, stalls=True)
    wire.say(*script)
    alive = runner_of(dying._replace(stalls=False))
    async with started(dying, "do both") as process:
        while "second" not in dying.effects or not await is_on_record(alive, "tool#1.0"):
            assert process.returncode is None
            await asyncio.sleep(0.02)
        process.kill()
    while not await soon(alive.recover()):
        await asyncio.sleep(0.05)
    assert dying.effects == ["first", "second", "second"]
    assert (await texts(alive))[-1] == "All is done."
    assert len(wire.bodies()) == len(script)
    last = wire.sent()[-1]
    assert results(last) == ["first: first done", "second: second done"]
    assert last[0] == Line("user", "do both")
    assert (await alive.sessions.get(key())).head.invocations == {}
    await alive.close()


async def is_on_record(runner: Any, step: str) -> bool:
    events = await runner.store.events(key())
    return any(record.key.endswith(step) for event in events for record in event.actions.steps)
