"""The two paths of the reference router over a real socket (C12)."""

from collections.abc import Callable
from typing import Any

import pytest
from gateway_play import Served, key_for, served
from runner_play import UNSURE, Gate, soon

from turnwise import AgentContext, LlmAgent, Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.facts.limits import Limits, RunConfig
from turnwise.facts.sessions import SessionKey
from turnwise.testing.models import ScriptedModel

MakeRunner = Callable[..., Runner]
FIELDS = {
    "success",
    "response",
    "conversation_id",
    "external_conversation_id",
    "observability_trace_id",
    "error",
}


@agent(description="Looks after orders.", patterns=["order"])
async def orders(message: str, context: AgentContext) -> str:
    if message == "an order":
        return f"Order {(await context.ask('Which one?')).text}."
    return "It is on its way."


@agent(description="Explains bills.", patterns=["bill"])
async def billing(message: str, context: AgentContext) -> str:
    return f"You owe nothing, {context.message_context.attributes.get('customer_id', 'stranger')}."


@agent(description="Keeps the gold.", roles=["staff"])
async def vault(message: str) -> str:
    return "Gold."


@agent(children=[orders, billing, vault], description="Helps with anything.")
async def desk(message: str, context: AgentContext) -> str:
    return f"{context.session.user}: {dict(context.message_context.attributes)}"


async def post(client: Served, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    """Status and body. headers: of the request; the rest is its body."""
    headers = body.pop("headers", None)
    answer = await client.post(f"/api/v1/graph-chat/{path}", json=body, headers=headers)
    told = answer.json()
    assert set(told) == FIELDS
    assert told["success"] is (told["error"] is None)
    return answer.status_code, told


async def chosen(client: Served, session: str, user: str = "local") -> list[tuple[str, str]]:
    """Agents and methods of the session's decisions."""
    found = await client.get("/api/v1/decisions", params={"session_id": session, "user": user})
    return [(each["selection"]["agent"], each["selection"]["method"]) for each in found.json()["decisions"]]


async def test_a_message_is_routed_and_answered(make_runner: MakeRunner) -> None:
    """C12: what the reference's clients send, and what they get."""
    runner = make_runner(desk, policy="staples")
    async with served(runner) as client:
        context = {"customer_id": "C-17", "external_conversation_id": "ext-9", "previous_agents": [], "tier": "gold"}
        status, told = await post(client, "chat", message="Where is my order?", session_id="s-1", context=context)
        trace = told.pop("observability_trace_id")
        assert (status, told) == (
            200,
            {
                "success": True,
                "response": {"message": "It is on its way.", "type": "text"},
                "conversation_id": "s-1",
                "external_conversation_id": "ext-9",
                "error": None,
            },
        )
        assert await chosen(client, "s-1", "C-17") == [("orders", "strong_intent_match")]
        found = await client.get(f"/api/v1/sessions/s-1/invocations/{trace}", params={"user": "C-17"})
        assert found.json()["text"] == "It is on its way."


async def test_a_conversation_goes_on_and_one_without_an_id_begins(make_runner: MakeRunner) -> None:
    """C12: the agent that asked gets the reply."""
    async with served(make_runner(desk)) as client:
        _, asked = await post(client, "chat", message="an order")
        assert asked["response"] == {"message": "Which one?", "type": "question"}
        session = asked["conversation_id"]
        _, answered = await post(client, "chat", message="1001", session_id=session)
        assert (answered["response"]["message"], answered["conversation_id"]) == ("Order 1001.", session)
        _, other = await post(client, "chat", message="hello")
        assert other["conversation_id"] != session


async def test_an_agent_is_executed_past_the_router(make_runner: MakeRunner) -> None:
    """C12: whatever the message says, and whoever else is named."""
    async with served(make_runner(desk, policy="staples")) as client:
        context = {"customer_id": "C-17", "direct_agent_id": "orders"}
        status, told = await post(
            client, "execute-agent", agent_id="billing", message="my order", session_id="s", context=context
        )
        assert (status, told["response"]["message"]) == (200, "You owe nothing, C-17.")
        assert await chosen(client, "s", "C-17") == [("billing", "direct_routing")]
        status, told = await post(client, "execute-agent", agent_id="nobody", message="hi", session_id="s")
        assert (status, told["success"], told["response"]) == (404, False, None)
        assert told["error"].startswith("request.nothing_here: There is no agent 'nobody' ")


async def test_the_agent_that_the_context_names_answers_if_there_is_such_an_agent(make_runner: MakeRunner) -> None:
    """C1: one that does not exist is ignored, and the record says so."""
    async with served(make_runner(desk, policy="staples")) as client:
        for name, told in (("orders", "It is on its way."), ("nobody", "local: {}")):
            _, answer = await post(
                client, "chat", message="quarterly figures please", session_id=name, context={"direct_agent_id": name}
            )
            assert answer["response"]["message"] == told
        assert await chosen(client, "orders") == [("orders", "direct_routing")]
        assert await chosen(client, "nobody") == [("desk", "default_fallback")]
        found = (await client.get("/api/v1/decisions", params={"session_id": "nobody"})).json()["decisions"][0]
        direct = found["selection"]["verdicts"][0]
        assert (direct["selector"], direct["outcome"]) == ("direct", "abstained")
        assert "nobody" in str(direct)


async def test_who_helped_before_weighs(make_runner: MakeRunner) -> None:
    """C17: as the caller says, newest last."""

    @agent(examples=["the store closes at eight", "is the shop open on Sunday", "opening hours"], description="Knows stores.")
    async def stores(message: str) -> str:
        return "Until eight."

    @agent(examples=["my card was declined", "pay by card", "my invoice is wrong"], description="Explains bills.")
    async def payments(message: str) -> str:
        return "Paid."

    @agent(children=[stores, payments], description="Helps.")
    async def front(message: str) -> str:
        return "How can I help?"

    async with served(make_runner(front)) as client:
        for before, told in (
            ((), ("Did you mean:", "clarification")),
            (("stores",), ("Until eight.", "text")),
            (("payments",), ("Paid.", "text")),
        ):
            _, answer = await post(client, "chat", message="does the shop take cards", context={"previous_agents": before})
            assert answer["response"]["message"].startswith(told[0])
            assert answer["response"]["type"] == told[1]


async def test_what_stands_beside_it_is_for_the_policy_and_the_agents(make_runner: MakeRunner) -> None:
    """C12, C18: the channel and the kind of user are the message's, whatever is not known an attribute of it."""
    seen: list[Any] = []

    @agent
    async def reader(context: AgentContext) -> str:
        seen.append(context.message_context)
        return "read"

    async with served(make_runner(reader)) as client:
        context = {"channel": "mail", "user_type": "vip", "order": {"id": 7}, "roles": ["staff"], "previous_agents": None}
        await post(client, "chat", message="hi", context=context)
        await post(client, "chat", message="hi", context=None)
    assert (seen[0].channel, seen[0].user_kind, seen[0].roles) == ("mail", "vip", ())
    assert seen[0].attributes == {"order": {"id": 7}, "roles": ["staff"]}
    assert seen[1].attributes == {}


async def test_the_same_message_again_is_answered_once(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk, policy="staples")) as client:
        first = await post(client, "chat", message="hi", session_id="s", message_id="m-1")
        assert await post(client, "chat", message="hi", session_id="s", message_id="m-1") == first
        assert len(await chosen(client, "s")) == 1


async def test_a_choice_and_a_failure_are_told(make_runner: MakeRunner) -> None:
    @agent
    async def b(message: str) -> str:
        raise ValueError("as asked")

    @agent(children=[b])
    async def a(message: str) -> str:
        return "a"

    async with served(make_runner(a, **UNSURE)) as client:
        _, told = await post(client, "chat", message="hm")
        assert (told["success"], told["response"]["type"]) == (True, "clarification")
    async with served(make_runner(a)) as client:
        status, failed = await post(client, "execute-agent", agent_id="b", message="hm", session_id="s")
        assert (status, failed["success"], failed["response"]) == (200, False, None)
        assert failed["error"].startswith("agent.failed: ")
        assert failed["observability_trace_id"].startswith("invocation-")


async def test_an_answer_that_reached_a_limit_says_so(make_runner: MakeRunner) -> None:
    config = RunConfig(limits=Limits(invocation_seconds=0.2, grace_seconds=0))
    async with served(make_runner(Gate().agent, config=config)) as client:
        status, told = await soon(post(client, "chat", message="hm"))
    assert (status, told["success"], told["response"]) == (200, False, None)
    assert "limit" in told["error"]


async def test_models_are_not_asked_for_pieces(make_runner: MakeRunner) -> None:
    model = ScriptedModel("All at once.")
    async with served(make_runner(LlmAgent("writer", model=model))) as client:
        _, told = await post(client, "chat", message="write")
    assert told["response"]["message"] == "All at once."


async def test_whose_conversation_it_is(make_runner: MakeRunner) -> None:
    """A credential that acts for users names the customer; for any other, who names one says only something about himself."""
    runner = make_runner(desk, policy="staples")
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        ann, service = await key_for(runner, user="ann"), await key_for(runner, acts_for_users=True)
        context = {"customer_id": "bob"}
        _, told = await post(client, "chat", message="hi", session_id="s", context=context, headers=ann)
        assert told["response"]["message"] == "ann: {'customer_id': 'bob'}"
        _, told = await post(client, "chat", message="hi", session_id="s", context=context, headers=service)
        assert told["response"]["message"] == "bob: {'customer_id': 'bob'}"
        status, told = await post(client, "chat", message="hi", headers=service)
        assert (status, told["success"]) == (422, False)
        status, told = await post(client, "chat", message="hi")
        assert (status, told["error"].partition(":")[0]) == (401, "access.unauthenticated")
    sessions = [key.key.user for key in (await runner.store.list("app")).items]
    assert sorted(sessions) == ["ann", "bob"]


async def test_agents_that_the_caller_may_not_reach_do_not_exist(make_runner: MakeRunner) -> None:
    """C20"""
    runner = make_runner(desk, policy="staples")
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        ann, staff = await key_for(runner, user="ann"), await key_for(runner, user="bob", agent_roles=("staff",))
        hidden = await post(client, "execute-agent", agent_id="vault", message="hi", headers=ann)
        missing = await post(client, "execute-agent", agent_id="nobody", message="hi", headers=ann)
        assert hidden[0] == missing[0] == 404
        assert hidden[1]["error"].replace("vault", "nobody") == missing[1]["error"]
        _, told = await post(client, "execute-agent", agent_id="vault", message="hi", headers=staff)
        assert told["response"]["message"] == "Gold."


async def test_where_the_policy_lets_nobody_choose_no_agent_can_be_executed(make_runner: MakeRunner) -> None:
    """Better refused than answered by another."""
    async with served(make_runner(desk, policy="adk")) as client:
        status, told = await post(client, "execute-agent", agent_id="orders", message="hi")
    assert (status, told["success"]) == (404, False)


NOT_TAKEN: dict[str, tuple[str, int, str]] = {
    "no JSON": ("{", 422, "request.invalid"),
    "no object": ("[]", 422, "request.invalid"),
    "no message": ("{}", 422, "request.invalid"),
    "an empty message": ('{"message": " "}', 422, "message.empty"),
    "a message that is no text": ('{"message": 7}', 422, "request.invalid"),
    "no number": ('{"message": "hi", "context": {"a": NaN}}', 422, "request.invalid"),
    "too deep": ('{"message": "hi", "context": {"a": ' + "[" * 500 + "]" * 500 + "}}", 422, "request.invalid"),
    "no context": ('{"message": "hi", "context": "C-17"}', 422, "request.invalid"),
    "an id that cannot be kept": ('{"message": "hi", "session_id": ""}', 422, "message"),
    "half a letter": ('{"message": "hi", "context": {"external_conversation_id": "\\ud800"}}', 422, "message"),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
async def test_what_cannot_be_taken_is_refused_in_the_same_form(make_runner: MakeRunner, case: str) -> None:
    body, status, code = NOT_TAKEN[case]
    runner = make_runner(desk)
    async with served(runner) as client:
        answer = await client.post(
            "/api/v1/graph-chat/chat", content=body, headers={"Content-Type": "application/json", "X-Request-ID": "r-1"}
        )
    told = answer.json()
    assert (answer.status_code, told["success"], told["observability_trace_id"]) == (status, False, "r-1")
    assert told["error"].startswith(f"{code}: ")
    assert (await runner.store.list("app")).items == ()


async def test_other_paths_and_methods_are_refused_in_the_same_form(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        for method, path, status in (("GET", "chat", 405), ("POST", "nothing", 404)):
            answer = await client.request(method, f"/api/v1/graph-chat/{path}")
            assert (answer.status_code, set(answer.json())) == (status, FIELDS)


async def test_no_session_of_another_app_or_user_is_reached(make_runner: MakeRunner) -> None:
    runner = make_runner(desk, policy="staples")
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        for user in ("ann", "bob"):
            await post(client, "chat", message=f"I am {user}", session_id="s", headers=await key_for(runner, user=user))
    for user in ("ann", "bob"):
        events = await runner.store.events(SessionKey("app", user, "s"))
        assert events[0].text == f"I am {user}"


@pytest.mark.parametrize("documented", [True, False])
async def test_a_refusal_names_what_works_here(make_runner: MakeRunner, documented: bool) -> None:
    """In the words of this protocol, whether the OpenAPI is served or not."""
    fields = "The fields are message, session_id, message_id, context, agent_id; 'agent_id' is for execute-agent alone."
    known = "customer_id, previous_agents, direct_agent_id, external_conversation_id, channel, user_type; any other is for"
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("chat", {"mesage": "x"}, fields),
        ("chat", {"message": 7}, fields),
        ("execute-agent", {"message": "x"}, fields),
        ("chat", {"message": ""}, "Send a text as 'message'."),
        ("chat", {"message": "x", "context": 7}, f"The fields of 'context' are {known} the agents."),
        (
            "chat",
            {"message": "x", "context": {"previous_agents": "a"}},
            f"Input should be a valid list. The fields of 'context' are {known}",
        ),
        ("stream", {"message": "x"}, "There are POST /api/v1/graph-chat/chat and POST /api/v1/graph-chat/execute-agent."),
    ]
    async with served(make_runner(desk), GatewayConfig(documentation=documented)) as client:
        for path, body, named in cases:
            _, told = await post(client, path, **body)
            assert named in told["error"]
            assert "/docs" not in told["error"]
        got = await client.get("/api/v1/graph-chat/chat")
        assert (got.status_code, got.json()["error"][-11:]) == (405, " Send POST.")


async def test_a_refused_agent_id_is_answered_with_those_that_the_caller_reaches(make_runner: MakeRunner) -> None:
    """C12, C20: not with those of others, and not to a key that may not list agents."""
    many = [agent(name=f"agent-{number}")(lambda message: message) for number in range(30)]
    staff, few = agent(name="root", children=many)(lambda message: message), {"message": "x", "agent_id": "nobody"}
    runner = make_runner(desk)
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        for rights, named in (
            ({"user": "ann"}, "agent_id may be: desk, orders, billing."),
            ({"user": "ann", "agent_roles": ("staff",)}, "agent_id may be: desk, orders, billing, vault."),
            ({"user": "ann", "scopes": ("messages:write",)}, "Send the id of an agent that this credential reaches."),
        ):
            status, told = await post(client, "execute-agent", **few, headers=await key_for(runner, **rights))
            assert (status, told["error"].partition("choose. ")[2]) == (404, named)
    for root, policy, named in (
        (desk, "adk", "No agent is reached by its id: the policy has no selector 'direct'. Send the message to /chat."),
        (staff, "default", "agent-17, agent-18 and 11 more."),
    ):
        async with served(make_runner(root, policy=policy)) as client:
            assert (await post(client, "execute-agent", **few))[1]["error"].endswith(named)
