"""Sessions, artifacts, and what the development page asks for, as ADK's clients do over real sockets."""

import base64
import json
from typing import Any

import httpx
import pytest
from adk_play import USER, Adk, adk, read, text_of
from gateway_play import key_for
from google.genai import types
from runner_play import Gate, soon

from turnwise import AgentContext, LlmAgent, agent, tool
from turnwise.facts.content import Content, ThinkingPart
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.testing.models import ScriptedModel, calls

AT = f"/apps/app/users/{USER}/sessions"
KEYS = GatewayConfig(auth=AuthConfig())


@agent(patterns=["vault"], roles=["staff"], description="Keeps the gold.")
async def vault(message: str) -> str:
    return "Gold."


@agent(children=[vault], description='Says "so".')
async def desk(message: str, context: AgentContext) -> str:
    context.state["app:all"] = 1
    return f"You said {message}"


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code; the shape is the ADK's."""
    told = answer.json()
    assert set(told) == {"detail", "code"}
    assert isinstance(told["detail"], str) or {*told["detail"][0]} == {"type", "loc", "msg"}
    return answer.status_code, told["code"]


async def test_sessions_are_made_listed_and_deleted() -> None:
    async with adk(desk) as client:
        named = read(await client.ask("POST", AT, json={"sessionId": "one", "state": {"seat": 1, "user:name": "Ada"}}))
        assert (named["id"], named["state"]) == ("one", {"seat": 1, "user:name": "Ada"})
        assert (await client.begin("two", seat=2))["state"] == {"seat": 2, "user:name": "Ada"}
        assert read(await client.ask("POST", AT))["id"].startswith("session-")
        for again in (client.ask("POST", AT, json={"session_id": "one"}), client.on_session("POST", session="two")):
            assert refusal(await again) == (409, "session.exists")
        await client.run("hello", session="one")
        listed = read(await client.ask("GET", AT))
        assert listed[0]["id"] == "one"
        assert (len(listed), {len(each["events"]) for each in listed}) == (3, {0})
        assert listed[0]["state"]["seat"] == 1
        for _ in range(2):
            assert read(await client.on_session("DELETE", session="one")) is None
        assert refusal(await client.on_session("GET", session="one")) == (404, "session.missing")
        assert len(read(await client.ask("GET", AT))) == 2


async def test_state_is_written_without_a_message() -> None:
    async with adk(desk) as client:
        await client.begin(seat=1)
        for body in ({"stateDelta": {"seat": 2}}, {"state_delta": {"meal": ["x", None], "seat": None}}):
            session = read(await client.on_session("PATCH", json=body))
        assert session["state"] == {"meal": ["x", None]}
        deltas = [(event["author"], event["actions"]["stateDelta"]) for event in session["events"]]
        assert deltas == [("user", {"seat": 2}), ("user", {"meal": ["x", None], "seat": None})]
        missing = await client.on_session("PATCH", session="none", json={"stateDelta": {}})
        assert refusal(missing) == (404, "session.missing")
        for body, code in (
            ({"stateDelta": {"temp:a": 1}}, "message"),
            ({}, "request.invalid"),
            ({"stateDelta": {"": 1}}, "message"),
        ):
            assert refusal(await client.on_session("PATCH", json=body)) == (422, code)


async def test_who_may_not_read_writes_nothing_that_would_be_answered_with_it() -> None:
    async with adk(desk, KEYS) as client:
        writer = client._replace(headers=await key_for(client.runner, user=USER, scopes=("sessions:write", "messages:write")))
        assert (await writer.begin())["id"] == "s"
        assert refusal(await writer.on_session("PATCH", json={"stateDelta": {"a": 1}})) == (403, "access.forbidden")
        brought = await writer.ask("POST", AT, json={"sessionId": "t", "events": past(("user", "hi"))})
        assert refusal(brought) == (403, "access.forbidden")
        (session,) = (await client.runner.store.list("app")).items
        assert (session.key.id, session.last_sequence) == ("s", 0)


async def test_not_while_the_session_answers() -> None:
    gate = Gate()
    async with adk(gate.agent) as client:
        await client.begin()
        running = await client.runner.start("hi", user=USER, session="s")
        await soon(gate.began.wait())
        assert refusal(await client.on_session("PATCH", json={"stateDelta": {"a": 1}})) == (409, "session.busy")
        assert refusal(await client.on_session("DELETE")) == (409, "session.busy")
        gate.go.set()
        await soon(running.result())
        assert read(await client.on_session("PATCH", json={"stateDelta": {"a": 1}}))["state"] == {"a": 1}


def past(*events: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"author": author, "content": {"parts": [{"text": text}]}, "actions": {"stateDelta": {}}} for author, text in events
    ]


async def test_what_was_said_elsewhere_is_brought_in() -> None:
    async with adk(desk) as client:
        events = past(
            ("their_agent", "Welcome."), ("user", "hello"), ("their_agent", "Hi."), ("desk", "How are you?"), ("user", "well")
        )
        made = read(await client.ask("POST", AT, json={"sessionId": "s", "state": {"a": 1}, "events": events}))
        assert [text_of(event) for event in made["events"]] == ["Welcome.", "hello", "Hi.", "How are you?", "well"]
        assert [event["author"] for event in made["events"]] == ["desk", "user", "desk", "desk", "user"]
        assert made["state"] == {"a": 1}
        assert text_of(*await client.run("more")) == "You said more"


WRONG: dict[str, dict[str, Any]] = {
    "an action": {"author": "desk", "actions": {"transferToAgent": "vault"}},
    "a wait": {"author": "desk", "longRunningToolIds": ["c"]},
    "a call": {"author": "desk", "content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}},
    "a result": {"author": "user", "content": {"parts": [{"functionResponse": {"id": "c", "name": "f", "response": {}}}]}},
}


@pytest.mark.parametrize("case", WRONG)
async def test_what_cannot_be_brought_in(case: str) -> None:
    async with adk(desk) as client:
        answer = await client.ask("POST", AT, json={"sessionId": "s", "events": [*past(("user", "hi")), WRONG[case]]})
        assert refusal(answer) == (422, "request.invalid")
        assert answer.json()["detail"][0]["loc"][:3] == ["body", "events", 1]
        assert refusal(await client.on_session("GET")) == (404, "session.missing")


async def test_there_is_no_session_of_what_a_guardrail_stops() -> None:
    class NoRudeness:
        name = "manners"

        async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
            return GuardrailVerdict(action="block", reason="rude") if "damn" in content.text else ALLOW

    async with adk(desk, guardrails=[NoRudeness()]) as client:
        answer = await client.ask("POST", AT, json={"sessionId": "s", "events": past(("user", "damn"))})
        assert refusal(answer) == (422, "message.blocked")
        assert refusal(await client.on_session("GET")) == (404, "session.missing")
        options = await client.ask("POST", AT, json={"options": {"ttl": 1}})
        assert refusal(options) == (422, "request.invalid")


async def test_artifacts() -> None:
    async with adk(desk) as client:
        await client.begin()
        part = types.Part(inline_data=types.Blob(data=b"\xfb\xff\xfe", mime_type="image/png"))
        body = {"filename": "a/b.png", "artifact": part.model_dump(mode="json", by_alias=True, exclude_none=True)}
        first = read(await client.on_session("POST", "/artifacts", json=body))
        uri = f"artifact://apps/app/users/{USER}/sessions/s/artifacts/a/b.png/versions/0"
        assert first == {"version": 0, "canonicalUri": uri, "customMetadata": {}, "mimeType": "image/png"}
        words = {"filename": "a/b.png", "artifact": {"text": "Grüße"}}
        assert read(await client.on_session("POST", "/artifacts", json=words))["version"] == 1
        mine = read(await client.on_session("POST", "/artifacts", json={**words, "filename": "user:c"}))
        assert mine["canonicalUri"] == f"artifact://apps/app/users/{USER}/artifacts/user:c/versions/0"
        assert read(await client.on_session("GET", "/artifacts")) == ["a/b.png", "user:c"]
        at = "/artifacts/a/b.png"
        assert read(await client.on_session("GET", f"{at}/versions")) == [0, 1]
        assert [each["version"] for each in read(await client.on_session("GET", f"{at}/versions/metadata"))] == [0, 1]
        assert read(await client.on_session("GET", f"{at}/versions/0/metadata")) == first
        for path, data in (
            (at, "Grüße".encode()),
            (f"{at}?version=0", b"\xfb\xff\xfe"),
            (f"{at}/versions/latest", "Grüße".encode()),
        ):
            held = read(await client.on_session("GET", path))["inlineData"]
            assert base64.urlsafe_b64decode(held["data"]) == data
        assert read(await client.on_session("GET", f"{at}/versions/0"))["inlineData"]["mimeType"] == "image/png"
        assert read(await client.on_session("DELETE", at)) is None
        assert read(await client.on_session("GET", "/artifacts")) == ["user:c"]


async def test_artifacts_that_are_not_there_or_cannot_be() -> None:
    async with adk(desk) as client:
        await client.begin()
        for path in (
            "/artifacts/x",
            "/artifacts/x?version=0",
            "/artifacts/x/versions/0",
            "/artifacts/x/versions/latest/metadata",
        ):
            assert refusal(await client.on_session("GET", path)) == (404, "request.nothing_here")
        assert read(await client.on_session("GET", "/artifacts/x/versions")) == []
        for path in ("/artifacts/x?version=-1", "/artifacts/x/versions/one", f"/artifacts/x/versions/{'9' * 30}"):
            assert refusal(await client.on_session("GET", path)) == (422, "request.invalid")
        for held in ({"functionCall": {"name": "f"}}, {"inlineData": {"data": "ü"}}, {"text": "\ud800"}):
            content = json.dumps({"filename": "x", "artifact": held})
            answer = await client.on_session("POST", "/artifacts", content=content)
            assert refusal(answer) == (422, "request.invalid")
        name = {"filename": "../x", "artifact": {"text": "hi"}}
        assert refusal(await client.on_session("POST", "/artifacts", json=name))[0] == 422
    async with adk(desk, artifacts=None) as client:
        await client.begin()
        assert refusal(await client.on_session("GET", "/artifacts")) == (404, "request.nothing_here")


async def test_what_users_do_not_see() -> None:
    """C20: and another's session is as if it did not exist."""

    @tool
    def look(secret: str) -> str:
        return "found it"

    thought = Content(parts=(ThinkingPart(text="Hm."), calls("look", {"secret": "x"})))
    root = LlmAgent("root", model=ScriptedModel(thought, "Here."), tools=[look], children=[vault])
    async with adk(root, KEYS) as client:
        ada, bob = await key_for(client.runner, user=USER), await key_for(client.runner, user="bob")
        staff = await key_for(client.runner, user="olga", role="operator")
        user, inside = client._replace(headers=ada), client._replace(headers=staff)
        await user.begin()
        told = str([*await user.run("hi"), await user.session()])
        assert ("Hm." in told, "'secret': 'x'" in told, "found it" in told, "Here." in told) == (False, False, False, True)
        seen = str(await inside.session())
        assert ("'thought': True" in seen, "'secret': 'x'" in seen, "found it" in seen) == (True, True, True)
        for key in (bob, {"Authorization": "Bearer none"}):
            answer = await client._replace(headers=key).on_session("GET")
            assert refusal(answer)[0] in (401, 403)
        refused = await user.on_session("PATCH", json={"stateDelta": {"app:all": 2}})
        assert refusal(refused) == (403, "access.forbidden")
        tree = read(await user.ask("GET", "/apps/app/app-info"))
        assert ([*tree["agents"]], tree["agents"]["root"]["sub_agents"]) == (["root"], [])
        assert "vault" not in (await user.ask("GET", "/dev/apps/app/graph")).text
        assert "vault" in (await inside.ask("GET", "/dev/apps/app/graph")).text


async def test_what_all_users_share_is_not_the_users_to_read() -> None:
    async with adk(desk, KEYS) as client:
        user = Adk(client.gateway, client.runner, await key_for(client.runner, user=USER))
        await user.begin()
        await user.run("hi")
        session = await user.session()
        assert (session["state"], session["events"][-1]["actions"]["stateDelta"]) == ({}, {})


async def test_what_the_page_asks_for() -> None:
    async with adk(desk) as client:
        (info,) = read(await client.ask("GET", "/list-apps?detailed=true"))["apps"]
        assert (info["name"], info["rootAgentName"], info["language"]) == ("app", "desk", "python")
        assert read(await client.ask("GET", "/health")) == {"status": "ok"}
        assert set(read(await client.ask("GET", "/version"))) == {"version", "language", "language_version"}
        assert read(await client.ask("GET", "/config/telemetry")) == {"telemetry": False}
        built = read(await client.ask("GET", "/dev/apps/app/build_graph"))["root_agent"]
        assert (built["name"], [each["name"] for each in built["sub_agents"]]) == ("desk", ["vault"])
        images = read(await client.ask("GET", "/dev/apps/app/build_graph_image?dark_mode=true"))
        assert '"desk" -> "vault";' in images[""]["dotSrc"]
        (part,) = read(await client.ask("GET", "/dev/apps/app/build_graph_image?node=desk/vault")).values()
        assert ('"vault"' in part["dotSrc"], "->" in part["dotSrc"]) == (True, False)
        assert refusal(await client.ask("GET", "/dev/apps/app/build_graph_image?node=x")) == (404, "request.nothing_here")
        await client.begin()
        (said,) = await client.run("hello")
        at = f"/dev{AT}/s/events/{said['id']}/graph"
        assert '"desk" [style="rounded,filled"' in read(await client.ask("GET", at))["dotSrc"]
        assert read(await client.ask("GET", at.replace(said["id"], "none"))) == {}
        assert read(await client.ask("GET", f"/dev/apps/app/debug/trace/{said['id']}")) == {}
        assert read(await client.ask("GET", "/dev/apps/app/debug/trace/session/s")) == []
        assert read(await client.ask("GET", "/dev/apps/app/eval-sets")) == {"evalSetIds": []}
        for path in ("/apps/x/app-info", "/dev/apps/x/graph", "/dev/apps/x/tests", f"/apps/x/users/{USER}/sessions/s"):
            assert refusal(await client.ask("GET", path)) == (404, "request.nothing_here")
        memory = await client.ask("PATCH", f"/apps/app/users/{USER}/memory", json={"sessionId": "s"})
        assert read(memory) is None
