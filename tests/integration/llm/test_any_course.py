"""Whatever tools wait for, in whatever order it comes, and wherever the process dies: each model answer is asked for once, each
tool that is on record runs once (decision 6, A42).
"""

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st
from llm_play import answering, calls_of, last_results
from runner_play import Crash, NoHeartbeat, key, killed, soon

from turnwise import AgentContext, Content, MessageContext, Runner, SqlSessionStore
from turnwise.agents.llm import LlmAgent
from turnwise.facts.messages import OfferedTool
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import ask_user
from turnwise.tools.function import tool

KINDS = [
    "plain", "says", "counts", "asks_leave", "later", "asks_leave_later", "last", "ask_user", "breaks", "unknown", "offered",
]  # fmt: skip
NOT_OURS = ("ask_user", "unknown", "offered")
OFFERS = MessageContext(tools=(OfferedTool(name="offered"),))


class Desk:
    """An agent with a tool of every kind, that notes what ran; its process dies before the `dies`-th run of a tool."""

    def __init__(self, script: list[list[str]], dies: int) -> None:
        self.ran: Counter[str] = Counter()
        self.crash = Crash() if dies else Crash(times=0)
        self._left = dies
        replies = [
            [calls(kind, self.arguments(kind, f"{n}.{m}")) for m, kind in enumerate(step)] for n, step in enumerate(script)
        ]
        self.model = ScriptedModel(*replies, "The end.")
        self.agent = LlmAgent("desk", model=self.model, tools=[*self.tools(), ask_user])

    @staticmethod
    def arguments(kind: str, place: str) -> dict[str, Any]:
        return {"question": place} if kind == "ask_user" else {"place": place}

    def tools(self) -> list[Any]:
        async def work(place: str, context: AgentContext) -> str:
            self._left -= 1
            if self._left == 0:
                await self.crash.here()
            await asyncio.sleep(0)
            self.ran[place] += 1
            return f"did {place}"

        async def says(place: str, context: AgentContext) -> str:
            await context.say(f"working on {place}")
            return await work(place, context)

        async def counts(place: str, context: AgentContext) -> str:
            context.state[place] = context.state.get(place, 0) + 1
            return await work(place, context)

        async def breaks(place: str, context: AgentContext) -> str:
            await work(place, context)
            raise ValueError(place)

        rules: dict[str, dict[str, Any]] = {
            "plain": {},
            "asks_leave": {"confirm": True},
            "later": {"later": True},
            "asks_leave_later": {"confirm": True, "later": True},
            "last": {"last": True},
        }
        made = [tool(name=name, **each)(work) for name, each in rules.items()]
        return [*made, tool(says), tool(counts), tool(breaks)]


def expected(kind: str, place: str) -> Any:
    if kind == "unknown":
        return None
    if kind in ("later", "asks_leave_later", "offered"):
        return f"late {place}"
    return {"ask_user": f"reply {place}", "breaks": f"ValueError: {place}"}.get(kind, f"did {place}")


async def send(desk: Desk, store: SqlSessionStore, message: str | Content, context: MessageContext | None = None) -> None:
    """Sends a message to a process of its own; another takes up what it leaves if it dies."""
    dying = Runner(desk.agent, store=NoHeartbeat(store))
    async with killed():
        invocation = await dying.start(message, user="ada", session="s", context=context)
        done = asyncio.create_task(invocation.result())
        died = asyncio.create_task(desk.crash.reached.wait())
        await soon(asyncio.wait({done, died}, return_when=asyncio.FIRST_COMPLETED))
    if desk.crash.reached.is_set():
        desk.crash.reached.clear()
        recorded = {place for place in desk.ran if await is_recorded(store, place)}
        desk.ran = Counter(dict.fromkeys(recorded, 1))  # the others are done again
        await soon(Runner(desk.agent, store=store).recover())


async def is_recorded(store: SqlSessionStore, place: str) -> bool:
    """Whether that run of a tool is on record; steps are counted from 1, places in the script from 0."""
    step, _, call = place.partition(".")
    key_ = f"1:tool#{int(step) + 1}.{call}"
    return any(step.key == key_ for e in await store.events(key()) for step in e.actions.steps)


async def answer_one(desk: Desk, store: SqlSessionStore, draw: Any) -> bool:
    """Answers one of the open waits; False when there is none."""
    session = await store.open(key())
    assert session is not None
    if not session.head.waiting():
        return False
    _, _, wait = draw(session.head.waiting())
    events = await store.events(key())
    if wait.kind == "reply":
        question = next(e for e in events if e.actions.awaits and e.actions.awaits.id == wait.id and e.text)
        await send(desk, store, f"reply {question.text}")
        return True
    call = next(call for call in calls_of(events) if call.call_id == wait.id)
    answer = True if call.tool == "confirm" else f"late {call.arguments['place']}"
    await send(desk, store, answering(wait.id, answer))
    return True


async def play(script: list[list[str]], dies: int, draw: Any) -> None:
    desk, store = Desk(script, dies), SqlSessionStore("sqlite://")
    await send(desk, store, "go", OFFERS)
    while await answer_one(desk, store, draw):
        continue
    (end,) = [e.actions.end for e in await store.events(key()) if e.actions.end]
    assert end.reason == "completed", end
    assert len(desk.model.requests) == len(script) + 1
    for n, step in enumerate(script):
        results = last_results(desk.model.requests[n + 1])
        assert [r.tool for r in results] == step
        for m, (kind, result) in enumerate(zip(step, results, strict=True)):
            assert expected(kind, f"{n}.{m}") in (None, result.result)
    places = {f"{n}.{m}": kind for n, step in enumerate(script) for m, kind in enumerate(step)}
    assert desk.ran == Counter({place: 1 for place, kind in places.items() if kind not in NOT_OURS})
    session = await store.open(key())
    assert session is not None
    assert session.state == {place: 1 for place, kind in places.items() if kind == "counts"}
    await store.close()


SCRIPTS = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), max_size=3)


@settings(max_examples=25, deadline=None)
@given(SCRIPTS, st.data())
def test_a_run_comes_to_its_end_however_it_is_taken_up(script: list[list[str]], data: st.DataObject) -> None:
    asyncio.run(play(script, 0, lambda waits: data.draw(st.sampled_from(waits))))


@settings(max_examples=25, deadline=None)
@given(SCRIPTS, st.integers(1, 4), st.data())
def test_a_run_whose_process_dies_comes_to_its_end(script: list[list[str]], dies: int, data: st.DataObject) -> None:
    asyncio.run(play(script, dies, lambda waits: data.draw(st.sampled_from(waits))))
