"""`Idempotency-Key`, `If-Match` and `ETag` on our own API."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from gateway_play import Served, key_for, served
from runner_play import Gate

from turnwise import AgentContext, Runner, agent
from turnwise.client import Client
from turnwise.facts.content import Content, TextPart
from turnwise.facts.errors import PreconditionFailed
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict

MakeRunner = Callable[..., Runner]
API = "/api/v1/sessions"


@agent
async def desk(message: str, context: AgentContext) -> str:
    context.state["n"] = context.state.get("n", 0) + 1
    return f"{message}, the {context.state['n']}."


class Discreet:
    """Hides what is said."""

    name = "discreet"

    async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
        if place != "message":
            return ALLOW
        return GuardrailVerdict("rewrite", content.with_parts((TextPart(text="hidden"),)))


async def etag(client: Served, session: str = "s", **options: object) -> str:
    return (await client.get(f"{API}/{session}", **options)).headers["etag"]  # type: ignore[arg-type]


async def test_the_same_key_is_the_same_message(make_runner: MakeRunner) -> None:
    """Also without waiting, as a stream, and when the client has meanwhile sent others."""
    async with served(make_runner(desk)) as client:
        key = {"Idempotency-Key": "k-1"}
        first = (await client.send_message("hi", headers=key)).json()
        assert (first["message_id"], first["text"]) == ("k-1", "hi, the 1.")
        await client.send_message("and", headers={"Idempotency-Key": "k-2"})
        assert (await client.send_message("hi", headers=key)).json() == first
        assert (await client.send_message("hi", id="k-1", headers=key)).json() == first
        assert (await client.send_message("hi", headers=key, params={"wait": "false"})).status_code == 202
        assert (await client.stream_message("hi", headers=key))[-1][0] == "answer"
        assert (await client.get(f"{API}/s/messages/k-1")).json() == first
        assert (await client.get(f"{API}/s")).json()["turns"] == 2


@pytest.mark.parametrize("other", [{"content": "bye"}, {"content": "hi", "context": {"channel": "web"}}])
async def test_another_body_under_the_same_key_is_refused(make_runner: MakeRunner, other: dict[str, object]) -> None:
    """Whether the first came with a key, or with an id of the body."""
    async with served(make_runner(desk)) as client:
        firsts: tuple[dict[str, Any], ...] = ({"headers": {"Idempotency-Key": "k"}}, {"id": "k"})
        for number, first in enumerate(firsts):
            session = f"s{number}"
            await client.send_message("hi", session, **first)
            again = await client.post(f"{API}/{session}/messages", json=other, headers={"Idempotency-Key": "k"})
            assert (again.status_code, again.json()["code"]) == (422, "request.key_reused")
            assert again.json()["where"] == ["header", "Idempotency-Key"]
            assert (await client.get(f"{API}/{session}")).json()["turns"] == 1


async def test_a_key_is_of_one_session_and_one_user(make_runner: MakeRunner) -> None:
    runner = make_runner(desk)
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        told = []
        for user in ("ann", "bo"):
            headers = {**await key_for(runner, user=user), "Idempotency-Key": "k"}
            told += [(await client.send_message(f"{user} {name}", name, headers=headers)).json()["text"] for name in "st"]
        assert told == ["ann s, the 1.", "ann t, the 1.", "bo s, the 1.", "bo t, the 1."]


async def test_of_two_bodies_at_once_one_is_answered(make_runner: MakeRunner) -> None:
    """And another process knows which."""
    async with served(make_runner(desk)) as one, served(make_runner(desk)) as two:
        for number in range(8):
            key = {"Idempotency-Key": f"k{number}"}
            answers = await asyncio.gather(*[one.send_message(text, headers=key) for text in "ab"])
            assert sorted(answer.status_code for answer in answers) == [200, 422]
            for text, answer in zip("ab", answers, strict=True):
                assert (await two.send_message(text, headers=key)).status_code == answer.status_code


async def test_a_message_that_guardrails_rewrote_is_known_again(make_runner: MakeRunner) -> None:
    """What is kept of it is not what was sent."""
    async with served(make_runner(desk, guardrails=[Discreet()])) as client:
        key = {"Idempotency-Key": "k"}
        first = (await client.send_message("I am ada@example.com", headers=key)).json()
        assert first["text"] == "hidden, the 1."
        assert (await client.send_message("I am ada@example.com", headers=key)).json() == first
        other = await client.send_message("I am bob@example.com", headers=key)
        assert other.json()["code"] == "request.key_reused"


async def test_a_key_and_an_id_that_differ_are_refused(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        answer = await client.send_message("hi", id="a", headers={"Idempotency-Key": "b"})
        assert (answer.status_code, answer.json()["where"]) == (422, ["header", "Idempotency-Key"])
        assert (await client.send_message("hi", headers={"Idempotency-Key": "x" * 201})).status_code == 422


async def test_a_read_tells_the_revision_and_a_write_may_ask_for_it(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        made = await client.post(API, json={"id": "s"})
        assert made.headers["etag"] == f'"{made.json()["revision"]}"' == await etag(client)
        read = await client.get(f"{API}/s/state")
        given = {"If-Match": read.headers["etag"]}
        written = await client.patch(f"{API}/s/state", json={"state": {"a": 1}}, headers=given)
        assert (written.status_code, written.headers["etag"]) == (200, await etag(client))
        stale = await client.patch(f"{API}/s/state", json={"state": {"a": 2}}, headers=given)
        assert (stale.status_code, stale.json()["code"]) == (412, "request.precondition")
        assert (await client.get(f"{API}/s/state")).json()["state"] == {"a": 1}


async def test_every_write_of_a_session_looks_at_it(make_runner: MakeRunner) -> None:
    """And with the right revision, one of several, or `*`, each of them is done."""
    async with served(make_runner(desk)) as client:
        stale = await etag(client, (await client.post(API, json={"id": "s"})).json()["id"])
        invocation = (await client.send_message("hi")).json()["invocation_id"]
        writes = [
            ("POST", f"{API}/s/messages", {"content": "more"}),
            ("POST", f"{API}/s/fork", {}),
            ("PATCH", f"{API}/s/state", {"state": {"a": 1}}),
            ("POST", f"{API}/s/invocations/{invocation}/regenerate", None),
            ("POST", f"{API}/s/rewind", {"invocation_id": invocation}),
            ("DELETE", f"{API}/s", None),
        ]
        for method, path, body in writes:
            before = await client.get(f"{API}/s")
            answer = await client.request(method, path, json=body, headers={"If-Match": stale})
            assert (answer.status_code, answer.json()["code"]) == (412, "request.precondition"), path
            assert (await client.get(f"{API}/s")).json() == before.json()
        for number, (method, path, body) in enumerate(writes[:3] + writes[4:]):
            now = (await etag(client), f'"0", {await etag(client)}', "*", f"W/{await etag(client)}")[number % 4]
            answer = await client.request(method, path, json=body, headers={"If-Match": now})
            assert answer.is_success, (path, answer.text)


async def test_a_message_sent_again_is_not_held_to_the_revision_that_it_changed(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        await client.post(API, json={"id": "s"})
        given = {"If-Match": await etag(client), "Idempotency-Key": "k"}
        first = await client.send_message("hi", headers=given)
        assert (await client.send_message("hi", headers=given)).json() == first.json()


async def test_where_there_is_no_session_nothing_matches(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        for given in ("*", '"1"'):
            assert (await client.send_message("hi", "new", headers={"If-Match": given})).status_code == 412
            assert (await client.delete(f"{API}/new", headers={"If-Match": given})).status_code == 412
            told = await client.patch(f"{API}/new/state", json={"state": {"a": 1}}, headers={"If-Match": given})
            assert told.status_code == 404
        assert (await client.get(API)).json()["sessions"] == []


async def test_what_is_no_etag_is_a_mistake_and_another_tag_matches_nothing(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        await client.post(API, json={"id": "s"})
        for given in ("1", "", '"1', '"1" "2"'):
            told = await client.patch(f"{API}/s/state", json={"state": {"a": 1}}, headers={"If-Match": given})
            assert (told.status_code, told.json()["where"]) == (422, ["header", "If-Match"]), given
        for given in ('"abc"', '""', '"' + "9" * 30 + '"', '"²"'):
            head = {b"If-Match": given.encode("latin-1")}
            assert (await client.patch(f"{API}/s/state", json={"state": {"a": 1}}, headers=head)).status_code == 412, given


async def test_writers_at_once_lose_nothing(make_runner: MakeRunner) -> None:
    """Two processes count in one session's state, each of what it read."""
    async with served(make_runner(desk)) as one, served(make_runner(desk)) as two:
        await one.post(API, json={"id": "s", "state": {"count": 0}})

        async def count(client: Served, times: int) -> None:
            while times:
                read = await client.get(f"{API}/s/state")
                state, given = {"count": read.json()["state"]["count"] + 1}, {"If-Match": read.headers["etag"]}
                answer = await client.patch(f"{API}/s/state", json={"state": state}, headers=given)
                assert answer.status_code in (200, 412), answer.text
                times -= answer.status_code == 200

        await asyncio.gather(count(one, 5), count(two, 5))
        assert (await one.get(f"{API}/s/state")).json()["state"]["count"] == 10


async def test_the_client_holds_writes_to_a_revision(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as served_, Client(served_.address) as client:
        made = await client.sessions.create("s")
        assert (await client.send("s", "hi", revision=made.revision)).text == "hi, the 1."
        with pytest.raises(PreconditionFailed):
            await client.send("s", "more", revision=made.revision)
        with pytest.raises(PreconditionFailed):
            [event async for event in client.stream("s", "more", revision=made.revision)]
        with pytest.raises(PreconditionFailed):
            await client.sessions.write_state("s", {"a": 1}, revision=made.revision)
        with pytest.raises(PreconditionFailed):
            await client.sessions.rewind("s", "x", revision=made.revision)
        with pytest.raises(PreconditionFailed):
            await client.sessions.delete("s", revision=made.revision)
        now = (await client.sessions.get("s")).revision
        assert (await client.sessions.write_state("s", {"a": 1}, revision=now)).state["a"] == 1
        await client.sessions.delete("s", revision=(await client.sessions.get("s")).revision)


async def test_a_busy_session_is_busy_whatever_its_revision(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as client:
        await client.send_message("hi", params={"wait": "false"})
        await gate.began.wait()
        now = {"If-Match": await etag(client)}
        assert (await client.patch(f"{API}/s/state", json={"state": {"a": 1}}, headers=now)).status_code == 409
        gate.go.set()
