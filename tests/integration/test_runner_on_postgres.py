"""The whole front door on a real PostgreSQL: what holds on SQLite holds there."""

import asyncio

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.sessions import SessionKey
from turnwise.testing.postgres import new_postgres_database


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
