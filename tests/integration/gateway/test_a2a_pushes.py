"""Notifications of A2A tasks, set up by the SDK's own client and taken by a server at a port of its own."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a import types as wire
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from a2a_client import HTTP, JSONRPC, SPOKEN, Spoken, State, a_client, request_of, spoken
from gateway_play import key_for, served
from push_play import receiving
from runner_play import Gate

from turnwise import AgentContext, Runner, agent
from turnwise.access.address_guard import AddressGuard
from turnwise.access.authenticator import LOCAL
from turnwise.facts.gateway import A2aConfig, AuthConfig, GatewayConfig, Protocols
from turnwise.facts.limits import ProcessConfig
from turnwise.gateway.a2a.push import PushStream, PushTransport
from turnwise.ports.pushes import Push, PushConfig, PushPlace
from turnwise.ports.stores import Lease

BINDINGS = pytest.mark.parametrize("binding", [JSONRPC, HTTP])
OPEN = GatewayConfig(protocols=Protocols(a2a=A2aConfig(private_pushes=True)))
SOON = ProcessConfig(recovery_seconds=0.05, lease_seconds=1.0)
NOW = datetime.now(UTC)
MakeRunner = Callable[..., Runner]
WHOLE = ["TASK_STATE_WORKING", "One moment.", "You said hello.", "TASK_STATE_COMPLETED"]


@agent(patterns=["which"])
async def asker(context: AgentContext) -> str:
    return f"You want {(await context.ask('Which one?')).text}."


@agent(children=[asker])
async def desk(message: str, context: AgentContext) -> str:
    await context.say("One moment.")
    return f"You said {message}."


def a_config(url: str, **fields: Any) -> wire.TaskPushNotificationConfig:
    return wire.TaskPushNotificationConfig(url=url, **fields)


def sent(text: str, url: str, *, configuration: dict[str, Any] | None = None, **fields: Any) -> wire.SendMessageRequest:
    """A message that comes with a notification."""
    wanted = {"task_push_notification_config": a_config(url, **fields), **(configuration or {})}
    return request_of(text, configuration=wanted)


async def task_of(client: Any, request: wire.SendMessageRequest) -> wire.Task:
    """The last that comes for a message, a task."""
    responses = [response async for response in client.send_message(request)]
    task: wire.Task = responses[-1].task
    assert task.id
    return task


@BINDINGS
async def test_what_becomes_of_a_message_is_told_in_order(binding: str) -> None:
    secret = wire.AuthenticationInfo(scheme="Bearer", credentials="s3cret")
    async with receiving() as receiver, spoken(desk, OPEN, binding=binding, process=SOON) as a2a:
        assert a2a.card.capabilities.push_notifications
        request = sent("hello", receiver.url("/hook?of=me"), token="t0ken", authentication=secret)
        task = await task_of(a2a.client, request)
        assert await receiver.until_over() == WHOLE
    assert {got.path for got in receiver.got} == {"/hook?of=me"}
    for got in receiver.got:
        assert got.headers["x-a2a-notification-token"] == "t0ken"
        assert got.headers["authorization"] == "Bearer s3cret"
        assert got.headers["content-type"] == "application/a2a+json"
        assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
        assert got.body[got.kind]["taskId"] == task.id


async def test_a_repeated_message_is_told_once() -> None:
    async with receiving() as receiver, spoken(desk, OPEN, process=SOON) as a2a:
        request = sent("hello", receiver.url())
        request.message.context_id = "c"  # without one, each is another message
        await task_of(a2a.client, request)
        await receiver.until_over()
        task = await task_of(a2a.client, request)
        listed = await a2a.client.list_task_push_notification_configs(
            wire.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert len(listed.configs) == 1
        await task_of(a2a.client, sent("hello", receiver.url("/other")))
        await receiver.until(8)
    assert [got.path for got in receiver.got].count("/hook") == 4


@BINDINGS
async def test_one_that_is_set_up_later_is_told_what_comes_then(binding: str) -> None:
    async with receiving() as receiver, spoken(desk, OPEN, binding=binding, process=SOON) as a2a:
        task = await a2a.task("which")
        assert task.status.state == State.TASK_STATE_INPUT_REQUIRED
        made = await a2a.client.create_task_push_notification_config(a_config(receiver.url(), task_id=task.id))
        assert (made.id != "", made.task_id) == (True, task.id)
        await a2a.task("the red one", task_id=task.id)
        assert await receiver.until_over() == ["TASK_STATE_WORKING", "You want the red one.", "TASK_STATE_COMPLETED"]


async def test_a_question_is_told_and_the_answer_to_it() -> None:
    async with receiving() as receiver, spoken(desk, OPEN, process=SOON) as a2a:
        task = await task_of(a2a.client, sent("which", receiver.url()))
        told = await receiver.until(2)
        assert receiver.told == ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]
        assert told[1].body["statusUpdate"]["status"]["message"]["parts"][0]["text"] == "Which one?"
        await a2a.task("that", task_id=task.id)
        told_then = ["TASK_STATE_WORKING", "You want that.", "TASK_STATE_COMPLETED"]
        assert (await receiver.until_over())[2:] == told_then


async def test_a_receiver_that_fails_twice_gets_all_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async with receiving([500, 503]) as receiver, spoken(desk, OPEN, process=SOON) as a2a:
        await task_of(a2a.client, sent("hello", receiver.url("/hook?key=s3cret"), token="t0ken"))
        assert await receiver.until_over() == WHOLE
    assert receiver.asked == 6
    assert not any(secret in caplog.text for secret in ("s3cret", "t0ken"))


async def test_another_gateway_goes_on_where_the_first_one_stopped(make_runner: MakeRunner) -> None:
    first, second = (make_runner(desk, process=SOON) for _ in range(2))
    async with receiving() as receiver:
        async with served(first, OPEN) as here, a_client(here) as (client, _):
            task = await task_of(client, sent("which", receiver.url()))
            await receiver.until(2)
        async with served(second, OPEN) as there, a_client(there) as (client, _):
            request = request_of("that", task_id=task.id)
            await task_of(client, request)
            told = await receiver.until_over()
    assert told[2:] == ["TASK_STATE_WORKING", "You want that.", "TASK_STATE_COMPLETED"]


async def test_what_a_process_had_that_died_is_told_by_another(make_runner: MakeRunner) -> None:
    """At least once: what it had sent, and not noted, comes again."""
    runner = make_runner(desk, process=SOON)
    await (await runner.start("which", user="local", session="s", message_id="m")).result()
    pushes, key = runner.store.pushes, runner.key("local", "s")  # type: ignore[attr-defined]
    async with receiving() as receiver:
        config = PushConfig(id="p", url=receiver.url(), caller=LOCAL)
        assert await pushes.put(key, "m", config, after=0, most=1)
        (taken,) = await pushes.claim("app", Lease("died", 0.3), limit=9)
        assert await pushes.tell(taken.place, "died", 1)
        await runner.store.leases.leave("died")
        async with served(make_runner(desk, process=SOON), OPEN):
            await receiver.until(1)
    assert receiver.told == ["TASK_STATE_INPUT_REQUIRED"]


async def test_two_gateways_tell_each_thing_once(make_runner: MakeRunner) -> None:
    gate = Gate()
    first, second = (make_runner(gate.agent, process=SOON) for _ in range(2))
    async with receiving() as receiver, served(first, OPEN) as here, served(second, OPEN), a_client(here) as (client, _):
        request = sent("hello", receiver.url(), configuration={"return_immediately": True})
        task = await task_of(client, request)
        assert task.status.state == State.TASK_STATE_WORKING
        await receiver.until(1)
        gate.go.set()
        assert await receiver.until_over() == ["TASK_STATE_WORKING", "answer to hello", "TASK_STATE_COMPLETED"]


async def test_a_receiver_that_never_answers_delays_nobody() -> None:
    """Not the answer, not who else is told, not the end of the process."""
    async with receiving([0] * 9) as dead, receiving() as receiver, spoken(desk, OPEN, process=SOON) as a2a:
        await task_of(a2a.client, sent("hello", dead.url()))
        await dead.until_asked(1)
        await task_of(a2a.client, sent("hello", receiver.url()))
        assert await receiver.until_over() == WHOLE
    assert dead.got == []


async def test_what_is_cancelled_in_the_line_is_told_so() -> None:
    gate = Gate()
    async with receiving() as receiver, spoken(gate.agent, OPEN, process=SOON) as a2a:
        now = {"return_immediately": True}
        first = await a2a.task("one", context_id="c", configuration=now)
        await gate.began.wait()
        request = sent("two", receiver.url(), configuration=now)
        request.message.context_id = "c"
        second = await task_of(a2a.client, request)
        assert second.status.state == State.TASK_STATE_SUBMITTED
        await a2a.client.cancel_task(wire.CancelTaskRequest(id=second.id))
        assert await receiver.until_over() == ["TASK_STATE_CANCELED"]
        gate.go.set()
        assert first.id != second.id


@BINDINGS
async def test_they_are_read_listed_and_deleted(binding: str) -> None:
    async with receiving() as receiver, spoken(desk, OPEN, binding=binding, process=SOON) as a2a:
        task, client = await a2a.task("which"), a2a.client
        secret = wire.AuthenticationInfo(scheme="Basic", credentials="s3cret")
        for name in ("b", "a", "c"):
            given = a_config(receiver.url(f"/{name}"), task_id=task.id, id=name, token=f"t-{name}", authentication=secret)
            assert await client.create_task_push_notification_config(given) == given
        one = await client.get_task_push_notification_config(_one(task, "a"))
        assert (one.url, one.token, one.authentication.scheme) == (receiver.url("/a"), "t-a", "Basic")
        assert one.authentication.credentials == "", "who asks does not learn what was kept secret"
        assert await _listed(a2a, task) == ["a", "b", "c"]
        page = await client.list_task_push_notification_configs(_list(task, page_size=2))
        assert [each.id for each in page.configs] == ["a", "b"]
        page = await client.list_task_push_notification_configs(_list(task, page_token=page.next_page_token))
        assert ([each.id for each in page.configs], page.next_page_token) == (["c"], "")
        for _ in range(2):
            await client.delete_task_push_notification_config(_delete(task, "a"))
        with pytest.raises(TaskNotFoundError):
            await client.get_task_push_notification_config(_one(task, "a"))
        assert await _listed(a2a, task) == ["b", "c"]
        await a2a.task("that", task_id=task.id)
        await receiver.until(6)
        assert {got.path for got in receiver.got} == {"/b", "/c"}


def _one(task: wire.Task, id_: str) -> wire.GetTaskPushNotificationConfigRequest:
    return wire.GetTaskPushNotificationConfigRequest(task_id=task.id, id=id_)


def _list(task: wire.Task, **page: Any) -> wire.ListTaskPushNotificationConfigsRequest:
    return wire.ListTaskPushNotificationConfigsRequest(task_id=task.id, **page)


def _delete(task: wire.Task, id_: str) -> wire.DeleteTaskPushNotificationConfigRequest:
    return wire.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=id_)


async def _listed(a2a: Spoken, task: wire.Task) -> list[str]:
    return [each.id for each in (await a2a.client.list_task_push_notification_configs(_list(task))).configs]


async def test_what_cannot_be_kept_is_refused() -> None:
    async with spoken(desk, OPEN, process=SOON) as a2a:
        task, create = await a2a.task("which"), a2a.client.create_task_push_notification_config
        url = "http://127.0.0.1:9/"
        secret = wire.AuthenticationInfo(credentials="s3cret")
        long = f"{url}{'x' * 2048}"
        for wrong in (
            a_config("", task_id=task.id),
            a_config(long, task_id=task.id),
            a_config(url, task_id=task.id, token="x" * 1025),
            a_config(url, task_id=task.id, token="a\r\nX-Other: b"),
            a_config(url, task_id=task.id, id="x" * 201),
            a_config(url, task_id=task.id, authentication=secret),
        ):
            with pytest.raises(InvalidParamsError):
                await create(wrong)
        for number in range(10):
            await create(a_config(url, task_id=task.id, id=f"p-{number}"))
        with pytest.raises(InvalidParamsError, match="10 configurations exist"):
            await create(a_config(url, task_id=task.id))
        for page in ({"page_size": -1}, {"page_token": "???"}):
            with pytest.raises(InvalidParamsError):
                await a2a.client.list_task_push_notification_configs(_list(task, **page))
        with pytest.raises(TaskNotFoundError):
            await create(a_config(url, task_id=f"{task.id}x"))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://localhost/",
        "http://[::1]/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:127.0.0.1]/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://user:s3cret@example.com/",
        "//example.com/",
        "https:///hook",
    ],
)
async def test_what_only_this_machine_reaches_is_not_notified(url: str) -> None:
    async with spoken(desk, process=SOON) as a2a:
        task = await a2a.task("which")
        with pytest.raises(InvalidParamsError) as refused:
            await a2a.client.create_task_push_notification_config(a_config(url, task_id=task.id))
        assert "s3cret" not in str(refused.value)
        with pytest.raises(InvalidParamsError):
            await task_of(a2a.client, sent("hello", url))
        assert (await a2a.runner.store.decisions.count_invocations("app", user="local")) == 1, "nothing was begun"


async def test_another_users_task_has_none_for_you(make_runner: MakeRunner) -> None:
    config = OPEN.replace(auth=AuthConfig())
    runner = make_runner(desk, process=SOON)
    async with receiving() as receiver, served(runner, config) as gateway:
        ann, bob = await key_for(runner), await key_for(runner, user="bob")
        async with a_client(gateway, headers=ann) as (client, _):
            task = await task_of(client, request_of("which"))
            await client.create_task_push_notification_config(a_config(receiver.url(), task_id=task.id, id="p"))
        async with a_client(gateway, headers=bob) as (client, _):
            for call in (
                client.create_task_push_notification_config(a_config(receiver.url(), task_id=task.id)),
                client.get_task_push_notification_config(_one(task, "p")),
                client.list_task_push_notification_configs(_list(task)),
                client.delete_task_push_notification_config(_delete(task, "p")),
            ):
                with pytest.raises(TaskNotFoundError):
                    await call
        reader = await key_for(runner, user="ann", scopes=("sessions:read",))
        params = {"taskId": task.id}
        call_ = {"jsonrpc": "2.0", "id": "1", "method": "ListTaskPushNotificationConfigs", "params": params}
        answer = await gateway.post("/a2a", json=call_, headers=SPOKEN | reader)
        assert "error" in answer.json()
        assert "/hook" not in answer.text


async def test_a_key_that_was_revoked_is_told_no_more(make_runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    config = OPEN.replace(auth=AuthConfig())
    runner = make_runner(desk, process=SOON)
    pushes, courier = runner.store.pushes, PushTransport(AddressGuard(private=True))  # type: ignore[attr-defined]
    async with receiving() as receiver, served(runner, config) as gateway:
        ann = await key_for(runner)
        async with a_client(gateway, headers=ann) as (client, _):
            task = await task_of(client, sent("which", receiver.url("/hook?key=s3cret")))
            await receiver.until(2)
        (kept,) = await pushes.list(runner.key("ann", task.context_id), _message(task))
        push = Push(PushPlace(runner.key("ann", task.context_id), _message(task), kept.id), kept, 0)
        await runner.store.keys.expire("app", ann["Authorization"].split("_")[1], NOW)  # type: ignore[attr-defined]
        assert await PushStream(gateway.front, pushes, courier, ()).send(push, "me") is None
    assert len(receiver.got) == 2
    assert "notifications to 127.0.0.1 are stopped" in caplog.text
    assert "s3cret" not in caplog.text


def _message(task: wire.Task) -> str:
    message_id: str = task.history[0].message_id
    return message_id
