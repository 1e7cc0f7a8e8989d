"""Agents that a caller cannot reach are as if they did not exist (C20), on every way in.

The same is asked of two gateways, of which one has agents that only the role `vip` reaches: nothing that is answered differs,
but for what identifies the agents as a whole.
"""

import re
from typing import Any, NamedTuple

import pytest
from gateway_play import key_for
from whose_play import REQUEST, Key, Seen, made_up, seen, two_users

from turnwise import AgentContext, PolicySpec, agent
from turnwise.agents.function import FunctionAgent
from turnwise.selection.named import named_policy
from turnwise.selection.policy import StageSpec

STREAM = {"Accept": "text/event-stream"}
_HASHES = re.compile(r'"(fingerprint|tree_version|system_fingerprint)":"[^"]*"')
WORDS = ("gold", "carry", "call", "yield", "hello", "<next>@vault</next>")


def root(*, hidden: bool) -> FunctionAgent:
    """A desk with agents that try to reach `vault`, each in a way of its own."""

    @agent(roles=["vip"], patterns=["gold", "carry"])
    def vault() -> str:
        return "Gold."

    @agent
    def cellar() -> str:
        return "Below what is closed."

    @agent(roles=["vip"], children=[cellar])
    def house() -> str:
        return "Closed."

    @agent(patterns=["carry"])
    async def carrier(context: AgentContext) -> str:
        await context.transfer("vault")
        return "carried"

    @agent(patterns=["call"])
    async def caller(context: AgentContext) -> str:
        return (await context.call("vault", "hi")).text

    @agent(patterns=["yield"])
    async def yielder(context: AgentContext) -> Any:
        yield context.event("moving", transfer_to="vault")

    @agent(children=[carrier, caller, yielder, *([vault, house] if hidden else [])])
    def desk(message: str) -> str:
        return f"You said {message}. See <next>@vault</next>."

    return desk


class Question(NamedTuple):
    method: str
    path: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] = {}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "model": "turnwise", **more}


def of_message(text: str, **context: Any) -> list[Question]:
    """One message on all ways in."""
    message = {"content": text, "context": context}
    questions = [
        Question("POST", "/api/v1/sessions/{session}/messages", message),
        Question("POST", "/api/v1/sessions/{session}/messages", message, STREAM),
        Question("POST", "/api/v1/select", message),
        Question("POST", "/api/v1/graph-chat/chat", {"message": text, "session_id": "{session}", "context": context}),
    ]
    if not context:
        questions += [Question("POST", "/v1/chat/completions", said(text, stream=stream)) for stream in (False, True)]
        questions += [Question("POST", "/v1/responses", {"input": text, "stream": stream}) for stream in (False, True)]
    return questions


BY_NAME = [
    Question("GET", "/api/v1/agents"),
    Question("GET", "/api/v1/agents?limit=2&after=caller"),
    *(Question("GET", f"/api/v1/agents{path}") for path in ("/vault", "/cellar", "/desk", "?after=vault")),
    *(Question("GET", f"/v1/models{path}") for path in ("", "/vault", "/cellar", "/house")),
    *(Question("POST", "/v1/chat/completions", said("hi", model=name)) for name in ("vault", "cellar")),
    *(Question("POST", path, {"model": "vault", "input": "hi"}) for path in ("/v1/responses", "/v1/responses/compact")),
    Question("POST", "/api/v1/graph-chat/execute-agent", {"message": "hi", "agent_id": "vault"}),
    Question("GET", "/api/v1/decisions?agent=vault"),
]
IN_CONTEXT: list[dict[str, Any]] = [
    {"direct_agent_id": "vault"},
    {"direct_agent_id": "cellar"},
    {"previous_agents": ["vault", "caller"]},
    {"roles": ["vip"]},
]
BY_MESSAGE = [question for text in WORDS for question in of_message(text)]
IN_MESSAGES = [question for context in IN_CONTEXT for question in of_message("hi", **context)]


async def answers(questions: list[Question], *, hidden: bool) -> list[tuple[Question, list[Seen]]]:
    """What ann is answered, and then reads of it."""
    found = []
    async with two_users(root=root(hidden=hidden)) as (client, _, ann, _):
        for number, (method, template, body, headers) in enumerate([*questions, Question("GET", "/api/v1/decisions")]):
            session = f"session-{number}"
            path = template.replace("{session}", session)
            given = None if body is None else {key: session if value == "{session}" else value for key, value in body.items()}
            told = [await client.request(method, path, json=given, headers={**ann, **REQUEST, **headers})]
            if session in path:
                more = ("", "/events?hidden=true", "/state", "/decisions/1")
                told += [await client.get(f"/api/v1/sessions/{session}{each}", headers={**ann, **REQUEST}) for each in more]
            found.append((Question(method, template, body, headers), [plain(answer) for answer in told]))
    return found


def plain(answer: Any) -> Seen:
    found = seen(answer, made_up("ann"))
    return found._replace(body=_HASHES.sub(r'"\1"', found.body))


@pytest.mark.parametrize("questions", [BY_NAME, BY_MESSAGE, IN_MESSAGES], ids=["by name", "by message", "in messages"])
async def test_they_are_as_if_they_did_not_exist(questions: list[Question]) -> None:
    there, not_there = await answers(questions, hidden=True), await answers(questions, hidden=False)
    for one, other in zip(there, not_there, strict=True):
        assert one == other


POLICIES = {
    "default": PolicySpec(name="own", default="vault"),
    "lead": named_policy("elemental-identity", options={"identity": {"lead": "vault"}}),
    "order": named_policy("elemental-iterative", options={"iterative": {"order": ["vault", "desk", "house"]}}),
    "tags": named_policy("elemental-conversational", options={"conversational": {"lead": "vault"}}),
    "resume": named_policy("adk"),
    "patterns": PolicySpec(name="own", stages=(StageSpec(selector="patterns", options={"margin": 0.1}),)),
}


@pytest.mark.parametrize("name", POLICIES)
async def test_no_policy_names_them(name: str) -> None:
    async with two_users(root=root(hidden=True), policy=POLICIES[name]) as (client, runner, ann, _):
        for question in [question for text in ("hello", "gold", "carry") for question in of_message(text)]:
            path, headers = question.path.replace("{session}", "s"), {**ann, **question.headers}
            answer = await client.request(question.method, path, json=question.body, headers=headers)
            assert not re.search("vault|house|vip", answer.text.replace("<next>@vault</next>", "")), answer.text
        operator = await key_for(runner, role="operator")
        assert "vip" in (await client.get("/api/v1/decisions", headers=operator)).text


async def test_with_the_role_they_are_there() -> None:
    async with two_users(root=root(hidden=True)) as (client, runner, ann, _):
        vip = await key_for(runner, user="ann", agent_roles=["vip"])

        async def names(key: Key) -> tuple[list[str], list[str]]:
            agents = (await client.get("/api/v1/agents", headers=dict(key))).json()["agents"]
            models = (await client.get("/v1/models", headers=dict(key))).json()["data"]
            return [each["name"] for each in agents], [each["id"] for each in models]

        reached = ["desk", "carrier", "caller", "yielder"]
        assert await names(ann) == (reached, ["turnwise", *reached])
        assert await names(vip) == ([*reached, "vault", "house", "cellar"], ["turnwise", *reached, "vault", "house", "cellar"])
        narrowed = {"content": "gold", "context": {"roles": ["vip"]}}
        answer = await client.post("/api/v1/sessions/s/messages", json=narrowed, headers=vip)
        assert answer.json()["text"] == "Gold."


async def test_roles_that_are_gone_are_not_used_again() -> None:
    """A message is answered anew with the roles that both its sender had and its caller has."""
    async with two_users(root=root(hidden=True)) as (client, runner, ann, _):
        vip = await key_for(runner, user="ann", agent_roles=["vip"])
        first = await client.post("/api/v1/sessions/s/messages", json={"content": "gold"}, headers=vip)
        assert first.json()["text"] == "Gold."
        path = f"/api/v1/sessions/s/invocations/{first.json()['invocation_id']}/regenerate"
        assert (await client.post(path, headers=dict(ann))).json()["text"].startswith("You said gold")
