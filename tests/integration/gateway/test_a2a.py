"""A2A, with the SDK's own client over real sockets, on both bindings."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a import types as wire
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a_client import HTTP, JSONRPC, State, a_client, asked, request_of, spoken, words
from gateway_play import key_for
from google.protobuf.json_format import MessageToDict
from runner_play import ask, reason

from turnwise import AgentContext, Content, LlmAgent, Runner, SqlSessionStore, agent, tool
from turnwise.agents.adapters.a2a import A2aAgent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.testing.models import ScriptedModel, calls

BINDINGS = pytest.mark.parametrize("binding", [JSONRPC, HTTP])


@agent(patterns=["which"])
async def asker(context: AgentContext) -> str:
    first = (await context.ask("Which one?")).text
    return f"You want {first}, {(await context.ask('Which colour?')).text}."


@agent(patterns=["break"])
def breaker(message: str) -> str:
    raise ValueError("a secret")


@agent(patterns=["quick"], tags=["a2a:message"])
async def quick(message: str, context: AgentContext) -> str:
    if "ask" in message:
        return (await context.ask("Why?")).text
    return "At once."


@agent(children=[asker, breaker, quick])
async def desk(message: str, context: AgentContext) -> str:
    await context.say("One moment.")
    return f"You said {message}."


def known(task: wire.Task) -> dict[str, Any]:
    """What is ours in the task's metadata."""
    found: dict[str, Any] = MessageToDict(task.metadata)["turnwise"]
    return found


def contents(messages: Any) -> list[tuple[str, str]]:
    return [(wire.Role.Name(each.role), "".join(part.text for part in each.parts)) for each in messages]


@BINDINGS
async def test_a_message_becomes_a_task_whose_artifacts_are_what_is_said(binding: str) -> None:
    async with spoken(desk, binding=binding) as a2a:
        task = await a2a.task("hello", message_id="m-1", context_id="c-1")
        assert task.status.state == State.TASK_STATE_COMPLETED
        assert words(task) == ["One moment.", "You said hello."]
        assert {artifact.name for artifact in task.artifacts} == {"desk"}
        assert (task.context_id, contents(task.history)) == ("c-1", [("ROLE_USER", "hello")])
        assert known(task).items() >= {"sessionId": "c-1", "messageId": "m-1", "agent": "desk", "end": "completed"}.items()
        assert "desk" in known(task)["reason"]
        assert await a2a.client.get_task(wire.GetTaskRequest(id=task.id)) == task


@BINDINGS
async def test_a_conversation_goes_on_in_its_context(binding: str) -> None:
    async with spoken(desk, binding=binding) as a2a:
        first = await a2a.task("one")
        second = await a2a.task("two", context_id=first.context_id)
        other = await a2a.task("three")
        assert first.context_id == second.context_id != other.context_id
        assert len({first.id, second.id, other.id}) == 3
        session = await a2a.runner.sessions.get(a2a.runner.key("local", first.context_id))
        assert session.head.turns == 2


@BINDINGS
async def test_a_message_that_is_sent_again_is_the_same_task(binding: str) -> None:
    async with spoken(desk, binding=binding) as a2a:
        first = await a2a.task("hello", message_id="m")
        assert await a2a.task("hello", message_id="m", context_id=first.context_id) == first
        assert (await a2a.task("hello", message_id="m")).id != first.id, "without a context, each is another"


@BINDINGS
async def test_what_a_task_asks_is_answered_under_its_id(binding: str) -> None:
    async with spoken(desk, binding=binding) as a2a:
        task = await a2a.task("which?", message_id="m-1")
        assert (task.status.state, asked(task)) == (State.TASK_STATE_INPUT_REQUIRED, "Which one?")
        (wait,) = MessageToDict(task.status.message.parts[1].data)["waits"]
        assert (wait["kind"], wait["agent"]) == ("reply", "asker")
        again = await a2a.task("the large", task_id=task.id, message_id="m-2")
        assert (again.id, again.context_id, asked(again)) == (task.id, task.context_id, "Which colour?")
        assert contents(again.history) == [
            ("ROLE_USER", "which?"),
            ("ROLE_AGENT", "Which one?"),
            ("ROLE_USER", "the large"),
        ]
        done = await a2a.task("red", task_id=task.id, context_id=task.context_id)
        assert (done.status.state, words(done)) == (State.TASK_STATE_COMPLETED, ["You want the large, red."])
        assert not done.status.HasField("message")
        # Sent again, each of its messages is that task as it is now.
        for text, id_ in (("which?", "m-1"), ("the large", "m-2")):
            assert await a2a.task(text, task_id=task.id, message_id=id_) == done
        with pytest.raises(UnsupportedOperationError, match="over"):
            await a2a.task("more", task_id=task.id)
        with pytest.raises(InvalidParamsError, match="another context"):
            await a2a.task("more", task_id=task.id, context_id="other")
        with pytest.raises(TaskNotFoundError):
            await a2a.task("more", task_id="task_AAAA")


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_in_the_context_may_be_what_a_task_waits_for(streaming: bool) -> None:
    """A42. It is a task of its own then, which goes on like any other."""
    async with spoken(desk, streaming=streaming) as a2a:

        async def sent(text: str, **options: Any) -> wire.Task:
            told = await a2a.all_of(text, context_id="c", **options)
            return await a2a.client.get_task(wire.GetTaskRequest(id=told[0].task.id))

        first = await sent("which?")
        second = await sent("the large", message_id="m-2")
        assert second.id != first.id
        assert (second.status.state, asked(second)) == (State.TASK_STATE_INPUT_REQUIRED, "Which colour?")
        assert contents(second.history) == [("ROLE_USER", "the large")]
        done = await sent("red", task_id=second.id)
        assert (done.id, done.status.state, words(done)) == (
            second.id,
            State.TASK_STATE_COMPLETED,
            ["You want the large, red."],
        )
        assert await sent("the large", message_id="m-2") == done
        whole = await a2a.client.get_task(wire.GetTaskRequest(id=first.id))
        assert (whole.status, whole.artifacts) == (done.status, done.artifacts)
        assert len(whole.history) == 5
        found = await a2a.client.list_tasks(wire.ListTasksRequest(context_id="c"))
        assert [task.id for task in found.tasks] == [first.id]


async def test_leave_and_results_are_given_by_data() -> None:
    """A42."""

    @tool(confirm=True)
    def pay(amount: int) -> str:
        return f"{amount} paid"

    model = ScriptedModel(calls("pay", {"amount": 5}), "Paid.", calls("pay", {"amount": 7}), "Not paid.")
    root = LlmAgent("desk", model=model, tools=[pay])
    async with spoken(root) as a2a:
        task = await a2a.task("pay")
        assert "May I call pay" in asked(task)
        (wait,) = MessageToDict(task.status.message.parts[1].data)["waits"]
        assert (wait["kind"], wait["arguments"]["arguments"]) == ("confirmation", {"amount": 5})
        said = wire.Part()
        said.data.struct_value.update({"callId": wait["callId"], "approved": True})
        assert words(await a2a.task(said, task_id=task.id)) == ["Paid."]
        task = await a2a.task("pay more")
        wrong = wire.Part()
        wrong.data.struct_value.update({"callId": "other", "approved": True})
        with pytest.raises(InvalidParamsError, match="does not wait"):
            await a2a.task(wrong, task_id=task.id)
        assert words(await a2a.task("Rather not.", task_id=task.id)) == ["Not paid."]
        assert "Rather not." in str(model.requests[-1])


@BINDINGS
async def test_a_task_is_cancelled(binding: str) -> None:
    gate = asyncio.Event()

    @agent(patterns=["wait"])
    async def slow(message: str) -> str:
        await gate.wait()
        return "Too late."

    @agent(children=[slow, asker])
    def root(message: str) -> str:
        return "Done."

    async with spoken(root, binding=binding) as a2a:
        running = await a2a.task("wait", context_id="c", configuration={"return_immediately": True})
        assert running.status.state in (State.TASK_STATE_SUBMITTED, State.TASK_STATE_WORKING)
        queued = await a2a.task("hi", context_id="c", configuration={"return_immediately": True})
        assert queued.status.state == State.TASK_STATE_SUBMITTED
        assert contents(queued.history) == [("ROLE_USER", "hi")]
        assert await a2a.client.get_task(wire.GetTaskRequest(id=queued.id)) == queued
        for task in (queued, running, await a2a.task("which?")):
            ended = await a2a.client.cancel_task(wire.CancelTaskRequest(id=task.id))
            assert (ended.id, ended.status.state) == (task.id, State.TASK_STATE_CANCELED)
            assert await a2a.client.get_task(wire.GetTaskRequest(id=task.id)) == ended
            with pytest.raises(TaskNotCancelableError):
                await a2a.client.cancel_task(wire.CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotCancelableError):
            await a2a.client.cancel_task(wire.CancelTaskRequest(id=(await a2a.task("hello")).id))


async def test_how_tasks_end() -> None:
    class Guard:
        name, reach = "guard", None

        async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
            return GuardrailVerdict("block", reason="not that") if "forbidden" in content.text else ALLOW

    async with spoken(desk, guardrails=[Guard()]) as a2a:
        failed = await a2a.task("break it")
        assert failed.status.state == State.TASK_STATE_FAILED
        assert asked(failed)
        rejected = await a2a.task("forbidden", message_id="m", context_id="c")
        assert (rejected.status.state, "not that" in asked(rejected)) == (State.TASK_STATE_REJECTED, True)
        assert list(rejected.history) == []
        assert await a2a.client.get_task(wire.GetTaskRequest(id=rejected.id)) == rejected
        assert await a2a.task("forbidden", message_id="m", context_id="c") == rejected


async def test_how_much_of_the_history_is_shown() -> None:
    async with spoken(desk) as a2a:
        task = await a2a.task("which?", configuration={"history_length": 0})
        assert list(task.history) == []
        await a2a.task("the large", task_id=task.id)
        done = await a2a.task("red", task_id=task.id, configuration={"history_length": 2})
        assert contents(done.history) == [("ROLE_AGENT", "Which colour?"), ("ROLE_USER", "red")]
        for length, shown in ((None, 5), (0, 0), (1, 1), (50, 5)):
            got = await a2a.client.get_task(wire.GetTaskRequest(id=task.id, history_length=length))
            assert len(got.history) == shown
        with pytest.raises(InvalidParamsError, match="negative"):
            await a2a.client.get_task(wire.GetTaskRequest(id=task.id, history_length=-1))


@pytest.mark.parametrize("streaming", [True, False])
@BINDINGS
async def test_an_agent_may_answer_without_a_task(binding: str, streaming: bool) -> None:
    async with spoken(desk, binding=binding, streaming=streaming) as a2a:
        (told,) = await a2a.all_of("quick", context_id="c")
        assert (told.message.parts[0].text, told.message.context_id, told.message.task_id) == ("At once.", "c", "")
        assert told.message.role == wire.Role.ROLE_AGENT
        (told,) = await a2a.all_of("quick, ask")
        assert told.task.status.state == State.TASK_STATE_INPUT_REQUIRED


@BINDINGS
async def test_tasks_are_listed(binding: str) -> None:
    async with spoken(desk, binding=binding) as a2a:
        tasks = [await a2a.task(text, context_id="c") for text in ("one", "two", "break")]
        waiting = await a2a.task("which?")

        async def listed(**options: Any) -> wire.ListTasksResponse:
            return await a2a.client.list_tasks(wire.ListTasksRequest(**options))

        found = await listed()
        assert [task.id for task in found.tasks] == [waiting.id, *(task.id for task in reversed(tasks))]
        assert (found.total_size, found.page_size, found.next_page_token) == (4, 50, "")
        assert not any(task.artifacts or task.history for task in found.tasks)
        first = await listed(context_id="c", page_size=2)
        assert [task.id for task in first.tasks] == [tasks[2].id, tasks[1].id]
        rest = await listed(context_id="c", page_size=2, page_token=first.next_page_token)
        assert ([task.id for task in rest.tasks], rest.next_page_token) == ([tasks[0].id], "")
        for state, ids in (
            (State.TASK_STATE_COMPLETED, [tasks[1].id, tasks[0].id]),
            (State.TASK_STATE_FAILED, [tasks[2].id]),
            (State.TASK_STATE_INPUT_REQUIRED, [waiting.id]),
            (State.TASK_STATE_WORKING, []),
            (State.TASK_STATE_AUTH_REQUIRED, []),
        ):
            assert [task.id for task in (await listed(status=state)).tasks] == ids
        whole = await listed(include_artifacts=True, history_length=1, page_size=2)
        assert words(whole.tasks[0]) == []
        assert [len(task.history) for task in whole.tasks] == [1, 1]
        late = datetime(2100, 1, 1, tzinfo=UTC)
        assert list((await listed(status_timestamp_after=late)).tasks) == []
        for wrong in ({"page_size": 0}, {"page_size": 101}, {"page_token": "x"}, {"status": 99}):
            with pytest.raises(InvalidParamsError):
                await listed(**wrong)


async def test_what_comes_with_a_message_is_for_agents_and_policies() -> None:
    seen: list[Any] = []

    @agent
    def other(message: str) -> str:
        return "The other."

    @agent(children=[other])
    def root(context: AgentContext) -> str:
        seen.append(context.message_context)
        return "Done."

    async with spoken(root) as a2a:
        first = await a2a.task("hi", metadata={"customer": 7, "channel": "web", "user_kind": "guest"})
        await a2a.task("and", reference_task_ids=[first.id])
        assert seen[0].attributes == {"customer": 7}
        assert (seen[0].channel, seen[0].user_kind) == ("web", "guest")
        assert seen[1].attributes == {"a2a.reference_task_ids": [first.id]}
        assert words(await a2a.task("hi", metadata={"agent": "other"})) == ["The other."]
        with pytest.raises(InvalidParamsError, match="No agent of that name"):
            await a2a.task("hi", metadata={"agent": "nobody"})


async def test_what_others_report_is_work() -> None:
    """For the user; whoever may say what came of it is asked for that."""

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        found = await context.ask("Looking it up.", tool="look_up", arguments={"number": 7})
        return f"It is {found.tool_results[0].result}."

    async with spoken(clerk, GatewayConfig(auth=AuthConfig())) as a2a:
        ann, server = await key_for(a2a.runner, user="ann"), await key_for(a2a.runner, acts_for_users=True)
        async with a_client(a2a.gateway, headers=ann) as (hers, _), a_client(a2a.gateway, headers=server) as (its, _):
            (told,) = [each async for each in hers.send_message(request_of("where?"))]
            task = told.task
            assert (task.status.state, words(task), asked(task)) == (State.TASK_STATE_WORKING, ["Looking it up."], "")
            said = wire.Part()
            said.data.struct_value.update({"result": "here"})
            with pytest.raises(UnsupportedOperationError, match="does not wait"):
                [each async for each in hers.send_message(request_of(said, task_id=task.id))]
            (told,) = [each async for each in its.send_message(request_of("where?", metadata={"user": "ann"}))]
            task = told.task
            assert (task.status.state, words(task)) == (State.TASK_STATE_INPUT_REQUIRED, ["Looking it up."])
            (wait,) = MessageToDict(task.status.message.parts[1].data)["waits"]
            assert (wait["kind"], wait["tool"], wait["arguments"]) == ("tool_result", "look_up", {"number": 7})
            with pytest.raises(InvalidParamsError, match="result of the tool"):
                [each async for each in its.send_message(request_of("here", task_id=task.id))]
            (told,) = [each async for each in its.send_message(request_of(said, task_id=task.id))]
            assert words(told.task) == ["Looking it up.", "It is here."]


async def test_a_front_door_behind_another() -> None:
    """A19."""
    async with spoken(desk) as a2a:
        runner = Runner(A2aAgent(a2a.gateway.address, name="there"), store=SqlSessionStore("sqlite://"))
        try:
            said = await ask(runner, "hello")
            assert said.text == "One moment.\nYou said hello."
            assert (await ask(runner, "which?")).text == "Which one?"
            assert (await ask(runner, "the large")).text == "Which colour?"
            assert (await ask(runner, "red")).text == "You want the large, red."
            assert reason(await ask(runner, "break it")) == "failed"
            (session,) = (await a2a.runner.store.list(a2a.runner.app, user="local")).items
            assert (await a2a.runner.sessions.get(session.key)).head.turns == 5
        finally:
            await runner.close()
