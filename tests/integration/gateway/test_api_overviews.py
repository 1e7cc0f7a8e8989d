"""What the console asks for, over our own API: the caller, the policy, processes, counts, recent sessions, new decisions."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from gateway_play import Served, events_in, key_for, served

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.stores.sql import decisions

MakeRunner = Callable[..., Runner]
API = "/api/v1"
LOCKED = GatewayConfig(auth=AuthConfig())


@agent(patterns=["vault"], roles=["staff"])
def vault(message: str) -> str:
    return "gold"


@agent(patterns=["order"], description="Knows orders.")
def orders(message: str) -> str:
    return "on its way"


@agent(children=[orders, vault])
def desk(message: str) -> str:
    return "hello"


async def talked(client: Served, headers: dict[str, str] | None = None) -> None:
    for session, text in (("s1", "my order"), ("s2", "hello"), ("s1", "an order again")):
        await client.send_message(text, session, headers=headers or {})


async def test_the_caller_learns_who_he_is_and_what_he_may_do(make_runner: MakeRunner) -> None:
    """K1"""
    runner = make_runner(desk, policy="staples", app="shop")
    async with served(runner, LOCKED) as client:
        assert (await client.get(f"{API}/me")).status_code == 401
        me = (await client.get(f"{API}/me", headers=await key_for(runner, user="ann"))).json()
        assert (me["user"], me["role"], me["app"], me["authenticated"], me["artifacts"]) == ("ann", "user", "shop", True, False)
        assert me["permissions"]["decisions:read"] == "own"
        assert "decisions:label" not in me["permissions"]
        scoped = await key_for(runner, user="ann", role="operator", scopes=["decisions:read"])
        assert (await client.get(f"{API}/me", headers=scoped)).json()["permissions"] == {"decisions:read": "all"}


async def test_only_operators_see_the_policy_and_the_processes(make_runner: MakeRunner) -> None:
    """K1"""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        user, operator = await key_for(runner, user="ann"), await key_for(runner, user="o", role="operator")
        for path in ("policy", "operations"):
            assert (await client.get(f"{API}/{path}", headers=user)).status_code == 403
        await talked(client, user)
        policy = (await client.get(f"{API}/policy", headers=operator)).json()
        assert (policy["name"], policy["default"]) == ("staples", "desk")
        assert [each["name"] for each in policy["stages"]][:2] == ["direct", "patterns"]
        found = (await client.get(f"{API}/operations", headers=operator)).json()
        assert len(found["processes"]) == 1
        assert (found["queued_messages"], found["processes"][0]["sessions"]) == (0, 0)


async def test_only_the_newest_decisions_are_counted(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "COUNTED", 2)
    async with served(make_runner(desk, policy="staples"), LOCKED) as client:
        user = await key_for(client.front.runner, user="ann")
        await talked(client, user)
        found = (await client.get(f"{API}/decision-counts", headers=user)).json()
        assert (found["total"], found["examined"], found["complete"]) == (2, 2, False)
        assert sum(each["count"] for each in found["times"]) == 2


async def test_decisions_are_counted(make_runner: MakeRunner) -> None:
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        user, operator = await key_for(runner, user="ann"), await key_for(runner, user="o", role="operator")
        await talked(client, user)
        await talked(client, await key_for(runner, user="bo"))
        named = {"user": "ann"}
        label = {"agent": "desk"}
        await client.put(f"{API}/sessions/s1/decisions/1/label", params=named, json=label, headers=operator)

        async def counts(headers: dict[str, str], **params: Any) -> Any:
            return (await client.get(f"{API}/decision-counts", params=params, headers=headers)).json()

        every = await counts(operator)
        assert (every["total"], every["complete"]) == (6, True)
        assert {each["name"]: each["count"] for each in every["agents"]} == {"orders": 4, "desk": 2}
        assert every["confusions"] == [{"agent": "orders", "label": "desk", "count": 1}]
        assert sum(each["count"] for each in every["times"]) == 6
        own = await counts(user)
        assert (own["total"], own["confusions"]) == (3, [])
        assert all(each["labelled"] == 0 for each in own["agents"])
        assert (await counts(operator, user="ann", agent="desk"))["total"] == 1
        assert (await counts(operator, labelled=True))["total"] == 1
        assert (await client.get(f"{API}/decision-counts?labelled=true", headers=user)).status_code == 403


async def test_sessions_by_recency(make_runner: MakeRunner) -> None:
    """K1, K2"""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        user, operator = await key_for(runner, user="ann"), await key_for(runner, user="o", role="operator")
        await talked(client, user)

        async def recent(headers: dict[str, str], **params: Any) -> Any:
            answer = await client.get(f"{API}/recent-sessions", params=params, headers=headers)
            return [(each["id"], each["title"], each["text"], each["agent"]) for each in answer.json()["sessions"]]

        both = [("s1", "my order", "an order again", "orders"), ("s2", "hello", "hello", "desk")]
        assert await recent(user) == both
        assert await recent(user, words="order again") == both[:1]
        assert await recent(user, state="failed") == []
        assert await recent(operator) == []
        assert await recent(operator, all_users=True) == await recent(operator, user="ann") == both
        assert (await client.get(f"{API}/recent-sessions?all_users=true", headers=user)).status_code == 403


async def test_rows_of_a_list_may_leave_out_the_verdicts(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk, policy="staples")) as client:
        await talked(client)
        (whole, *_), (slim, *_) = [
            (await client.get(f"{API}/decisions", params=params)).json()["decisions"] for params in ({}, {"slim": True})
        ]
        assert (bool(whole["selection"]["verdicts"]), slim["selection"]["verdicts"]) == (True, [])
        assert slim["selection"]["reason"] == whole["selection"]["reason"]


@pytest.mark.parametrize("role", ["user", "operator"])
async def test_new_decisions_are_streamed_to_those_who_may_read_them(make_runner: MakeRunner, role: str) -> None:
    """K1"""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        ann, bo = await key_for(runner, user="ann", role=role), await key_for(runner, user="bo")
        await talked(client, ann)
        found = ""
        async with asyncio.timeout(30), client.stream("GET", f"{API}/decision-stream", headers=ann) as answer:
            await client.send_message("of bo", "s", headers=bo)
            await client.send_message("of ann", "s", headers=ann)
            async for piece in answer.aiter_text():
                found += piece
                if "of ann" in found:
                    break
        assert [event for event, _, _ in events_in(found)] == ["following"] + ["decision"] * (1 if role == "user" else 2)
        assert ("of bo" in found) == (role == "operator")


async def test_decisions_are_claimed_and_labelled_together(make_runner: MakeRunner) -> None:
    """K1"""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        ann = await key_for(runner, user="ann")
        olga, otto = [await key_for(runner, user=name, role="operator") for name in ("olga", "otto")]
        await talked(client, ann)
        place = f"{API}/sessions/s1/decisions/1"

        async def claim(headers: dict[str, str]) -> bool:
            return bool((await client.put(f"{place}/claim?user=ann", headers=headers)).json()["mine"])

        assert [await claim(olga), await claim(otto), await claim(olga)] == [True, False, True]
        assert (await client.delete(f"{place}/claim?user=ann", headers=olga)).status_code == 204
        assert await claim(otto)
        body: dict[str, Any] = {
            "decisions": [{"user": "ann", "session_id": "s1", "sequence": each} for each in (1, 3)],
            "agent": "desk",
            "note": "small talk",
            "unsure": True,
        }
        assert (await client.post(f"{API}/decision-labels", json=body, headers=ann)).status_code == 403
        for _ in range(2):
            assert (await client.post(f"{API}/decision-labels", json=body, headers=olga)).status_code == 204
        found = (await client.get(f"{place}/labels?user=ann", headers=otto)).json()
        assert [(each["agent"], each["note"], each["unsure"], each["source"]) for each in found["labels"]] == [
            ("desk", "small talk", True, "operator")
        ]
        assert [(each["before"], each["after"]["agent"]) for each in found["changes"]] == [(None, "desk")]
        assert (await client.post(f"{API}/decision-labels", json={**body, "agent": "x"}, headers=olga)).status_code == 422
        await client.post(f"{API}/decision-labels", json={**body, "agent": None}, headers=otto)
        found = (await client.get(f"{place}/labels?user=ann", headers=otto)).json()
        assert (found["labels"], len(found["changes"]), found["changes"][-1]["after"]) == ([], 2, None)
