"""What is recorded of a session, for readers and for programs."""

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from turnwise.agents.function import agent
from turnwise.cli import records
from turnwise.facts.sessions import SessionKey
from turnwise.runner import Runner
from turnwise.stores.sql import SqlSessionStore


async def conversed() -> tuple[Runner, SessionKey]:
    """Three turns: an answer, a hand-over to one who asks, a failure; the last one rewound."""

    @agent(patterns=["order"])
    async def orders(context: Any) -> str:
        reply = await context.ask("Which?")
        return f"Order {reply.text}\nis here."

    @agent(patterns=["bill"])
    async def billing(context: Any) -> None:
        await context.transfer("orders")

    @agent(children=[orders, billing])
    def desk(message: str) -> str:
        if message == "fail":
            raise ValueError("as asked")
        return f"You said {message}."

    runner = Runner(desk, store=SqlSessionStore("sqlite://"), app="shop", policy="default")
    last = ""
    for message in ("hello", "my bill", "12", "fail"):
        invocation = await runner.start(message, user="ann", session="s")
        last = (await invocation.result()).invocation_id
    key = runner.key("ann", "s")
    await runner.sessions.rewind(key, last)
    return runner, key


async def logged(runner: Runner, key: SessionKey, **window: Any) -> list[tuple[Any, bool]]:
    return [pair async for pair in records.log(runner.store, key, **window)]


def plain(lines: Iterable[Text]) -> list[str]:
    return [line.plain for line in lines]


async def test_a_transcript_with_numbers() -> None:
    runner, key = await conversed()
    lines = [text for event, hidden in await logged(runner, key) for text in plain(records.transcript(event, hidden))]
    assert lines[:6] == [
        "    1  user: hello",
        "    2  desk: You said hello.",
        "    3  user: my bill",
        "    4  billing: → hands over to orders",
        "    5  orders: Which?",
        "    6  user: 12",
    ]
    assert lines[6] == "    7  orders: Order 12\n       is here."
    assert "rewinds to before #8" in lines[-1]
    assert not [line for line in lines if "fail" in line]
    await runner.close()


async def test_hidden_events_are_marked() -> None:
    """A44."""
    runner, key = await conversed()
    pairs = await logged(runner, key, hidden=True)
    assert [event.sequence for event, hidden in pairs if hidden] == [8, 9]
    lines = [text for event, hidden in pairs for text in plain(records.transcript(event, hidden))]
    assert "    8  user (rewound): fail" in lines
    await runner.close()


async def test_a_log_is_read_page_by_page(monkeypatch: Any) -> None:
    runner, key = await conversed()
    everything = await logged(runner, key, hidden=True)
    monkeypatch.setattr(records, "PAGE_EVENTS", 3)
    assert await logged(runner, key, hidden=True) == everything
    assert [event.sequence for event, _ in await logged(runner, key, last=2)] == [7, 10]
    assert await logged(runner, runner.key("ann", "none")) == []
    await runner.close()


async def test_the_course_of_a_session() -> None:
    """E1."""
    runner, key = await conversed()
    lines = [text for event, hidden in await logged(runner, key, hidden=True) for text in plain(records.course(event, hidden))]
    assert "    1  hello" in lines
    assert "    2  completed" in lines
    assert "    4  billing → hands over to orders" in lines
    assert "    5  orders waits for a reply" in lines
    assert "    8  fail  (rewound)" in lines
    assert any("passed over" in line or "resume" in line for line in lines)
    assert any(line.strip().startswith("decided by ") for line in lines)
    await runner.close()


async def test_the_course_for_programs() -> None:
    runner, key = await conversed()
    told = [records.course_data(event, hidden) for event, hidden in await logged(runner, key, hidden=True)]
    decisions = [data for data in told if data is not None and "selection" in data]
    assert [(data["sequence"], data["text"], data["hidden"]) for data in decisions] == [
        (1, "hello", False), (3, "my bill", False), (6, "12", False), (8, "fail", True),
    ]  # fmt: skip
    assert [data["transfer_to"] for data in told if data is not None and "transfer_to" in data] == ["orders"]
    await runner.close()


async def test_a_session_in_one_line_and_in_a_list() -> None:
    runner, key = await conversed()
    session = await runner.sessions.get(key)
    assert records.session_line(session) == "session s of user ann in shop · 10 events · orders spoke last"
    page = await runner.store.list("shop")
    lines = plain(records.session_table(page.items))
    assert lines[0].split() == ["user", "session", "events", "last", "event", "(UTC)"]
    assert lines[1].split()[:3] == ["ann", "s", "10"]
    assert records.session_data(page.items[0])["events"] == 10
    await runner.close()
