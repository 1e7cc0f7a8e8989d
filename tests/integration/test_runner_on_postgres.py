"""The whole front door on a real PostgreSQL: what holds on SQLite holds there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from runner_play import Crash, Gate, die, key, log, reason

from turnwise import AgentContext, LlmAgent, Runner, SqlSessionStore, agent
from turnwise.facts.sessions import SessionKey
from turnwise.ports.agent import Agent
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import FunctionModel
from turnwise.testing.postgres import new_postgres_database
from turnwise.transcript.view import Budget


@agent
async def desk(message: str, context: AgentContext) -> str:
    if message != "form":
        return f"You said {message}"
    context.state["user:name"] = (await context.ask("Your name?")).text
    return f"Hello {context.state['user:name']}"


async def test_a_conversation_with_a_question_and_twenty_messages_at_once() -> None:
    """A18, A24, A32, A42."""
    url = new_postgres_database()
    one, two = (Runner(desk, store=SqlSessionStore(url)) for _ in range(2))
    await (await one.start("form", user="ada", session="s")).result()
    assert (await (await two.start("Ada", user="ada", session="s")).result()).text == "Hello Ada"

    started = await asyncio.gather(*(one.start(str(n), user="ada", session="s") for n in range(20)))
    results = [await invocation.result() for invocation in started]
    assert [result.text for result in results] == [f"You said {n}" for n in range(20)]

    key = SessionKey("app", "ada", "s")
    events = await two.store.events(key)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert (await two.sessions.get(key)).user_state == {"name": "Ada"}
    page = await two.store.decisions.search("app", key=key)
    assert len(page.items) == 22
    await one.close()
    await two.close()


@asynccontextmanager
async def processes() -> AsyncIterator[Any]:
    """Makes runners on one new database, each with connections of its own, as processes have."""
    url, made = new_postgres_database(), list[Runner]()

    def make(root: Agent, **options: Any) -> Runner:
        made.append(Runner(root, **{"store": SqlSessionStore(url), **options}))
        return made[-1]

    yield make
    for runner in made:
        await runner.close()


async def test_pieces_of_an_answer_reach_readers_in_another_process() -> None:
    """E7, decision 5: those that come after a reader is there, each with its offset, before the stored whole."""
    shown, go = asyncio.Event(), asyncio.Event()

    @agent
    async def writer(context: AgentContext) -> None:
        async with context.stream() as stream:
            await stream.write("One")
            shown.set()
            await go.wait()
            for n in range(5):
                await stream.write(f" {n}")
                await asyncio.sleep(0.02)

    async with processes() as process:
        one, two = process(writer), process(writer)
        await one.start("hi", user="ada", session="s", message_id="m")
        await shown.wait()
        reader = (await two.attach(user="ada", session="s", message_id="m")).events()
        first = await anext(reader)
        await asyncio.sleep(0.3)  # until the other process knows that somebody listens
        go.set()
        events = [event async for event in reader]
        whole = "One 0 1 2 3 4"
        pieces = [event for event in events if event.partial]
        assert first.author == "user"
        assert pieces
        assert all(whole[event.offset :].startswith(event.text) for event in pieces)
        assert [event.text for event in events if event.text and not event.partial] == [whole]


async def test_a_dead_process_is_replaced_and_one_stops_what_another_answers() -> None:
    """Decision 6, A23, A33, E7."""
    crash, gate = Crash(), Gate()

    @agent
    async def clerk(context: AgentContext) -> str:
        await context.say("let me see")
        await crash.here()
        return "done"

    async with processes() as process:
        dead = await die(process, clerk, crash)
        alive = process(clerk)
        assert await alive.recover() == 1
        assert (await dead.result()).text == "let me see\ndone"
        assert [text for _, text in await log(alive) if text] == ["hi", "let me see", "done"]

        one, two = process(gate.agent), process(gate.agent)
        running = await one.start("hi", user="ada", session="s")
        await gate.began.wait()
        await two.sessions.cancel(key(), running.id)
        assert reason(await running.result()) == "cancelled"


async def test_a_summary_is_made_once_by_whichever_process_takes_it_up() -> None:
    asked: list[ModelRequest] = []

    async def sum_up(request: ModelRequest) -> str:
        asked.append(request)
        await asyncio.sleep(0.05)
        return "They said much."

    def clerk() -> LlmAgent:
        history = Budget(tokens=400, events=8)
        return LlmAgent("clerk", model=FunctionModel(lambda _: "Noted."), history=history, summary_model=FunctionModel(sum_up))

    async with processes() as process:
        one, two = process(clerk()), process(clerk())
        for n in range(6):
            await (await (one, two)[n % 2].start(f"message {n}", user="ada", session="s")).result()
        await asyncio.gather(one.recover(), two.recover())
        events = await one.store.events(key())
        made = [event for event in events if event.actions.summary]
        assert len(made) == len(asked) == 1
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
