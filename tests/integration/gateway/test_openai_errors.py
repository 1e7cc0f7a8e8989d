"""What goes wrong, as OpenAI's client raises it."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from gateway_play import key_for, served
from openai_play import assistant, chatting, client_of, user

from turnwise import LlmAgent, Runner, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.testing.models import ScriptedModel

MakeRunner = Callable[..., Runner]
KEYS = GatewayConfig(auth=AuthConfig())


@agent
def echo(message: str) -> str:
    return message


@agent(roles=["staff"])
def secret(message: str) -> str:
    return "secret"


@agent(name="Ann & Bob/ü ?#%", description="odd")
def odd(message: str) -> str:
    return "odd"


@agent(children=[echo, secret, odd])
def root(message: str) -> str:
    return "root"


async def raised(client: openai.AsyncOpenAI, model: str = "turnwise", **body: Any) -> openai.APIStatusError:
    """The error that the client raises for that request."""
    messages = body.pop("messages", [user("hello")])
    with pytest.raises(openai.APIStatusError) as refused:
        await client.chat.completions.create(model=model, messages=messages, **body)
    return refused.value


async def token(runner: Runner, **rights: Any) -> str:
    return (await key_for(runner, **rights))["Authorization"].removeprefix("Bearer ")


async def test_models_are_the_front_door_and_whom_the_caller_reaches(make_runner: MakeRunner) -> None:
    """C1, C20."""
    runner = make_runner(root)
    async with served(runner, KEYS) as gateway:
        plain = client_of(gateway, await token(runner, user="ann"))
        staff = client_of(gateway, await token(runner, user="bob", agent_roles=["staff"]))
        async with plain, staff:
            names = [model.id async for model in plain.models.list()]
            assert names == ["turnwise", "root", "echo", "Ann & Bob/ü ?#%"]
            assert [model.id async for model in staff.models.list()] == [*names[:3], "secret", names[3]]
            for name in names:
                assert (await plain.models.retrieve(name)).id == name
                answer = await plain.chat.completions.create(model=name, messages=[{"role": "user", "content": "hi"}])
                assert answer.model == name
                assert (answer.model_extra or {})["turnwise"]["agent"] in ({name} if name != "turnwise" else set(names))


async def test_an_agent_out_of_reach_is_as_if_there_were_none(make_runner: MakeRunner) -> None:
    """C20."""
    runner = make_runner(root)
    async with served(runner, KEYS) as gateway, client_of(gateway, await token(runner, user="ann")) as client:
        for model in ("secret", "nobody"):
            error = await raised(client, model)
            assert isinstance(error, openai.NotFoundError)
            assert (error.code, error.param, error.type) == ("model_not_found", "model", "not_found_error")
            assert error.message.replace(model, "?") == (await raised(client, "nobody")).message.replace("nobody", "?")
            with pytest.raises(openai.NotFoundError) as missing:
                await client.models.retrieve(model)
            assert missing.value.code == "model_not_found"


async def test_a_policy_that_lets_nobody_choose_has_one_model() -> None:
    """C1."""
    async with chatting(root, policy="adk") as chat:
        assert [model.id async for model in chat.client.models.list()] == ["turnwise"]
        assert (await raised(chat.client, "echo")).code == "model_not_found"


async def test_credentials(make_runner: MakeRunner) -> None:
    runner = make_runner(root)
    async with served(runner, KEYS) as gateway:
        async with client_of(gateway, "tw_000000000000_wrong") as nobody:
            error = await raised(nobody)
            assert isinstance(error, openai.AuthenticationError)
            assert (error.code, error.type) == ("invalid_api_key", "authentication_error")
        async with client_of(gateway, await token(runner, user="ann", scopes=["sessions:read"])) as reader:
            error = await raised(reader)
            assert isinstance(error, openai.PermissionDeniedError)
            assert (error.code, error.type) == ("access.forbidden", "permission_error")


async def test_only_a_key_that_acts_for_users_names_one(make_runner: MakeRunner) -> None:
    runner = make_runner(root)
    async with served(runner, KEYS) as gateway:
        ann = client_of(gateway, await token(runner, user="ann"))
        shop = client_of(gateway, await token(runner, acts_for_users=True))
        async with ann, shop:
            messages: Any = [user("hello")]
            await ann.chat.completions.create(model="turnwise", messages=messages, user="bob")
            await shop.chat.completions.create(model="turnwise", messages=messages, user="cid")
            await shop.chat.completions.create(model="turnwise", messages=messages, safety_identifier="dan")
            assert (await raised(shop)).param == "user"
            assert isinstance(await raised(ann, extra_query={"user": "cid"}), openai.PermissionDeniedError)
        infos = (await runner.store.list(runner.app)).items
        assert [info.key.user for info in infos] == ["ann", "cid", "dan"]


async def test_too_many_requests(make_runner: MakeRunner) -> None:
    runner = make_runner(root)
    config = KEYS.replace(limits=CallerLimits(requests=2))
    async with served(runner, config) as gateway, client_of(gateway, await token(runner, user="ann")) as client:
        messages: Any = [user("hello")]
        for _ in range(2):
            await client.chat.completions.create(model="turnwise", messages=messages)
        error = await raised(client)
        assert isinstance(error, openai.RateLimitError)
        assert (error.code, error.type) == ("rate_limit_exceeded", "rate_limit_error")
        assert int(error.response.headers["retry-after"]) >= 1
        assert error.response.headers["x-should-retry"] == "true"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "n"),
    ({"stop": ["\n"]}, "stop"),
    ({"logprobs": True}, "logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}, "tool_choice"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}], "parallel_tool_calls": False}, "parallel_tool_calls"),
    ({"messages": []}, "messages"),
    ({"messages": [user("hello"), assistant("hi")]}, "messages[1]"),
    ({"messages": [user([{"type": "video", "video": 1}])]}, "messages[0].content[0].type"),
    ({"messages": [user([{"type": "file", "file": {"file_id": "file-1"}}])]}, "messages[0].content[0].file"),
    ({"messages": [{"role": "tool", "content": "3"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "wizard", "content": "3"}]}, "messages[0].role"),
    ({"messages": [user(3)]}, "messages[0].content"),
]


@pytest.mark.parametrize(("body", "param"), REFUSED, ids=[param for _, param in REFUSED])
async def test_what_would_change_the_answers_meaning_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    async with chatting(root) as chat:
        error = await raised(chat.client, **body)
        assert isinstance(error, openai.UnprocessableEntityError)
        assert (error.param, error.type, error.code) == (param, "invalid_request_error", "request.invalid")
        assert error.response.headers["x-should-retry"] == "false"
        assert await chat.sessions() == []


async def test_what_only_tunes_a_model_is_taken() -> None:
    harmless: dict[str, Any] = {
        "temperature": 0.1,
        "top_p": 0.5,
        "frequency_penalty": 1,
        "presence_penalty": 1,
        "seed": 7,
        "logit_bias": {"1": 1},
        "max_tokens": 10,
        "max_completion_tokens": 10,
        "reasoning_effort": "low",
        "service_tier": "auto",
        "store": False,
        "n": 1,
        "stop": [],
        "logprobs": False,
        "response_format": {"type": "text"},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "extra_body": {"something_of_tomorrow": {"a": 1}},
    }
    async with chatting(root) as chat:
        answer = await chat.ask("hello", **harmless)
        assert answer.choices[0].message.content == "root"


async def test_what_is_no_json_and_what_is_no_path() -> None:
    async with chatting(root) as chat:
        broken = await chat.gateway.post("/v1/chat/completions", content=b"{", headers={"Content-Type": "application/json"})
        assert (broken.status_code, broken.json()["error"]["type"]) == (422, "invalid_request_error")
        nowhere = await chat.gateway.get("/v1/nowhere")
        assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "request.nothing_here")
        wrong = await chat.gateway.put("/v1/models")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "request.method")


async def test_results_that_nobody_waits_for() -> None:
    """A8."""
    async with chatting(LlmAgent("root", model=ScriptedModel("hi"))) as chat:
        call = {"id": "call-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": "call-1", "content": "3"}
        for messages in ([result], [user("hello"), assistant(None, tool_calls=[call]), result]):
            error = await raised(chat.client, messages=messages)
            assert isinstance(error, openai.ConflictError)
            assert (error.code, error.response.headers["x-should-retry"]) == ("message.unknown_tool_call", "false")
        assert await chat.sessions() == []
