"""Real processes on one store, with a service over real HTTP: one asks and another goes on, one is killed (decision 6, A42)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llm_http import KEY, Line, Wire, calls, results
from llm_play import answering, on_record
from llm_process import Setting, finished, runner_of, started
from llm_servers.answers import Sayable
from runner_play import ask, key, reason, soon, texts

from turnwise.models.by_name import ModelEndpoint


def setting(folder: Path, wire: Wire, **options: Any) -> Setting:
    spec = wire.model()
    if isinstance(spec, ModelEndpoint):
        return Setting(str(folder), spec.model, spec.url, KEY, **options)
    return Setting(str(folder), spec, **options)


async def test_a_confirmation_is_answered_after_a_restart(tmp_path: Path, wire: Wire) -> None:
    """A42: the process that asked is gone. The tool runs once, in the one that hears the answer, and what the other had done
    is not done again.
    """
    clerk = setting(tmp_path, wire, confirms=True)
    wire.say(calls(("first", {}), ("second", {}), text="I will."), "All is done.")
    asked = await finished(clerk, "do both")
    assert (asked["end"], asked["text"]) == ("waiting", "I will.\nMay I call second?")
    assert clerk.effects == ["first"]
    restarted = runner_of(clerk)
    done = await ask(restarted, answering(asked["calls"][-1], {"approved": True}))
    assert (done.text, reason(done), clerk.effects) == ("All is done.", "completed", ["first", "second"])
    last = wire.sent()[1]
    assert results(last) == ["first: first done", "second: second done"]
    assert [line.text for line in last if line.text.startswith("(calls)")] == ["(calls) first {}", "(calls) second {}"]
    await restarted.close()


IN_ONE_STEP: list[Sayable] = [calls(("first", {}), ("second", {})), "All is done."]
IN_TWO_STEPS: list[Sayable] = [calls(("first", {}), text="I begin."), calls(("second", {})), "All is done."]


@pytest.mark.parametrize(("wire", "script"), [("openai", IN_ONE_STEP), ("anthropic", IN_TWO_STEPS)], indirect=["wire"])
async def test_a_process_is_killed_between_two_tools(tmp_path: Path, wire: Wire, script: list[Sayable]) -> None:
    """Decision 6: by SIGKILL. The first tool is not called again, the model is not asked again for what it said, and what
    it reads at last is as if nothing had happened.
    """
    dying = setting(tmp_path, wire, stalls=True)
    wire.say(*script)
    alive = runner_of(dying._replace(stalls=False))
    async with started(dying, "do both") as process:
        await soon(on_record(alive, "tool#1.0"))
        while "second" not in dying.effects:
            assert process.returncode is None
            await asyncio.sleep(0.02)
        process.kill()
    with alive.store.signals.watch(key()) as watch:
        while not await soon(alive.recover()):
            await watch.next(0.05)
    assert dying.effects == ["first", "second", "second"]
    assert (await texts(alive))[-1] == "All is done."
    assert len(wire.bodies()) == len(script)
    last = wire.sent()[-1]
    assert results(last) == ["first: first done", "second: second done"]
    assert last[0] == Line("user", "do both")
    assert (await alive.sessions.get(key())).head.invocations == {}
    await alive.close()
