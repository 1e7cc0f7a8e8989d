"""One gateway as the client asks it: in its words, and again when that is safe."""

from typing import Any

import httpx
import pytest
from client_play import Script, problem

from turnwise.client.connection import ApiRequest, Gateway, get, post
from turnwise.client.errors import Unreached
from turnwise.facts.errors import Closing, Forbidden, NothingHere, RequestInvalid, StoreUnavailable, TooMany, TurnwiseError
from turnwise.facts.messages import OfferedTool

GOOD = httpx.Response(200, json={"name": "find"})
NOW = {"Retry-After": "0"}
REFUSED = problem(429, "access.too_many", **NOW)
UNSENT = httpx.ConnectError("All connection attempts failed")


def gateway(script: Script, *, key: str | None = None, patience: float = 60.0) -> Gateway:
    return Gateway("http://gateway.test/below", key, script.http, timeout=5, patience=patience)


async def test_a_request_as_it_goes_out() -> None:
    script = Script(GOOD)
    asking = gateway(script, key="tw_abc").for_user("ann & co")
    found = await asking.ask(OfferedTool, ApiRequest("POST", "/x/%2E%2E", {"a": 1, "b": None}, {"c": "ä"}))
    assert found.name == "find"
    (request,) = script.asked
    assert str(request.url) == "http://gateway.test/below/api/v1/x/%2E%2E?user=ann+%26+co&a=1"
    assert (request.method, request.content) == ("POST", b'{"c":"\\u00e4"}')
    assert request.headers["authorization"] == "Bearer tw_abc"
    assert (request.headers["accept"], request.headers["content-type"]) == ("application/json", "application/json")
    assert request.headers["user-agent"].startswith("turnwise/")
    await asking.close()


async def test_without_key_user_and_body_nothing_is_said_of_them() -> None:
    script = Script(GOOD)
    await gateway(script).ask(OfferedTool, get("/x"))
    (request,) = script.asked
    assert str(request.url) == "http://gateway.test/below/api/v1/x"
    assert not {"authorization", "content-type"} & set(request.headers)


PASSES: dict[str, Any] = {
    "it has too much": REFUSED,
    "its store is away": problem(503, "store.unavailable", **NOW),
    "it is being stopped": problem(503, "request.closing", **NOW),
    "a proxy finds none": httpx.Response(502, headers=NOW, text="Bad gateway"),
    "nobody is there": UNSENT,
    "it broke off": httpx.RemoteProtocolError("Server disconnected without sending a response."),
    "it is quiet": httpx.ReadTimeout(""),
}
SURELY_NOT_DONE = {"it has too much", "nobody is there"}


@pytest.mark.parametrize("case", PASSES)
async def test_what_passes_is_waited_for(case: str) -> None:
    script = Script(PASSES[case], GOOD)
    assert (await gateway(script).ask(OfferedTool, get("/x"))).name == "find"
    assert len(script.asked) == 2


@pytest.mark.parametrize("case", PASSES)
async def test_what_may_not_be_done_twice_is_tried_again_only_if_it_was_surely_not_done(case: str) -> None:
    script = Script(PASSES[case], GOOD)
    asking = gateway(script).ask(OfferedTool, post("/x"), repeatable=False)
    if case in SURELY_NOT_DONE:
        assert (await asking).name == "find"
    else:
        with pytest.raises((StoreUnavailable, Closing)):
            await asking
    assert len(script.asked) == (2 if case in SURELY_NOT_DONE else 1)


@pytest.mark.parametrize("case", PASSES)
async def test_without_patience_it_is_raised_at_once(case: str) -> None:
    script = Script(PASSES[case])
    with pytest.raises(TurnwiseError):
        await gateway(script, patience=0).ask(OfferedTool, get("/x"))
    assert len(script.asked) == 1


async def test_what_does_not_pass_is_raised_at_once() -> None:
    script = Script(problem(403, "access.forbidden"))
    with pytest.raises(Forbidden):
        await gateway(script).ask(OfferedTool, get("/x"))
    assert len(script.asked) == 1


async def test_whoever_asks_to_wait_longer_than_patience_lasts_is_not_waited_for() -> None:
    with pytest.raises(TooMany) as caught:
        await gateway(Script(problem(429, "access.too_many", **{"Retry-After": "61"}))).ask(OfferedTool, get("/x"))
    assert caught.value.retry_after == 61


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<h1>Welcome</h1>"),
        httpx.Response(200, json=[1]),
        httpx.Response(200, json={"name": 1}),
        httpx.Response(200, text="{", headers={"Content-Type": "application/json"}),
        httpx.Response(204),
    ],
)
async def test_a_good_answer_of_something_else(answer: httpx.Response) -> None:
    with pytest.raises(NothingHere, match=r"http://gateway.test answers with .*, which is not a gateway"):
        await gateway(Script(answer)).ask(OfferedTool, get("/x"))


async def test_what_gives_no_json_is_fetched() -> None:
    response = await gateway(Script(httpx.Response(200, content=b"\x00\x01"))).fetch(get("/x"))
    assert response.content == b"\x00\x01"


@pytest.mark.parametrize(
    ("raised", "told", "sent", "quiet"),
    [
        (UNSENT, "cannot be reached: All connection attempts failed.", False, False),
        (httpx.ConnectTimeout(""), "cannot be reached.", False, False),
        (httpx.ReadTimeout(""), "said nothing for 5 s.", True, True),
        (httpx.WriteError(""), "broke off: WriteError.", True, False),
        (httpx.DecodingError(""), "broke off: DecodingError.", True, False),
    ],
)
async def test_how_it_was_not_reached(raised: Exception, told: str, sent: bool, quiet: bool) -> None:
    with pytest.raises(Unreached) as caught:
        await gateway(Script(raised), patience=0).ask(OfferedTool, get("/x"))
    assert caught.value.problem == f"The gateway at http://gateway.test {told}"
    assert (caught.value.sent, caught.value.quiet) == (sent, quiet)
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("asked", [get("/x", name="\ud800"), get("/" + "x" * 70_000)])
async def test_what_no_url_can_hold_is_not_sent(asked: ApiRequest) -> None:
    script = Script(GOOD)
    with pytest.raises(RequestInvalid, match="It cannot be sent"):
        await gateway(script).ask(OfferedTool, asked)
    assert script.asked == []


async def test_a_stream_has_to_be_one() -> None:
    async with gateway(
        Script(httpx.Response(200, text="", headers={"Content-Type": "text/event-stream; charset=utf-8"}))
    ).stream(get("/x")) as response:
        assert response.request.headers["accept"] == "text/event-stream"
    for answer, kind in ((GOOD, NothingHere), (problem(403, "access.forbidden"), Forbidden)):
        with pytest.raises(kind):
            async with gateway(Script(answer)).stream(get("/x")):
                pass
