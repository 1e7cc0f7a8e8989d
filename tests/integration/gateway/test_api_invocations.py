"""Invocations over our own API: looked at, stopped, answered, made anew."""

from collections.abc import Callable
from typing import Any

import httpx
from gateway_play import Served, key_for, served
from runner_play import Gate, soon

from turnwise import AgentContext, Runner, agent
from turnwise.agents.composite import Parallel
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

MakeRunner = Callable[..., Runner]
S = "/api/v1/sessions/s"


@agent
async def asker(message: str, context: AgentContext) -> str:
    first = (await context.ask("Which order?")).text
    second = (await context.ask("Which item?")).text
    return f"{message}: {first}, {second}."


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@tool(later=True)
def ship(order: str) -> str:
    """Ships."""
    return "begun"


async def answer(client: Served, waiting: httpx.Response | dict[str, Any], **body: Any) -> httpx.Response:
    """Answers the first of what that answer waits for."""
    told = waiting.json() if isinstance(waiting, httpx.Response) else waiting
    path = f"{S}/invocations/{told['invocation_id']}/answer"
    return await client.post(path, json={"call_id": told["waits"][0]["call_id"], **body})


async def test_a_question_is_answered_where_it_was_asked(make_runner: MakeRunner) -> None:
    """A42."""
    async with served(make_runner(asker)) as client:
        asked = await client.send_message("hi", id="m-1")
        assert (asked.json()["state"], asked.json()["waits"][0]["text"]) == ("waiting", "Which order?")
        assert (await client.get(S)).json()["waits"] == [
            {
                "invocation_id": asked.json()["invocation_id"],
                "call_id": asked.json()["waits"][0]["call_id"],
                "kind": "reply",
                "agent": "asker",
                "tool": "",
            }
        ]
        more = await answer(client, asked, text="1001")
        assert (more.json()["state"], more.json()["text"]) == ("waiting", "Which item?")
        done = await answer(client, more, text="pen")
        assert (done.json()["state"], done.json()["text"]) == ("ended", "hi: 1001, pen.")
        whole = (await client.get(f"{S}/invocations/{asked.json()['invocation_id']}")).json()
        assert (whole["message_id"], whole["state"], whole["waits"]) == ("m-1", "ended", [])
        assert whole["text"] == "Which order?\nWhich item?\nhi: 1001, pen."
        assert (await client.get(f"{S}/messages/m-1")).json()["text"] == "Which order?"


async def test_the_same_answer_again_is_the_same_message(make_runner: MakeRunner) -> None:
    async with served(make_runner(asker)) as client:
        asked = await client.send_message("hi")
        for _ in range(3):
            assert (await answer(client, asked, text="1001")).json()["text"] == "Which item?"
        again = await answer(client, asked, text="1001", id="another")
        assert (again.status_code, again.json()["code"]) == (409, "message.unknown_tool_call")
        events = (await client.get(f"{S}/events")).json()["events"]
        assert [event["author"] for event in events] == ["user", "asker", "user", "asker"]


async def test_an_answer_with_an_id_of_its_own_is_found_under_it(make_runner: MakeRunner) -> None:
    async with served(make_runner(asker)) as client:
        asked = await client.send_message("hi")
        told = [(await answer(client, asked, text="1001", id="mine")).json() for _ in range(2)]
        assert told[0] == told[1]
        assert (await client.get(f"{S}/messages/mine")).json() == told[0]


async def test_an_answer_of_the_wrong_kind_is_refused(make_runner: MakeRunner) -> None:
    async with served(make_runner(asker)) as client:
        asked = await client.send_message("hi")
        for body in ({"result": 1}, {"approved": True}):
            told = await answer(client, asked, **body)
            assert (told.status_code, told.json()["where"]) == (422, ["body", "text"])
        assert (await answer(client, asked)).status_code == 422
        assert len((await client.get(f"{S}/events")).json()["events"]) == 2


async def test_each_of_several_questions_is_answered_by_its_own_reply(make_runner: MakeRunner) -> None:
    """A41, A42: in any order, although a plain message could not say which is meant."""

    def child(name: str) -> Any:
        @agent(name=name)
        async def asks(message: str, context: AgentContext) -> str:
            return f"{name}: {(await context.ask(f'{name}?')).text}"

        return asks

    both = Parallel("both", children=[child("colour"), child("size")])
    async with served(make_runner(both, policy="adk")) as client:
        asked = (await client.send_message("hi")).json()
        waits = {wait["agent"]: wait for wait in asked["waits"]}
        for name, said in (("size", "large"), ("colour", "red")):
            told = await answer(client, asked | {"waits": [waits[name]]}, text=said)
            assert told.status_code == 200
        whole = (await client.get(f"{S}/invocations/{asked['invocation_id']}")).json()
        assert whole["state"] == "ended"
        assert {"size: large", "colour: red"} <= set(whole["text"].split("\n"))


async def test_a_reply_is_no_new_request_whatever_it_says(make_runner: MakeRunner) -> None:
    """C9: without the question's id, words that are plainly meant for another agent go to that one."""

    @agent(patterns=["refund"])
    def refunds(message: str) -> str:
        return "refunded"

    @agent(children=[refunds])
    async def desk(message: str, context: AgentContext) -> str:
        return f"You want: {(await context.ask('What do you want?')).text}"

    async with served(make_runner(desk, policy="staples")) as client:
        asked = await client.send_message("hi", context={"direct_agent_id": "desk"})
        assert asked.json()["state"] == "waiting"
        assert (await client.send_message("a refund please")).json()["text"] == "refunded"
        told = await answer(client, asked, text="a refund please")
        assert (told.json()["text"], told.json()["selection"]["method"]) == ("You want: a refund please", "reply")


async def test_leave_is_given_or_refused(make_runner: MakeRunner) -> None:
    """A42."""
    for body, said in (({"approved": True}, "paid 5"), ({"approved": False, "reason": "too much"}, "too much")):
        model = ScriptedModel(calls("pay", {"amount": 5}), "Done.")
        async with served(make_runner(LlmAgent("desk", model=model, tools=[pay]))) as client:
            asked = await client.send_message("pay")
            (wait,) = asked.json()["waits"]
            assert (wait["kind"], wait["arguments"]["arguments"]) == ("confirmation", {"amount": 5})
            assert (await answer(client, asked, text="yes")).json()["where"] == ["body", "approved"]
            done = await answer(client, asked, **body)
            assert (done.json()["state"], done.json()["text"]) == ("ended", "Done.")
            events = (await client.get(f"{S}/events")).json()["events"]
            parts = [part for event in events if event["content"] for part in event["content"]["parts"]]
            results = [part["result"] for part in parts if part["kind"] == "tool_result"]
            assert said in str(results)
            await client.delete(S)


async def test_a_late_result_is_given(make_runner: MakeRunner) -> None:
    """A6, A42."""
    model = ScriptedModel(calls("ship", {"order": "1001"}), "On its way.")
    async with served(make_runner(LlmAgent("desk", model=model, tools=[ship]))) as client:
        asked = await client.send_message("ship")
        (wait,) = asked.json()["waits"]
        assert (wait["kind"], wait["tool"], wait["arguments"]) == ("tool_result", "ship", {"order": "1001"})
        assert (await answer(client, asked, text="sent")).json()["where"] == ["body", "result"]
        done = await answer(client, asked, result={"parcel": 7})
        assert (done.json()["state"], done.json()["text"]) == ("ended", "On its way.")
        runner = client.front.runner
        events = await runner.store.events(runner.key("local", "s"))
        given = [part for e in events if e.author == "user" and e.content for part in e.content.parts]
        assert ToolResultPart(call_id=wait["call_id"], tool="ship", result={"parcel": 7}) in given


async def test_one_that_runs_is_stopped(make_runner: MakeRunner) -> None:
    """A23."""
    gate = Gate()
    async with served(make_runner(gate.agent)) as client:
        running = (await client.post(f"{S}/messages?wait=false", json={"content": "hi"})).json()
        await gate.began.wait()
        path = f"{S}/invocations/{running['invocation_id']}"
        assert (await client.get(path)).json()["state"] == "running"
        stopped = await client.post(f"{path}/cancel")
        assert (stopped.status_code, stopped.json()["end"]["reason"]) == (200, "cancelled")
        assert (await client.get(path)).json()["end"]["reason"] == "cancelled"
        assert (await client.post(f"{path}/cancel")).json() == stopped.json()


async def test_whoever_does_not_wait_is_told_that_it_will_stop(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as client:
        running = (await client.post(f"{S}/messages?wait=false", json={"content": "hi"})).json()
        await gate.began.wait()
        path = f"{S}/invocations/{running['invocation_id']}"
        assert (await client.post(f"{path}/cancel?wait=false")).status_code in {200, 202}
        assert (await client.get(f"{path}?wait=true")).json()["end"]["reason"] == "cancelled"


async def test_a_wait_is_given_up(make_runner: MakeRunner) -> None:
    async with served(make_runner(asker)) as client:
        asked = (await client.send_message("hi")).json()
        stopped = await client.post(f"{S}/invocations/{asked['invocation_id']}/cancel")
        assert stopped.json()["end"]["reason"] == "cancelled"
        assert (await answer(client, asked, text="1001")).json()["code"] == "message.unknown_tool_call"
        assert (await client.get(S)).json()["waits"] == []


async def test_an_answer_is_made_anew(make_runner: MakeRunner) -> None:
    """A44."""
    model = ScriptedModel("one", "two", "three")
    async with served(make_runner(LlmAgent("desk", model=model))) as client:
        first = (await client.send_message("hi")).json()
        again = await client.post(f"{S}/invocations/{first['invocation_id']}/regenerate")
        assert (again.status_code, again.json()["text"]) == (200, "two")
        third = await client.post(f"{S}/invocations/{again.json()['invocation_id']}/regenerate?wait=false")
        assert third.status_code == 202
        found = await client.get(f"{S}/messages/{third.json()['message_id']}?wait=true")
        assert found.json()["text"] == "three"
        events = (await client.get(f"{S}/events")).json()["events"]
        assert [event["sequence"] for event in events if event["content"]] == [7, 8]


async def test_of_the_roles_that_a_message_came_with_those_count_that_the_caller_has(make_runner: MakeRunner) -> None:
    """C20: who lost a role does not get an answer by it again."""

    @agent(roles=["staff"], patterns=["vault"])
    def vault(message: str) -> str:
        return "gold"

    @agent(children=[vault])
    def front(message: str) -> str:
        return "no"

    runner = make_runner(front)
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        staff, plain = await key_for(runner, user="ann", agent_roles=("staff",)), await key_for(runner, user="ann")
        first = (await client.send_message("open the vault", headers=staff)).json()
        assert first["text"] == "gold"
        path = f"{S}/invocations/{first['invocation_id']}/regenerate"
        assert (await client.post(path, headers=plain)).json()["text"] == "no"


async def test_what_is_not_waited_for_is_on_record_so_far(make_runner: MakeRunner) -> None:
    gate = Gate()

    @agent
    async def talks(message: str, context: AgentContext) -> str:
        await context.say("so far")
        gate.began.set()
        await gate.go.wait()
        return "all"

    async with served(make_runner(talks)) as client:
        sent = await client.post(f"{S}/messages?wait=false", json={"content": "hi", "id": "m/1"})
        assert (sent.status_code, sent.json()["state"]) == (202, "running")
        await client.post(f"{S}/messages?wait=false", json={"content": "ho", "id": "m-2"})
        await gate.began.wait()
        now = (await client.get(f"{S}/messages/m%2F1")).json()
        assert (now["state"], now["text"]) == ("running", "so far")
        queued = (await client.get(f"{S}/messages/m-2")).json()
        assert (queued["state"], queued["invocation_id"]) == ("running", None)
        gate.go.set()
        assert (await client.get(f"{S}/messages/m-2?wait=true")).json()["text"] == "so far\nall"
        assert (await client.get(f"{S}/messages/m/1")).json()["text"] == "so far\nall"
        await soon(client.front.runner.idle())


async def test_what_there_is_not_is_not_found(make_runner: MakeRunner) -> None:
    async with served(make_runner(asker)) as client:
        await client.send_message("hi")
        for path in ("messages/none", "invocations/none", "invocations/none/events", "messages/none?wait=true"):
            found = await client.get(f"{S}/{path}")
            assert (found.status_code, found.json()["code"]) == (404, "session.invocation_missing"), path
        for verb in ("cancel", "regenerate"):
            assert (await client.post(f"{S}/invocations/none/{verb}")).status_code == 404


async def test_events_of_one_invocation_are_paged(make_runner: MakeRunner) -> None:
    async with served(make_runner(asker)) as client:
        asked = await client.send_message("hi")
        await answer(client, asked, text="1001")
        path = f"{S}/invocations/{asked.json()['invocation_id']}/events"
        page = (await client.get(f"{path}?limit=3")).json()
        assert ([event["sequence"] for event in page["events"]], page["next"]) == ([1, 2, 3], 3)
        rest = (await client.get(f"{path}?after=3")).json()
        assert ([event["sequence"] for event in rest["events"]], rest["next"]) == ([4], None)
