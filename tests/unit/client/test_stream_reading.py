"""A running answer, read to its end over as many connections as it takes."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from client_play import Script, problem
from pydantic import BaseModel

from turnwise.client import Answer
from turnwise.client.connection import Gateway, get, post
from turnwise.client.errors import Unreached
from turnwise.client.stream import answer_to, read
from turnwise.facts.content import text_content
from turnwise.facts.errors import Closing, InvocationMissing, NothingHere, SessionBusy
from turnwise.facts.events import Event

FIRST, AGAIN = post("/m", {"content": "hi"}), get("/m/1")
ANSWER = Answer(session_id="s", message_id="1", invocation_id="i", state="ended", text="you said hi")
STREAM = {"Content-Type": "text/event-stream"}
GONE = httpx.ReadError("")


def event(id_: str, text: str, **more: Any) -> Event:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Event(id=id_, author="a", invocation_id="i", created_at=at, content=text_content(text), **more)


def block(name: str, value: BaseModel | str, id_: int | None = None, more: str = "") -> str:
    data = value if isinstance(value, str) else value.model_dump_json(exclude={"actions"}, exclude_none=True)
    return f"event: {name}\ndata: {data}\n" + (f"id: {id_}\n" if id_ else "") + more + "\n"


SAID = [
    event("e1", "hi", sequence=1),
    event("e2", "you ", partial=True, offset=0),
    event("e2", "said hi", partial=True, offset=4),
    event("e2", "you said hi", sequence=2),
    event("e3", "", sequence=3),
]


def stream_after(after: int) -> str:
    """As a gateway writes it: what is stored above that number, and pieces of what is not stored by then."""
    blocks = [": ping\n\n"]
    finals = {each.id: each.sequence or 0 for each in SAID if not each.partial}
    for each in SAID:
        if finals[each.id] > after:
            blocks.append(block("partial", each) if each.partial else block("event", each, each.sequence))
    return "".join([*blocks, block("something newer", "{}"), block("answer", ANSWER)])


WHOLE = stream_after(0).encode()


def given(request: httpx.Request) -> httpx.Response:
    text = stream_after(int(request.headers.get("last-event-id", "0")))
    return httpx.Response(200, text=text, headers=STREAM)


def cut(after: int, *, cleanly: bool) -> httpx.Response:
    async def broken() -> AsyncIterator[bytes]:
        yield WHOLE[:after]
        if not cleanly:
            raise GONE

    return httpx.Response(200, content=broken(), headers=STREAM)


def gateway(script: Script, patience: float = 60.0) -> Gateway:
    return Gateway("http://gateway.test", None, script.http, timeout=5, patience=patience)


async def all_of(script: Script, **options: Any) -> list[Event | Answer]:
    return [said async for said in read(gateway(script, **options), FIRST, AGAIN)]


async def test_events_come_as_they_are_sent_and_the_answer_last() -> None:
    script = Script(given)
    assert await all_of(script) == [*SAID, ANSWER]
    assert "last-event-id" not in script.asked[0].headers


@pytest.mark.parametrize("cleanly", [False, True], ids=["broken", "ended"])
async def test_wherever_it_breaks_off_nothing_is_lost_and_nothing_comes_twice(cleanly: bool) -> None:
    """Each byte of a short stream is the last one of some first connection; the sender begins open pieces anew."""

    async def checked(after: int) -> None:
        script = Script(cut(after, cleanly=cleanly), given)
        said = await all_of(script)
        stored = [each for each in said if isinstance(each, Event) and not each.partial]
        pieces = [(each.offset, each.text) for each in said if isinstance(each, Event) and each.partial]
        assert (stored, said[-1]) == ([SAID[0], SAID[3], SAID[4]], ANSWER), after
        assert pieces == [(0, "you "), (4, "said hi")], after
        begun = WHOLE[:after].count(b"\n\n") > 1  # a sign of life is no event
        again = script.asked[-1]
        if len(script.asked) > 1:
            assert (again.method, again.url.path) == (("GET", "/api/v1/m/1") if begun else ("POST", "/api/v1/m")), after
            assert script.asked[0].content == (again.content or script.asked[0].content)

    await asyncio.gather(*map(checked, range(len(WHOLE) + 1)))


async def test_a_gateway_that_is_being_stopped_is_followed_by_another() -> None:
    hint = block("closing", '{"code": "request.closing", "title": "It leaves."}', more="retry: 10\n")
    leaves = httpx.Response(200, text=block("event", SAID[0], 1) + hint, headers=STREAM)
    refuses = problem(503, "request.closing", **{"Retry-After": "0"})
    script = Script(leaves, refuses, GONE, given)
    assert await all_of(script) == [*SAID, ANSWER]
    assert [request.headers.get("last-event-id") for request in script.asked] == [None, "1", "1", "1"]


async def test_a_gateway_that_says_the_same_again_is_not_believed() -> None:
    def all_again(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=stream_after(0), headers=STREAM)

    assert await all_of(Script(cut(WHOLE.index(b"event: something"), cleanly=True), all_again)) == [*SAID, ANSWER]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([httpx.Response(200, text=stream_after(0)[:40], headers=STREAM)], Unreached),
        ([GONE], Unreached),
        ([httpx.Response(200, text=block("closing", '{"code": "request.closing"}'), headers=STREAM)], Closing),
    ],
)
async def test_it_is_raised_when_patience_is_over(answers: list[Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await all_of(Script(*answers), patience=0)


async def test_what_does_not_pass_is_raised_at_once_wherever_it_is_told() -> None:
    for answer, kind in (
        (problem(404, "session.invocation_missing"), InvocationMissing),
        (httpx.Response(200, text=block("problem", '{"code": "session.busy"}'), headers=STREAM), SessionBusy),
        (httpx.Response(200, text=block("event", '{"id": 1}'), headers=STREAM), NothingHere),
        (httpx.Response(200, text=block("answer", "no JSON"), headers=STREAM), NothingHere),
        (httpx.Response(200, text=block("problem", "no JSON"), headers=STREAM), NothingHere),
        (httpx.Response(200, html="<h1>Welcome</h1>"), NothingHere),
    ):
        with pytest.raises(kind):
            await all_of(script := Script(answer))
        assert len(script.asked) == 1


class Endless(httpx.AsyncByteStream):
    """An event, and then nothing more; knows whether it was closed."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield block("event", SAID[0], 1).encode()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed = True


async def test_who_leaves_early_leaves_the_connection() -> None:
    endless = Endless()
    reading = read(gateway(Script(httpx.Response(200, stream=endless, headers=STREAM))), FIRST, AGAIN)
    assert await anext(reading) == SAID[0]
    assert not endless.closed
    await reading.aclose()
    assert endless.closed


async def test_an_answer_in_one_request() -> None:
    script = Script(httpx.Response(200, json=ANSWER.model_dump(mode="json")))
    assert await answer_to(gateway(script), FIRST, FIRST, AGAIN) == ANSWER
    assert [request.headers["accept"] for request in script.asked] == ["application/json"]


async def test_an_answer_whose_connection_broke_off_is_asked_for_again() -> None:
    script = Script(GONE, httpx.Response(200, json=ANSWER.model_dump(mode="json")))
    assert await answer_to(gateway(script), FIRST, FIRST, AGAIN) == ANSWER
    assert script.asked[0].content == script.asked[1].content
    with pytest.raises(Unreached):
        await answer_to(gateway(Script(GONE), patience=0), FIRST, FIRST, AGAIN)


@pytest.mark.parametrize("quiet", [httpx.ReadTimeout(""), httpx.Response(504)], ids=["time out", "a proxy's"])
async def test_an_answer_that_takes_too_long_for_a_quiet_connection_is_read_as_a_stream(quiet: Any) -> None:
    script = Script(quiet, given)
    assert await answer_to(gateway(script), FIRST, FIRST, AGAIN) == ANSWER
    assert [(request.method, request.headers["accept"]) for request in script.asked] == [
        ("POST", "application/json"),
        ("POST", "text/event-stream"),
    ]
