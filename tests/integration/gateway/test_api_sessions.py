"""Sessions over our own API: made, listed, read, taken back, copied, deleted; each user's apart."""

from collections.abc import Callable

from gateway_play import Served, key_for, served
from runner_play import Gate, soon

from turnwise import AgentContext, Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
LOCKED = GatewayConfig(auth=AuthConfig())
API = "/api/v1"


@agent
async def desk(message: str, context: AgentContext) -> str:
    if message == "fail":
        raise RuntimeError("password=x")
    context.state["n"] = context.state.get("n", 0) + 1
    context.state["app:motd"] = "for all"
    context.state["user:last"] = message
    return f"{message}, the {context.state['n']}."


async def texts(client: Served, session: str = "s", **params: object) -> list[str]:
    page = await client.get(f"{API}/sessions/{session}/events", params=params)  # type: ignore[arg-type]
    events = page.json()["events"]
    return [part["text"] for event in events if event["content"] for part in event["content"]["parts"]]


async def test_a_session_is_made_with_a_state_and_found_where_it_says(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        made = await client.post(f"{API}/sessions", json={"id": "ä 1", "state": {"n": 4, "user:last": "x", "gone": None}})
        assert made.status_code == 201
        found = await client.get(made.headers["location"])
        assert found.json() == made.json()
        assert (found.json()["id"], found.json()["last_sequence"], found.json()["busy"]) == ("ä 1", 0, False)
        assert (await client.get(f"{API}/sessions/ä 1/state")).json()["state"] == {"n": 4, "user:last": "x"}
        assert (await client.post(f"{API}/sessions", json={"id": "ä 1"})).json()["code"] == "session.exists"


async def test_without_an_id_a_session_gets_one(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        made = [(await client.post(f"{API}/sessions?user=bo", json={})) for _ in range(2)]
        assert len({each.json()["id"] for each in made}) == 2
        assert (await client.get(made[0].headers["location"])).json()["user"] == "bo"


async def test_a_session_says_how_it_stands(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as client:
        first = (await client.post(f"{API}/sessions/s/messages?wait=false", json={"content": "hi"})).json()
        await gate.began.wait()
        await client.post(f"{API}/sessions/s/messages?wait=false", json={"content": "and"})
        now = (await client.get(f"{API}/sessions/s")).json()
        assert (now["busy"], now["queued"], now["running"], now["turns"]) == (True, 1, [first["invocation_id"]], 1)
        assert now["holder"]
        assert [each["reason"] for each in now["pending"]] == ["held"]
        gate.go.set()
        await soon(client.front.runner.idle())
        now = (await client.get(f"{API}/sessions/s")).json()
        assert (now["busy"], now["queued"], now["running"], now["active_agent"]) == (False, 0, [], "gated")


async def test_events_are_paged_from_both_ends(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        for text in ("a", "b", "c"):
            await client.send_message(text)
        assert await texts(client) == ["a", "a, the 1.", "b", "b, the 2.", "c", "c, the 3."]
        found, after = [], 0
        while True:
            page = (await client.get(f"{API}/sessions/s/events", params={"limit": 4, "after": after})).json()
            found += [event["sequence"] for event in page["events"]]
            if (after := page["next"]) is None:
                break
        assert found == [1, 2, 3, 4, 5, 6]
        assert await texts(client, last=1) == ["c, the 3."]
        assert await texts(client, last=2, before=3) == ["a", "a, the 1."]
        exact = (await client.get(f"{API}/sessions/s/events?limit=6")).json()
        assert exact["next"] is None


async def test_taking_back_hides_and_keeps(make_runner: MakeRunner) -> None:
    """A44."""
    async with served(make_runner(desk)) as client:
        await client.send_message("a")
        second = (await client.send_message("b")).json()["invocation_id"]
        back = await client.post(f"{API}/sessions/s/rewind", json={"invocation_id": second})
        assert (back.status_code, back.json()["turns"]) == (200, 1)
        assert await texts(client) == ["a", "a, the 1."]
        assert await texts(client, hidden=True) == ["a", "a, the 1.", "b", "b, the 2."]
        assert (await client.get(f"{API}/sessions/s/state")).json()["state"]["n"] == 1
        again = await client.post(f"{API}/sessions/s/rewind", json={"invocation_id": second})
        assert (again.status_code, again.json()["code"]) == (404, "session.invocation_missing")


async def test_a_copy_goes_its_own_way_with_its_artifacts(make_runner: MakeRunner) -> None:
    """A44."""
    async with served(make_runner(desk, artifacts=InMemoryArtifactStore())) as client:
        await client.send_message("a")
        second = (await client.send_message("b")).json()["invocation_id"]
        await client.put(f"{API}/sessions/s/artifacts/note", content=b"1")
        copy = await client.post(f"{API}/sessions/s/fork", json={"id": "t", "before_invocation_id": second})
        assert (copy.status_code, copy.headers["location"]) == (201, f"{API}/sessions/t")
        assert (await client.send_message("c", "t")).json()["text"] == "c, the 2."
        assert await texts(client) == ["a", "a, the 1.", "b", "b, the 2."]
        assert (await client.get(f"{API}/sessions/t/artifacts/note")).content == b"1"
        assert (await client.post(f"{API}/sessions/s/fork", json={"id": "t"})).json()["code"] == "session.exists"
        assert (await client.post(f"{API}/sessions/s/fork", json={})).status_code == 201


async def test_deleting_is_for_good_and_may_be_said_twice(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        await client.send_message("a")
        for _ in range(2):
            gone = await client.delete(f"{API}/sessions/s")
            assert (gone.status_code, gone.content) == (204, b"")
        assert (await client.get(f"{API}/sessions/s")).json()["code"] == "session.missing"
        assert (await client.get(f"{API}/sessions/s/events")).json()["events"] == []


async def test_a_busy_session_is_not_deleted(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as client:
        await client.post(f"{API}/sessions/s/messages?wait=false", json={"content": "hi"})
        await gate.began.wait()
        for path in ("sessions/s", "users/local"):
            assert (await client.delete(f"{API}/{path}")).json()["code"] == "session.busy"
        gate.go.set()
        await soon(client.front.runner.idle())
        assert (await client.delete(f"{API}/sessions/s")).status_code == 204


async def test_all_of_a_user_is_deleted(make_runner: MakeRunner) -> None:
    """A44."""
    async with served(make_runner(desk)) as client:
        for user in ("ann", "bo/c"):
            for session in ("s", "t"):
                await client.send_message("a", session, params={"user": user})
        assert (await client.delete(f"{API}/users/bo%2Fc")).status_code == 204
        left = (await client.get(f"{API}/sessions?all_users=true")).json()["sessions"]
        assert [(each["user"], each["id"]) for each in left] == [("ann", "s"), ("ann", "t")]
        await client.post(f"{API}/sessions?user=bo%2Fc", json={"id": "u"})
        assert "user:last" not in (await client.get(f"{API}/sessions/u/state?user=bo%2Fc")).json()["state"]


async def test_lists_are_paged_by_user_and_id(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        for user, session in (("bo", "2"), ("ann", "2"), ("ann", "1"), ("ann", "3")):
            await client.post(f"{API}/sessions", json={"id": session}, params={"user": user})
        first = (await client.get(f"{API}/sessions?all_users=true&limit=3")).json()
        second = (await client.get(f"{API}/sessions", params={"all_users": True, "after": first["next"]})).json()
        found = [(each["user"], each["id"]) for each in first["sessions"] + second["sessions"]]
        assert found == [("ann", "1"), ("ann", "2"), ("ann", "3"), ("bo", "2")]
        assert second["next"] is None
        assert len((await client.get(f"{API}/sessions?user=ann")).json()["sessions"]) == 3
        assert (await client.get(f"{API}/sessions?after=x")).json()["code"] == "store.cursor"
        both = await client.get(f"{API}/sessions?user=ann&all_users=true")
        assert (both.status_code, both.json()["where"]) == (422, ["query", "user"])


async def test_users_have_their_own_and_learn_nothing_of_others(make_runner: MakeRunner) -> None:
    """What is another's is answered exactly as what does not exist, and naming him is not allowed at all."""
    runner = make_runner(desk, artifacts=InMemoryArtifactStore())
    async with served(runner, LOCKED) as client:
        ann, bo = await key_for(runner, user="ann"), await key_for(runner, user="bo")
        invocation = (await client.send_message("a", "hers", headers=ann)).json()["invocation_id"]
        await client.put(f"{API}/sessions/hers/artifacts/f", content=b"x", headers=ann)
        for name in ("hers", "none"):
            assert (await client.get(f"{API}/sessions/{name}/events", headers=bo)).json() == {"events": [], "next": None}
        for method, path, body in (
            ("GET", "sessions/{}", None),
            ("GET", "sessions/{}/state", None),
            ("GET", "sessions/{}/messages/m", None),
            ("GET", f"sessions/{{}}/invocations/{invocation}", None),
            ("GET", f"sessions/{{}}/invocations/{invocation}/events", None),
            ("POST", f"sessions/{{}}/invocations/{invocation}/cancel", None),
            ("POST", f"sessions/{{}}/invocations/{invocation}/answer", {"call_id": "c", "text": "x"}),
            ("POST", f"sessions/{{}}/invocations/{invocation}/regenerate", None),
            ("POST", "sessions/{}/rewind", {"invocation_id": invocation}),
            ("POST", "sessions/{}/fork", {}),
            ("GET", "sessions/{}/artifacts", None),
            ("GET", "sessions/{}/artifacts/f", None),
            ("PUT", "sessions/{}/artifacts/f", None),
            ("DELETE", "sessions/{}/artifacts/f", None),
            ("GET", "sessions/{}/decisions/1", None),
        ):
            seen = []
            for name in ("hers", "none"):
                answer = await client.request(method, f"{API}/{path.format(name)}", json=body, headers=bo)
                problem = answer.json()
                del problem["request_id"]
                seen.append((answer.status_code, {key: str(value).replace(name, "…") for key, value in problem.items()}))
            assert seen[0] == seen[1], path
            assert seen[0][0] == 404, path
            named = await client.request(method, f"{API}/{path.format('hers')}?user=ann", json=body, headers=bo)
            assert (named.status_code, named.json()["code"]) == (403, "access.forbidden"), path
        assert (await client.delete(f"{API}/sessions/hers", headers=bo)).status_code == 204
        assert (await client.delete(f"{API}/users/ann", headers=bo)).status_code == 403
        assert (await client.get(f"{API}/sessions", headers=bo)).json()["sessions"] == []
        assert (await client.get(f"{API}/sessions?all_users=true", headers=bo)).status_code == 403
        assert (await client.get(f"{API}/sessions/hers", headers=ann)).json()["turns"] == 1


async def test_operators_read_everybodys_and_write_nobodys(make_runner: MakeRunner) -> None:
    runner = make_runner(desk)
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        await client.send_message("a", headers=ann)
        listed = (await client.get(f"{API}/sessions?all_users=true", headers=olga)).json()["sessions"]
        assert [each["user"] for each in listed] == ["ann"]
        assert len((await client.get(f"{API}/sessions/s/events?user=ann", headers=olga)).json()["events"]) == 2
        assert (await client.delete(f"{API}/sessions/s?user=ann", headers=olga)).status_code == 403
        assert (await client.send_message("x", headers=olga, params={"user": "ann"})).status_code == 403
        admin = await key_for(runner, role="admin", user="root")
        assert (await client.delete(f"{API}/sessions/s?user=ann", headers=admin)).status_code == 204


async def test_users_see_neither_what_all_share_nor_what_was_raised(make_runner: MakeRunner) -> None:
    runner = make_runner(desk)
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        failed = await client.send_message("fail", headers=ann)
        assert (failed.status_code, failed.json()["end"]["reason"]) == (200, "failed")
        assert failed.json()["error"] == {"code": "agent.failed", "message": "The agent failed."}
        await client.send_message("a", headers=ann)
        for path in ("", "/events", "/state", f"/invocations/{failed.json()['invocation_id']}"):
            assert "password" not in (text := (await client.get(f"{API}/sessions/s{path}", headers=ann)).text), path
            assert "motd" not in text, path
        whole = await client.get(f"{API}/sessions/s/events?user=ann", headers=olga)
        assert "password=x" in whole.text
        assert "app:motd" in whole.text
        forbidden = await client.post(f"{API}/sessions", json={"state": {"app:motd": "mine"}}, headers=ann)
        assert (forbidden.status_code, forbidden.json()["code"]) == (403, "access.forbidden")


async def test_a_key_does_what_its_scopes_say(make_runner: MakeRunner) -> None:
    runner = make_runner(desk)
    async with served(runner, LOCKED) as client:
        narrow = await key_for(runner, user="ann", scopes=("messages:write",))
        assert (await client.send_message("a", headers=narrow)).status_code == 200
        for path in ("sessions", "sessions/s", "sessions/s/events", "sessions/s/artifacts", "decisions", "agents"):
            assert (await client.get(f"{API}/{path}", headers=narrow)).json()["code"] == "access.forbidden", path
        assert (await client.delete(f"{API}/sessions/s", headers=narrow)).status_code == 403


async def test_what_is_nested_too_deeply_to_be_read_again_is_refused(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        await client.send_message("a")
        nested = "[" * 150 + "]" * 150
        for path, body in (
            ("sessions", f'{{"state": {{"user:n": {nested}}}}}'),
            ("sessions/s/messages", f'{{"content": {{"parts": [{{"kind": "data", "data": {nested}}}]}}}}'),
            ("sessions/s/messages", f'{{"content": "x", "context": {{"attributes": {{"a": {nested}}}}}}}'),
        ):
            answer = await client.post(f"{API}/{path}", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 413, path
        assert await texts(client) == ["a", "a, the 1."]
