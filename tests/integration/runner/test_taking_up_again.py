"""Whatever an agent does around its questions, nothing is done twice (decision 6, A42)."""

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st
from runner_play import ask, key

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.testing.fakes import CountingIssuer

Script = list[str]
OPERATIONS = ["say", "ask", "step", "count", "stream", "call", "save"]


def scripted(script: Script, done: dict[str, int]) -> Any:
    """An agent that does what the script says, and one that it calls."""

    @agent
    async def helper(message: str, context: AgentContext) -> str:
        await context.say(f"private {message}")
        return f"helped {message}"

    @agent(children=[helper])
    async def actor(message: str, context: AgentContext) -> str:
        assert message == "go"
        for n, operation in enumerate(script):
            if operation == "say":
                await context.say(f"say {n}")
            elif operation == "ask":
                assert (await context.ask(f"ask {n}")).text == f"reply {n}"
            elif operation == "stream":
                async with context.stream() as out:
                    await out.write(f"stream {n}")
            elif operation == "call":
                assert (await context.call("helper", str(n))).text == f"helped {n}"
            elif operation == "count":
                context.state["count"] = context.state.get("count", 0) + 1
                await context.say(f"count {n}")
            elif operation == "save":
                context.state[f"kept {n}"] = n
            else:

                def work(place: str = str(n)) -> int:
                    done[place] = done.get(place, 0) + 1
                    return int(place)

                assert await context.step(f"work {n}", work) == n
        return "the end"

    return actor


async def play(script: Script) -> None:
    done: dict[str, int] = {}
    runner = Runner(scripted(script, done), store=SqlSessionStore("sqlite://"), issuer=CountingIssuer())
    result = await ask(runner, "go")
    for n, operation in enumerate(script):
        if operation == "ask":
            assert result.waiting
            result = await ask(runner, f"reply {n}")
    assert result.error is None
    assert result.end is not None
    assert result.end.reason == "completed"
    events = await runner.store.events(key())
    said = [e.text for e in events if e.author == "actor" and e.text]
    assert said == [f"{o} {n}" for n, o in enumerate(script) if o in ("say", "ask", "stream", "count")] + ["the end"]
    helped = [e.text for e in events if e.author == "helper"]
    assert helped == [f"{word} {n}" for n, o in enumerate(script) if o == "call" for word in ("private", "helped")]
    assert done == {str(n): 1 for n, o in enumerate(script) if o == "step"}
    state = (await runner.sessions.get(key())).state
    assert state.get("count", 0) == script.count("count")
    assert {k for k in state if k.startswith("kept")} == {f"kept {n}" for n, o in enumerate(script) if o == "save"}
    await runner.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(OPERATIONS), max_size=8))
def test_nothing_is_said_done_or_written_twice(script: Script) -> None:
    """Decision 6, A42: for any sequence of actions and questions."""
    asyncio.run(play(script))
