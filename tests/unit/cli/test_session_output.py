"""What is recorded of a session, for readers and for programs."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from turnwise.agents.function import agent
from turnwise.cli import session_output
from turnwise.facts.content import Content, TextPart, ThinkingPart, text_content
from turnwise.facts.events import Actions, Await, Branch, End, Event, Guarded, Rewind, StepRecord, Summary
from turnwise.facts.messages import Message
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import OpenInvocation, Session, SessionKey
from turnwise.facts.usage import Usage
from turnwise.ports.stores import Lease
from turnwise.runner import Runner
from turnwise.runner.record.journal import DECISION
from turnwise.stores.sql import SqlSessionStore

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


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


async def logged(runner: Runner, key: SessionKey, **window: Any) -> list[session_output.Entry]:
    return [entry async for entry in session_output.read_log(runner.store, key, **window)]


def plain(lines: Iterable[Text]) -> list[str]:
    return [line.plain for line in lines]


async def test_a_transcript_with_numbers() -> None:
    runner, key = await conversed()
    lines = [text for entry in await logged(runner, key) for text in plain(session_output.transcript_lines(entry))]
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
    entries = await logged(runner, key, hidden=True)
    assert [entry.event.sequence for entry in entries if entry.hidden] == [8, 9]
    lines = [text for entry in entries for text in plain(session_output.transcript_lines(entry))]
    assert "    8  user (rewound): fail" in lines
    await runner.close()


async def test_a_log_is_read_page_by_page(monkeypatch: Any) -> None:
    runner, key = await conversed()
    everything = await logged(runner, key, hidden=True)
    monkeypatch.setattr(session_output, "PAGE_EVENTS", 3)
    assert await logged(runner, key, hidden=True) == everything
    assert [entry.event.sequence for entry in await logged(runner, key, last=2)] == [7, 10]
    assert await logged(runner, runner.key("ann", "none")) == []
    await runner.close()


async def test_the_course_of_a_session() -> None:
    """E1."""
    runner, key = await conversed()
    lines = [text for entry in await logged(runner, key, hidden=True) for text in plain(session_output.course_lines(entry))]
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
    told = [session_output.course_data(entry) for entry in await logged(runner, key, hidden=True)]
    decisions = [data for data in told if data is not None and "selection" in data]
    assert [(data["sequence"], data["text"], data["hidden"]) for data in decisions] == [
        (1, "hello", False), (3, "my bill", False), (6, "12", False), (8, "fail", True),
    ]  # fmt: skip
    assert [data["transfer_to"] for data in told if data is not None and "transfer_to" in data] == ["orders"]
    await runner.close()


async def test_a_session_in_one_line_and_in_a_list() -> None:
    runner, key = await conversed()
    session = await runner.sessions.get(key)
    assert session_output.session_line(session) == "session s of user ann in shop · 10 events · orders spoke last"
    page = await runner.store.list("shop")
    lines = plain(session_output.session_table(page.items))
    assert lines[0].split() == ["user", "session", "events", "last", "event", "(UTC)"]
    assert lines[1].split()[:3] == ["ann", "s", "10"]
    assert session_output.session_data(page.items[0])["events"] == 10
    await runner.close()


def event(id_: str, author: str, text: str = "", **about: Any) -> Event:
    actions = about.pop("actions", Actions())
    content = text_content(text, "user" if author == "user" else "agent") if text else None
    return Event(
        id=id_,
        author=author,
        invocation_id="i1",
        created_at=WHEN,
        branch=Branch("1"),
        content=content,
        actions=actions,
        **about,
    )


ASKED = Selection(
    agent="orders", method="m", confidence=1.0, reason="r", policy="p", fingerprint="f", tree_version="t", verdicts=(), ms=0.0
)


async def crashed_twice() -> tuple[SqlSessionStore, SessionKey]:
    """An answer whose process stopped twice: the third attempt brings it to its end."""
    store, key = SqlSessionStore("sqlite://"), SessionKey("shop", "ann", "s")
    blank = await store.open(key, blank=True)
    assert blank is not None
    message = Message(id="m1", content=text_content("where is it?", "user"))
    began = event("e1", "user", "where is it?", actions=Actions(selection=ASKED))
    session = await store.begin(blank, Lease("one", 60), message, [began], queue_limit=None)
    steps = (StepRecord(key="1:charge", value=1), StepRecord(key=f"{DECISION}1:select#1"))
    for events in (
        [event("e2", "orders", "I look."), event("e3", "orders", actions=Actions(steps=steps))],
        [event("e4", "orders", attempt=2, actions=Actions(rewind=Rewind(from_sequence=2, invocation_id="i1")))],
        [event("e5", "orders", "I look again.", attempt=2)],
        [event("e6", "orders", attempt=3, actions=Actions(rewind=Rewind(from_sequence=2, invocation_id="i1")))],
        [event("e7", "orders", "Here it is.", attempt=3, actions=Actions(end=End()))],
    ):
        session = await store.append(session, events)
    return store, key


async def test_what_a_new_attempt_took_back_is_no_rewind(monkeypatch: Any) -> None:
    """What superseded attempts said is hidden, and shown with their number to those who ask."""
    store, key = await crashed_twice()
    shown = [
        text
        for entry in [e async for e in session_output.read_log(store, key)]
        for text in plain(session_output.transcript_lines(entry))
    ]
    assert shown == [
        "    1  user: where is it?",
        "    6  orders: ↻ attempt 3: the process of attempt 2 stopped before the end",
        "    7  orders: Here it is.",
    ]
    for page in (500, 2):
        monkeypatch.setattr(session_output, "PAGE_EVENTS", page)
        entries = [entry async for entry in session_output.read_log(store, key, hidden=True)]
        assert [text for entry in entries for text in plain(session_output.transcript_lines(entry))] == [
            "    1  user: where is it?",
            "    2  orders (attempt 1, superseded): I look.",
            "    3  orders (attempt 1, superseded): did step charge, kept for the next attempt",
            "    4  orders (attempt 2, superseded): ↻ attempt 2: the process of attempt 1 stopped before the end",
            "    5  orders (attempt 2, superseded): I look again.",
            "    6  orders: ↻ attempt 3: the process of attempt 2 stopped before the end",
            "    7  orders: Here it is.",
        ]
    await store.close()


async def test_the_course_shows_each_attempt_and_the_final_answer() -> None:
    store, key = await crashed_twice()
    entries = [entry async for entry in session_output.read_log(store, key, hidden=True)]
    assert [text for entry in entries for text in plain(session_output.course_lines(entry))][-8:] == [
        "       no selector decided · 0.0 ms · policy p (f) · agents t",
        "    2  orders (attempt 1, superseded): I look.",
        "    3  orders (attempt 1, superseded) did step charge, kept for the next attempt",
        "    4  orders (attempt 2, superseded) ↻ attempt 2: the process of attempt 1 stopped before the end",
        "    5  orders (attempt 2, superseded): I look again.",
        "    6  orders ↻ attempt 3: the process of attempt 2 stopped before the end",
        "    7  orders: Here it is.",
        "    7  completed",
    ]
    told = [data for data in map(session_output.course_data, entries) if data is not None]
    assert [(data["attempt"], data["superseded"], data["text"], data.get("kept_steps")) for data in told] == [
        (1, False, "where is it?", None),
        (1, True, "I look.", None),
        (1, True, "", ["charge"]),
        (2, True, "", None),
        (2, True, "I look again.", None),
        (3, False, "", None),
        (3, False, "Here it is.", None),
    ]
    await store.close()


async def test_a_rewound_answer_of_two_attempts_has_both_marks() -> None:
    """A44: what the user takes back is rewound; what an attempt took back before stays superseded."""
    store, key = await crashed_twice()
    session = await store.open(key)
    assert session is not None
    rewind = event("e8", "user", actions=Actions(rewind=Rewind(from_sequence=1, invocation_id="i1")))
    await store.append(session, [rewind.replace(invocation_id="rewind-1")])
    marks = [entry.mark for entry in [e async for e in session_output.read_log(store, key, hidden=True)]]
    first, second = " (attempt 1, superseded)", " (attempt 2, superseded)"
    assert marks == [" (rewound)", first, first, second, second, " (rewound)", " (rewound)", ""]
    await store.close()


def test_what_a_session_is_in_the_middle_of() -> None:
    """E7."""
    waits = (("billing", Await(id="w1", kind="tool_result")), ("orders", Await(id="w2")))
    running = OpenInvocation(agent="orders", attempt=2)
    session = Session(app="shop", user="ann", id="s", created_at=WHEN, updated_at=WHEN, queued=1)
    waiting = session.head.replace(invocations={"i1": OpenInvocation(agent="a", state="waiting", waits=waits)})
    busy = session.head.replace(invocations={"i1": running})

    def line(**about: Any) -> str:
        return session_output.session_line(session.replace(**about)).removeprefix("session s of user ann in shop · 0 events · ")

    assert line(head=busy, holder="x") == "orders is answering, attempt 2 · 1 message in the inbox"
    assert line(head=busy, queued=2) == "orders was answering when its process stopped · 2 messages in the inbox"
    assert line(head=waiting, queued=0) == "billing waits for the result of a tool · orders waits for a reply"


def test_what_guardrails_did_is_told() -> None:
    """C13: also of a message of which nothing else is on record."""
    guarded = (
        Guarded(guardrail="words", action="block", reason="Not here."),
        Guarded(guardrail="cards", action="rewrite", call_id="c1"),
    )
    blocked = Event(
        id="e",
        author="user",
        invocation_id="i",
        created_at=WHEN,
        sequence=1,
        actions=Actions(guarded=guarded, end=End(reason="blocked")),
    )
    assert plain(session_output.transcript_lines(session_output.Entry(blocked))) == [
        "    1  user: the guardrail words blocked: Not here.",
        "       the guardrail cards rewrote the call c1",
        "       ended blocked",
    ]
    told = session_output.course_data(session_output.Entry(blocked))
    assert told is not None
    assert [each["guardrail"] for each in told["guarded"]] == ["words", "cards"]


def test_what_models_took_and_thought_is_told() -> None:
    usage = Usage(model="openai:small", input_tokens=12, output_tokens=7, cost=0.5)
    content = Content(parts=(ThinkingPart(text="Hm.\nYes."), TextPart(text="It is here.")))
    answer = Event(
        id="e",
        author="desk",
        invocation_id="i",
        created_at=WHEN,
        sequence=2,
        content=content,
        actions=Actions(usage=usage, cut_off="tokens", summary=Summary(text="They greeted.", until=1)),
    )
    took = [
        "       summarized the conversation up to #1",
        "       (cut off: the model ran into its limit of tokens)",
        "       openai:small · 12 tokens in, 7 out · $0.5000",
    ]
    assert plain(session_output.transcript_lines(session_output.Entry(answer))) == ["    2  desk: It is here.", *took]
    thought = plain(session_output.transcript_lines(session_output.Entry(answer), thinking=True))
    assert thought == ["    2  desk: [thinks] Hm.\n       Yes.", "       It is here.", *took]
    told = session_output.course_data(session_output.Entry(answer))
    assert told is not None
    assert told["usage"]["cost"] == 0.5
    assert told["cut_off"] == "tokens"
