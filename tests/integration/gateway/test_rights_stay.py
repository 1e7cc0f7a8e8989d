"""What a request says never lifts what its credential may; ids of others open nothing; nobody else learns what went wrong."""

import json
from typing import Any

import pytest
from gateway_play import key_for
from whose_asked import FILE, OF_USER, Things
from whose_play import REQUEST, made_up, seen, state_of, things_of, two_users, words_of

from turnwise import AgentContext, agent
from turnwise.gateway.openai.responses.response import ResponseId

HI = {"role": "user", "content": "hi"}
LIFTING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat, user": ("/v1/chat/completions", {"model": "desk", "messages": [HI], "user": "ann"}),
    "chat, identifier": ("/v1/chat/completions", {"model": "desk", "messages": [HI], "safety_identifier": "ann"}),
    "chat, metadata": (
        "/v1/chat/completions",
        {"model": "desk", "messages": [HI], "metadata": {"user": "ann", "role": "admin"}},
    ),
    "responses, user": ("/v1/responses", {"input": "hi", "user": "ann"}),
    "responses, identifier": ("/v1/responses", {"input": "hi", "safety_identifier": "ann"}),
    "customer": ("/api/v1/graph-chat/chat", {"message": "hi", "context": {"customer_id": "ann", "role": "admin"}}),
    "customer of an agent": (
        "/api/v1/graph-chat/execute-agent",
        {"message": "hi", "agent_id": "desk", "context": {"customer_id": "ann", "roles": ["admin"]}},
    ),
    "attributes": (
        "/api/v1/sessions/x/messages",
        {"content": "hi", "context": {"attributes": {"user": "ann", "role": "admin", "acts_for_users": True}}},
    ),
}


@pytest.mark.parametrize("name", LIFTING)
async def test_whom_the_body_names_changes_nothing(name: str) -> None:
    path, body = LIFTING[name]
    async with two_users() as (client, runner, _, bob):
        before = await state_of(runner, "ann")
        for key, user in ((bob, "bob"), (await key_for(runner, role="admin", user="adam"), "adam")):
            answer = await client.post(path, json=body, headers=dict(key))
            assert answer.status_code == 200
            assert len(await state_of(runner, user)) == 1
        assert await state_of(runner, "ann") == before == []


async def test_what_a_server_says_in_the_query_counts_more_than_what_it_passes_on() -> None:
    """Else the user whose request it passes on could name another."""
    async with two_users() as (client, runner, *_):
        server = await key_for(runner, acts_for_users=True)
        for path, body in (LIFTING["chat, user"], LIFTING["responses, user"]):
            assert (await client.post(path, json=body, headers=server, params={"user": "bob"})).status_code == 200
        assert (len(await state_of(runner, "bob")), await state_of(runner, "ann")) == (2, [])


@pytest.mark.parametrize("role", ["user", "operator"])
async def test_state_that_all_users_share_is_written_by_admins_alone(role: Any) -> None:
    async with two_users() as (client, runner, *_):
        key = await key_for(runner, user="ann", role=role)
        refused = await client.post("/api/v1/sessions", json={"state": {"app:x": 1}}, headers=key)
        assert (refused.status_code, await state_of(runner, "ann")) == (403, [])


async def test_who_may_enter_cannot_be_named_in_a_second_header() -> None:
    """The key counts, and then alone: a good token beside a bad key does not help."""
    async with two_users() as (client, runner, ann, bob):
        bad = {**ann, "X-API-Key": "tw_0123456789ab_" + "A" * 43}
        assert (await client.get("/api/v1/sessions", headers=bad)).status_code == 401
        things = await things_of(runner, "ann")
        both = {**ann, "X-API-Key": bob["Authorization"].removeprefix("Bearer ")}
        assert (await client.get(f"/api/v1/sessions/{things.session}", headers=both)).status_code == 404


async def test_a_fork_goes_beside_anothers_session_not_into_it() -> None:
    """A44."""
    async with two_users() as (client, runner, _, bob):
        hers, his = await things_of(runner, "ann"), await things_of(runner, "bob")
        before = await state_of(runner, "ann")
        answers = []
        for things in (hers, made_up("ann")):
            path = f"/api/v1/sessions/{his.session}/fork"
            answers.append(seen(await client.post(path, json={"id": things.session}, headers={**bob, **REQUEST}), things))
        assert answers[0] == answers[1]
        assert (answers[0].status, await state_of(runner, "ann")) == (201, before)


@pytest.mark.parametrize(
    "name", [OF_USER, FILE, "user:../ann/user/b.txt", "..%2f..%2fann/b.txt", "user:%2e%2e/ann", "%2Fetc/passwd"]
)
async def test_names_of_artifacts_lead_to_ones_own(name: str) -> None:
    """A28."""
    async with two_users() as (client, runner, _, bob):
        things = await things_of(runner, "ann")
        await runner.sessions.create(runner.key("bob", things.session))
        before = await state_of(runner, "ann")
        at = f"/api/v1/sessions/{things.session}/artifacts/{name}"
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            answer = await client.request(method, at, content=b"his", headers=dict(bob))
            assert answer.status_code < 500
            assert words_of("ann") not in answer.text
        assert await state_of(runner, "ann") == before


async def test_ids_that_a_server_was_given_for_ann_open_nothing_for_bob() -> None:
    """They hold her name, so they are found without naming her, by who may."""
    async with two_users() as (client, runner, ann, bob):
        server = await key_for(runner, acts_for_users=True)
        asked = {"input": f"which {words_of('ann')}"}
        told = (await client.post("/v1/responses", json=asked, params={"user": "ann"}, headers=server)).json()
        fake = ResponseId("s-1", "m-1", "ann").id
        for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/input_items"), ("DELETE", "")):
            answers = []
            for id_ in (told["id"], fake):
                things = made_up("ann")._replace(response=id_)
                answer = await client.request(method, f"/v1/responses/{id_}{path}", headers={**bob, **REQUEST})
                answers.append(seen(answer, things))
            assert answers[0] == answers[1]
            assert answers[0].status == 404
        item = {"type": "item_reference", "id": told["output"][0]["id"]}
        before = await state_of(runner, "ann")
        body = {"input": [item, {"role": "user", "content": "this"}]}
        assert (await client.post("/v1/responses", json=body, headers=dict(bob))).status_code in (200, 404)
        assert await state_of(runner, "ann") == before
        assert (await client.get(f"/v1/responses/{told['id']}", headers=server)).status_code == 200
        assert (await client.get(f"/v1/responses/{told['id']}", headers=dict(ann))).status_code == 200


async def test_an_answer_to_anothers_question_is_no_answer() -> None:
    """A8: neither by the call's id, nor by the session's."""
    async with two_users() as (client, runner, _, bob):
        things = await things_of(runner, "ann")
        before = await state_of(runner, "ann")
        result = {"kind": "tool_result", "call_id": things.call, "result": 1}
        at = f"/api/v1/sessions/{things.session}/messages"
        refused = await client.post(at, json={"content": {"parts": [result]}}, headers=dict(bob))
        missing = await client.post(at, json={"content": {"parts": [{**result, "call_id": "wait-0"}]}}, headers=dict(bob))
        assert (refused.status_code, missing.status_code) == (409, 409)
        assert await state_of(runner, "ann") == before


async def test_metrics_and_what_is_open_to_all_tell_of_nobody() -> None:
    async with two_users() as (client, runner, *_):
        things = await things_of(runner, "ann")
        operator = await key_for(runner, role="operator")
        texts = [(await client.get("/metrics", headers=operator)).text]
        texts += [(await client.get(path)).text for path in ("/openapi.json", "/docs", "/api/v1/health", "/api/v1/ready")]
        for text in texts:
            assert not [id_ for id_ in things if isinstance(id_, str) and len(id_) > 3 and id_ in text]
        assert [json.loads(text) for text in texts[3:]] == [
            {"status": "alive"},
            {"status": "ready", "guardrail_threads_stuck": 0},
        ]


@agent
async def leaky(message: str, context: AgentContext) -> str:
    context.state["app:prices"] = "prices of all"
    await context.say("I look.")
    raise ValueError("password=hunter2")


def asked_about(things: Things) -> list[tuple[str, str, dict[str, Any]]]:
    session, invocation = (
        f"/api/v1/sessions/{things.session}",
        f"/api/v1/sessions/{things.session}/invocations/{things.invocation}",
    )
    stream = {"headers": {"Accept": "text/event-stream"}}
    reads = [session, f"{session}/events", f"{session}/state", invocation, f"{invocation}/events", "/api/v1/decisions"]
    return [
        *(("GET", path, {}) for path in (*reads, f"{session}/messages/{things.message}", f"/v1/responses/{things.response}")),
        *(("GET", path, stream) for path in (f"{invocation}/events", f"{session}/messages/{things.message}")),
        ("GET", f"/v1/responses/{things.response}", {"params": {"stream": True}}),
        ("POST", f"{session}/messages", {"json": {"content": "hi"}}),
        ("POST", f"{session}/messages", {"json": {"content": "hi"}, **stream}),
        ("POST", "/v1/responses", {"json": {"input": "hi"}}),
        ("POST", "/v1/responses", {"json": {"input": "hi", "stream": True}}),
        ("POST", "/v1/chat/completions", {"json": {"model": "turnwise", "messages": [HI]}}),
        ("POST", "/v1/chat/completions", {"json": {"model": "turnwise", "messages": [HI], "stream": True}}),
        ("POST", "/api/v1/graph-chat/chat", {"json": {"message": "hi"}}),
        ("POST", f"{invocation}/regenerate", {}),
    ]


async def test_what_went_wrong_inside_and_what_all_share_are_for_operators() -> None:
    inside = ("hunter2", "prices of all")
    async with two_users(root=leaky) as (client, runner, ann, _):
        begun = await runner.start("hi", user="ann", session="s", message_id="m")
        result = await begun.result()
        things = made_up("ann")._replace(
            session="s", message="m", invocation=result.invocation_id, response=ResponseId("s", "m").id
        )
        for method, path, options in asked_about(things):
            given = dict(options)
            answer = await client.request(method, path, headers={**ann, **given.pop("headers", {})}, **given)
            assert (answer.status_code < 500 or "/chat/" in path, path) == (True, path)
            assert [word for word in inside if word in answer.text] == [], path
        operator = await key_for(runner, role="operator")
        told = await client.get("/api/v1/sessions/s/events?user=ann&hidden=true", headers=operator)
        assert [word for word in inside if word in told.text] == list(inside)
