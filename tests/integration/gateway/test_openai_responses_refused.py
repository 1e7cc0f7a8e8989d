"""Over real sockets: what a request for a response asks in vain, and how it is told."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from gateway_play import served
from responses_play import WEATHER, opened, parrot, read, texts_of

from turnwise import Content, Runner
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

MakeRunner = Callable[..., Runner]
PNG = {"type": "input_image", "image_url": "https://pictures.example/cat.png", "detail": "auto"}
FORM = {"format": {"type": "json_schema", "name": "x", "schema": {}}}


def user(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "input"),
        ({"input": [{"type": "computer_call_output"}]}, "input[0].type"),
        ({"input": [{"role": "judge", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": user("x")}, "input[0].content[0]"),
        ({"input": user({"type": "input_video"})}, "input[0].content[0].type"),
        ({"input": user(PNG)}, "input[0].content[0].image_url"),
        ({"input": user({"type": "input_image", "file_id": "f-1"})}, "input[0].content[0].file_id"),
        ({"input": user({"type": "input_file", "file_url": "https://x.example"})}, "input[0].content[0].file_url"),
        ({"input": user({"type": "input_file", "file_data": "data:x;base64,***"})}, "input[0].content[0].file_data"),
        ({"input": user({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "ogg"}})}, None),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call", "name": "x"}]}, "input[0]"),
        ({"input": [{"type": "compaction", "encrypted_content": "1.x"}]}, "input[0].encrypted_content"),
        ({"input": "x", "model": 7}, "model"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": "x", "tools": [WEATHER], "tool_choice": "required"}, "tool_choice"),
        ({"input": "x", "tools": [WEATHER], "parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"input": "x", "text": FORM}, "text.format"),
        ({"input": "x", "top_logprobs": 2}, "top_logprobs"),
        ({"input": "x", "include": ["message.output_text.logprobs"]}, "include[0]"),
        ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
        ({"input": "x", "moderation": {"model": "m"}}, "moderation"),
        ({"input": "x", "access_programs": {"cyber": "standard"}}, "access_programs"),
        ({"input": "x", "temperature": 9}, "temperature"),
        ({"input": "x", "metadata": {"openai.response": "x"}}, "metadata.openai.response"),
        ({"input": "x", "metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ({"input": "x", "dance": True}, "dance"),
    ],
)
async def test_a_mistake_names_its_parameter(make_runner: MakeRunner, body: dict[str, Any], param: str | None) -> None:
    runner = make_runner(parrot)
    async with served(runner) as gateway:
        answer = await gateway.post("/v1/responses", json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (422, "invalid_request_error"), answer.text
        assert param is None or error["param"] == param
        assert not (await runner.store.list(runner.app)).items  # nothing was begun


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://pictures.example/cat.png", "URLs of images are not fetched."),
        ("cat.png", "This is no image."),
        ("data:image/png;base64,***", "This data URL cannot be read."),
    ],
)
async def test_an_image_is_refused_for_what_it_is(make_runner: MakeRunner, url: str, why: str) -> None:
    async with served(make_runner(parrot)) as gateway:
        picture = {"type": "input_image", "image_url": url}
        answer = await gateway.post("/v1/responses", json={"input": user(picture)})
        message = answer.json()["error"]["message"]
        assert why in message
        assert "Send the image itself as a data URL: data:image/png;base64,…." in message


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.2, "top_p": 0.5, "max_output_tokens": 20, "max_tool_calls": 3},
        {"reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}, "verbosity": "low"}},
        {"presence_penalty": 0.5, "frequency_penalty": -0.5},
        {"truncation": "disabled", "service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "abc"},
        {"tool_choice": "none", "parallel_tool_calls": False},
    ],
)
async def test_what_only_tunes_a_model_is_given_back(make_runner: MakeRunner, settings: dict[str, Any]) -> None:
    async with served(make_runner(parrot)) as gateway:
        made = (await gateway.post("/v1/responses", json={"input": "hi", **settings})).json()
        assert {name: made[name] for name in settings} == settings
        assert (await gateway.get(f"/v1/responses/{made['id']}")).json() == made


@pytest.mark.parametrize(
    "settings", [{"include": ["reasoning.encrypted_content"]}, {"store": True}, {"context_management": []}]
)
async def test_what_changes_nothing_is_taken(make_runner: MakeRunner, settings: dict[str, Any]) -> None:
    async with served(make_runner(parrot)) as gateway:
        made = (await gateway.post("/v1/responses", json={"input": "hi", **settings})).json()
        assert (made["status"], made["store"]) == ("completed", True)
        assert (await gateway.get(f"/v1/responses/{made['id']}")).json() == made


async def test_pieces_are_padded_for_who_asks(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _):
        options = {"include_obfuscation": True}
        events = await read(
            await client.responses.create(model="turnwise", input="a longer story", stream=True, stream_options=options)
        )
        deltas = [event for event in events if event.type == "response.output_text.delta"]
        assert {(len(event.delta) + len(event.obfuscation)) % 16 for event in deltas} == {0}


async def test_a_model_that_is_not_there(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _):
        with pytest.raises(openai.NotFoundError) as missing:
            await client.responses.create(model="gpt-5", input="hi")
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        direct = await client.responses.create(model="parrot", input="hi")
        assert (direct.model, direct.output_text) == ("parrot", "You said hi.")


class NoSecrets:
    """Blocks what says `secret`, wherever."""

    name = "no-secrets"

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="That is a secret.") if "secret" in content.text else ALLOW


async def test_guardrails_are_told_as_a_filter(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot, guardrails=[NoSecrets()])) as (client, _):
        with pytest.raises(openai.APIStatusError) as refused:
            await client.responses.create(model="turnwise", input="a secret")
        assert refused.value.code == "content_filter"
        made = await client.responses.create(model="turnwise", input="sec ret")
        assert made.status == "completed"


async def test_a_blocked_answer_is_incomplete(make_runner: MakeRunner) -> None:
    class NoParrots(NoSecrets):
        async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
            return GuardrailVerdict("block", reason="No parrots.") if place == "answer" else ALLOW

    async with opened(make_runner(parrot, guardrails=[NoParrots()])) as (client, _):
        made = await client.responses.create(model="turnwise", input="hi")
        assert (made.status, made.incomplete_details.reason) == ("incomplete", "content_filter")
        assert texts_of(made) == ["No parrots."]
        events = await read(await client.responses.retrieve(made.id, stream=True))
        assert events[-1].type == "response.incomplete"


async def test_instructions_are_kept_as_guardrails_leave_them(make_runner: MakeRunner) -> None:
    class Softening(NoSecrets):
        async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
            if place != "message" or "rude" not in content.model_dump_json():
                return ALLOW
            softer = Content.model_validate_json(content.model_dump_json().replace("rude", "kind"))
            return GuardrailVerdict("rewrite", softer, "softened")

    async with opened(make_runner(parrot, guardrails=[Softening()])) as (client, _):
        made = await client.responses.create(model="turnwise", input="hi", instructions="Be rude.")
        assert (await client.responses.retrieve(made.id)).instructions == "Be kind."
