"""Decisions and agents over our own API: searched, explained, labelled; and what users are not told."""

from collections.abc import Callable
from typing import Any

import pytest
from gateway_play import Served, key_for, served

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig

MakeRunner = Callable[..., Runner]
API = "/api/v1"
LOCKED = GatewayConfig(auth=AuthConfig())


@agent(patterns=["vault"], roles=["staff"], description="Keeps the gold.", examples=["open the vault"])
def vault(message: str) -> str:
    return "gold"


@agent(patterns=["order"], description="Knows orders.", examples=["where is my order"])
def orders(message: str) -> str:
    return "on its way"


@agent(children=[orders, vault], description="Answers.")
def desk(message: str) -> str:
    return "hello"


async def search(client: Served, headers: dict[str, str] | None = None, **params: Any) -> list[tuple[str, str, str]]:
    """Users, texts and agents of the decisions found."""
    found = (await client.get(f"{API}/decisions", params=params, headers=headers)).json()["decisions"]
    return [(each["user"], each["text"], each["selection"]["agent"]) for each in found]


async def test_decisions_are_searched_and_paged(make_runner: MakeRunner) -> None:
    """E1, C15."""
    async with served(make_runner(desk, policy="staples")) as client:
        for user, text in (("ann", "my order"), ("bo", "what"), ("ann", "an order")):
            await client.send_message(text, params={"user": user})
        every = [("ann", "an order", "orders"), ("bo", "what", "desk"), ("ann", "my order", "orders")]
        assert await search(client) == every
        assert await search(client, user="ann") == [every[0], every[2]]
        assert await search(client, agent="desk") == [every[1]]
        assert await search(client, method="strong_intent_match") == [every[0], every[2]]
        assert await search(client, session_id="s", user="bo") == [every[1]]
        first = (await client.get(f"{API}/decisions?limit=2")).json()
        rest = (await client.get(f"{API}/decisions", params={"after": first["next"]})).json()
        assert [each["text"] for each in rest["decisions"]] == ["my order"]
        assert rest["next"] is None


async def test_decisions_are_filtered(make_runner: MakeRunner) -> None:
    """E1: by time, confidence, outcome, policy and words, and by several at once."""
    async with served(make_runner(desk, policy="staples")) as client:
        for text in ("my order", "what is that", "an Order, please"):
            await client.send_message(text)
        (sure, unsure, first) = (await client.get(f"{API}/decisions")).json()["decisions"]

        async def found(**params: Any) -> list[str]:
            return [text for _, text, _ in await search(client, **params)]

        assert await found(since=unsure["created_at"]) == ["an Order, please", "what is that"]
        assert await found(until=unsure["created_at"]) == ["my order"]
        assert await found(max_confidence=unsure["selection"]["confidence"]) == ["what is that"]
        assert await found(min_confidence=first["selection"]["confidence"]) == ["an Order, please", "my order"]
        assert await found(outcome="clarify") == await found(policy="other") == await found(words="nothing") == []
        assert await found(policy=sure["selection"]["fingerprint"], words="ORDER please", agent="orders") == [
            "an Order, please"
        ]
        for wrong in ({"min_confidence": "2"}, {"since": "soon"}, {"outcome": "lost"}, {"labelled": "perhaps"}):
            assert (await client.get(f"{API}/decisions", params=wrong)).status_code == 422, wrong


async def test_filters_by_label_are_for_who_may_label(make_runner: MakeRunner) -> None:
    """E4: a label may name an agent that users do not know."""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        await client.send_message("my order", headers=ann)
        await client.send_message("what", headers=ann)
        label = f"{API}/sessions/s/decisions/1/label?user=ann"
        assert (await client.put(label, json={"agent": "vault"}, headers=olga)).status_code == 204
        for params in ({"label": "vault"}, {"labelled": "true"}, {"contradicted": "true"}):
            assert (await client.get(f"{API}/decisions", params=params, headers=ann)).status_code == 403
            assert await search(client, olga, **params) == [("ann", "my order", "orders")]
        assert await search(client, olga, labelled="false") == [("ann", "what", "desk")]
        assert await search(client, ann, words="order") == [("ann", "my order", "orders")]


async def test_a_decision_is_explained_and_labelled(make_runner: MakeRunner) -> None:
    """E1, E4."""
    async with served(make_runner(desk, policy="staples")) as client:
        sent = (await client.send_message("my order")).json()
        one = f"{API}/sessions/s/decisions/1"
        found = (await client.get(one)).json()
        assert (found["selection"], found["label"]) == (sent["selection"], None)
        assert [verdict["selector"] for verdict in found["selection"]["verdicts"]]
        before = (await client.get(f"{API}/sessions/s/events")).json()
        for label in ("desk", "vault", None):
            assert (await client.put(f"{one}/label", json={"agent": label})).status_code == 204
            assert (await client.get(one)).json()["label"] == label
        assert (await client.get(f"{API}/sessions/s/events")).json() == before
        unknown = await client.put(f"{one}/label", json={"agent": "nobody"})
        assert (unknown.status_code, unknown.json()["where"]) == (422, ["body", "agent"])
        for path in (f"{API}/sessions/s/decisions/2", f"{API}/sessions/none/decisions/1"):
            assert (await client.get(path)).status_code == 404
            assert (await client.put(f"{path}/label", json={"agent": None})).status_code == 404


async def test_users_search_their_own_and_label_nothing(make_runner: MakeRunner) -> None:
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        for who in (ann, await key_for(runner, user="bo")):
            await client.send_message("my order", headers=who)
        assert await search(client, ann) == [("ann", "my order", "orders")]
        assert {user for user, *_ in await search(client, olga)} == {"ann", "bo"}
        assert await search(client, olga, user="bo") == [("bo", "my order", "orders")]
        assert (await client.get(f"{API}/decisions?user=bo", headers=ann)).status_code == 403
        label = f"{API}/sessions/s/decisions/1/label"
        assert (await client.put(label, json={"agent": "desk"}, headers=ann)).status_code == 403
        assert (await client.put(f"{label}?user=ann", json={"agent": "desk"}, headers=olga)).status_code == 204


async def test_users_learn_nothing_of_agents_out_of_their_reach(make_runner: MakeRunner) -> None:
    """C20: neither from a list, nor from a decision, nor from its label."""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        await client.send_message("open the vault", headers=ann)
        await client.put(f"{API}/sessions/s/decisions/1/label?user=ann", json={"agent": "vault"}, headers=olga)
        for path in ("agents", "agents/desk", "decisions", "sessions/s/decisions/1", "sessions/s/events"):
            told = await client.get(f"{API}/{path}", headers=ann)
            assert told.status_code == 200, path
            assert '"vault"' not in told.text, path
        judged = await client.post(f"{API}/select", json={"content": "open the vault"}, headers=ann)
        assert '"vault"' not in judged.text
        assert (await client.get(f"{API}/agents/vault", headers=ann)).status_code == 404
        assert (await client.get(f"{API}/agents/none", headers=ann)).json()["code"] == "request.nothing_here"
        assert '"vault"' in (await client.get(f"{API}/sessions/s/decisions/1?user=ann", headers=olga)).text
        staff = await key_for(runner, user="sue", agent_roles=("staff",))
        assert (await client.get(f"{API}/agents/vault", headers=staff)).json()["parent"] == "desk"


async def test_agents_are_listed_in_the_trees_order(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        first = (await client.get(f"{API}/agents?limit=2")).json()
        rest = (await client.get(f"{API}/agents", params={"after": first["next"]})).json()
        assert [each["name"] for each in first["agents"] + rest["agents"]] == ["desk", "orders", "vault"]
        assert (first["agents"][0]["children"], rest["next"]) == (["orders", "vault"], None)
        assert (await client.get(f"{API}/agents?after=none")).json()["where"] == ["query", "after"]


async def test_by_what_agents_are_chosen_is_for_operators(make_runner: MakeRunner) -> None:
    """Patterns tell how to be routed where one likes, and examples may be what users once wrote."""
    runner = make_runner(desk)
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        seen = (await client.get(f"{API}/agents/orders", headers=ann)).json()
        assert (seen["description"], seen["matching"]) == ("Knows orders.", None)
        assert "where is my order" not in str(seen)
        inside = (await client.get(f"{API}/agents/orders", headers=olga)).json()["matching"]
        assert inside["examples"] == ["where is my order"]
        assert inside["patterns"][0]["regex"] == "order"


@pytest.mark.parametrize("path", ["agents", "decisions"])
async def test_nobody_in_particular_has_none_of_it(make_runner: MakeRunner, path: str) -> None:
    async with served(make_runner(desk), LOCKED) as client:
        answer = await client.get(f"{API}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (401, "access.unauthenticated")


async def test_users_rate_their_own_decisions(make_runner: MakeRunner) -> None:
    """H2: one rating for each decision and credential, of own sessions alone; an operator overrules."""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="admin", user="olga")
        await client.send_message("my order", headers=ann)
        one = f"{API}/sessions/s/decisions/1"

        async def rate(who: dict[str, str], status: int = 204, path: str = one, **body: Any) -> None:
            assert (await client.post(f"{path}/feedback", json=body, headers=who)).status_code == status

        async def labels() -> list[tuple[str, str | None, bool]]:
            found = (await client.get(f"{one}/labels?user=ann", headers=olga)).json()["labels"]
            return [(each["source"], each["agent"], each["unsure"]) for each in found]

        await rate(ann, rating="up")
        assert await labels() == [("user", "orders", False)]
        await rate(ann, rating="down")
        assert await labels() == [("user", None, True)]  # wrong, but nobody knows who is right
        await rate(ann, rating="down", agent="desk")
        await client.put(f"{one}/label?user=ann", json={"agent": "orders"}, headers=olga)
        assert await labels() == [("operator", "orders", False), ("user", "desk", False)]
        assert (await client.get(f"{one}?user=ann", headers=olga)).json()["label"] == "orders"
        await rate(ann, rating=None)
        assert await labels() == [("operator", "orders", False)]

        for body in ({"rating": "sideways"}, {"rating": "up", "agent": "desk"}, {"rating": "down", "agent": "vault"}, {}):
            await rate(ann, 422, **body)
        for path in (f"{API}/sessions/s/decisions/2", f"{API}/sessions/none/decisions/1"):
            await rate(ann, 404, path, rating="down")
        others = await client.post(f"{one}/feedback?user=ann", json={"rating": "up"}, headers=olga)
        assert others.status_code == 403


async def test_a_decision_keeps_a_digest_of_the_credential(make_runner: MakeRunner) -> None:
    """H2: operators see one digest for one credential, whatever users it names; the credential itself is nowhere."""
    runner = make_runner(desk, policy="staples")
    async with served(runner, LOCKED) as client:
        own, server = await key_for(runner), await key_for(runner, acts_for_users=True)
        await client.send_message("my order", headers=own)
        for user in ("ben", "cat"):
            await client.send_message("my order", params={"user": user}, headers=server)
        operator = await key_for(runner, role="operator", user="op")
        found = (await client.get(f"{API}/decisions", headers=operator)).json()["decisions"]
        digests = {each["user"]: each["selection"]["credential"] for each in found}
        assert len(digests["ann"]) == 16
        assert digests["ben"] == digests["cat"] != digests["ann"]
        path = f"{API}/sessions/s/decisions/1"
        assert "credential" not in (await client.get(path, headers=own)).json()["selection"]
        again = await client.post(f"{API}/sessions/s/invocations/{await last_invocation(runner)}/regenerate", headers=own)
        assert again.status_code == 200
        stored = (await runner.store.decisions.search("app", user="ann")).items[0].selection
        assert stored.credential == digests["ann"]
        events = await runner.store.events(runner.key("ann", "s"))
        assert digests["ann"] not in "".join(each.model_dump_json() for each in events if each.author != "user")


async def test_without_authentication_there_is_no_credential(make_runner: MakeRunner) -> None:
    runner = make_runner(desk, policy="staples")
    async with served(runner) as client:
        await client.send_message("my order")
        (found,) = (await client.get(f"{API}/decisions")).json()["decisions"]
        assert "credential" not in found["selection"]


async def last_invocation(runner: Runner) -> str:
    return (await runner.store.decisions.search(runner.app, user="ann")).items[0].invocation_id
