"""Providers over real HTTP, in both formats: what is sent, what comes back, and what goes wrong."""

import asyncio
import gc
import json
import threading
from contextlib import aclosing
from typing import Any

import pytest
from llm_servers import Answer, FakeAnthropic, FakeOpenAI
from provider_play import HELLO, KEY, PNG, TOOLS, Service, failure, read, reply

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Seal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    text_content,
)
from turnwise.facts.errors import ConfigError, ModelRefused
from turnwise.models.provider import ProviderModel
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest
from turnwise.runner.blocking_portal import BlockingPortal


async def test_text_comes_whole_and_in_pieces(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say(Answer("Hello, you there.", input_tokens=100, cached_tokens=40, output_tokens=9))
    *pieces, last = await read(model, stream=stream)
    assert isinstance(last, ModelReply)
    assert last.content.text == "Hello, you there."
    assert last.content.role == "agent"
    assert last.finish in ("stop", "end_turn")
    assert [p.text for p in pieces if isinstance(p, ModelPiece)] == (["Hello", ", you", " ther", "e."] if stream else [])
    assert (last.usage.input_tokens, last.usage.cached_tokens, last.usage.output_tokens) == (100, 40, 9)
    assert (last.usage.model, last.usage.calls) == (model.name, 1)
    assert last.usage.ms > 0


async def test_a_long_answer_is_the_sum_of_its_pieces(service: Service, model: ProviderModel, stream: bool) -> None:
    """J1: it is put together in a thread."""
    text = "Hello, you there. " * 7_000
    service.say(text)
    *pieces, last = await read(model, stream=stream)
    assert isinstance(last, ModelReply)
    assert last.content.text == text
    assert "".join(piece.text for piece in pieces if isinstance(piece, ModelPiece)) == (text if stream else "")


async def test_a_price_is_told_where_it_is_known(service: Service, model: ProviderModel) -> None:
    service.say(Answer("Dear.", input_tokens=1_000, output_tokens=1_000))
    cost = (await reply(model)).usage.cost
    if isinstance(service, FakeAnthropic):
        assert cost is not None
        assert cost > 0
    else:  # a model of one's own has no price that anybody knows
        assert cost is None


async def test_what_is_sent(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say("Fine.")
    settings = {"temperature": 0.5, "max_tokens": 64, "parallel_tool_calls": False}
    await read(model, TOOLS._replace(settings=settings, choice="required"), stream=stream)
    body = service.requests[0].body
    assert (body["temperature"], body["model"]) == (0.5, model.name.partition(":")[2])
    if isinstance(service, FakeOpenAI):
        assert body["messages"] == [
            {"role": "system", "content": "You are kind."},
            {"role": "user", "content": "Hello"},
        ]
        assert (body["tool_choice"], body["parallel_tool_calls"], body["max_completion_tokens"]) == ("required", False, 64)
        [tool] = body["tools"]
        assert (tool["function"]["name"], tool["function"]["description"]) == ("add", "Adds.")
        assert tool["function"]["parameters"]["properties"] == {"a": {"type": "integer"}}
    else:
        assert "You are kind." in json.dumps(body["system"])
        assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
        assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
        assert body["max_tokens"] == 64
        assert [tool["name"] for tool in body["tools"]] == ["add"]


async def test_a_model_may_be_told_not_to_call(service: Service, model: ProviderModel) -> None:
    service.say("No tools, then.")
    await reply(model, TOOLS._replace(choice="none"))
    assert service.requests[0].body["tool_choice"] in ("none", {"type": "none"})


async def test_parallel_calls_and_thinking_come_back(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say(Answer("I add.", calls=(("add", {"a": 1}), ("add", {"a": 22})), thinking="Two sums."))
    *pieces, last = await read(model, TOOLS, stream=stream)
    assert isinstance(last, ModelReply)
    thought, said, first, second = last.content.parts
    assert isinstance(thought, ThinkingPart)
    assert thought.text == "Two sums."
    assert isinstance(said, TextPart)
    assert isinstance(first, ToolCallPart)
    assert isinstance(second, ToolCallPart)
    assert (first.tool, first.arguments, second.arguments, first.raw) == ("add", {"a": 1}, {"a": 22}, None)
    assert first.call_id != second.call_id
    if stream:
        told = [piece for piece in pieces if isinstance(piece, ModelPiece)]
        assert "".join(piece.text for piece in told if piece.kind == "thinking") == "Two sums."
        assert "".join(piece.text for piece in told if piece.kind == "text") == "I add."
        written = ["".join(p.text for p in told if p.kind == "arguments" and p.call == call) for call in (0, 1)]
        assert [json.loads(text) for text in written] == [{"a": 1}, {"a": 22}]
        assert {piece.tool for piece in told if piece.kind == "arguments"} == {"add"}


@pytest.mark.parametrize("written", ['{"a": oops', "[1, 2]", '"a"', '{"a": NaN}', "{" * 500])
async def test_arguments_that_are_no_object_are_kept_raw(
    service: Service, model: ProviderModel, stream: bool, written: str
) -> None:
    """The model is told so and corrects itself, for which its words go back to it in a form that its service takes."""
    service.say(Answer(calls=(("add", written),)), "Now right.")
    answer = await reply(model, TOOLS, stream=stream)
    [call] = answer.content.tool_calls
    assert (call.raw, call.arguments) == (written, {})
    await reply(model, TOOLS._replace(messages=answered(HELLO.messages, answer.content)), stream=stream)
    assert service.refused == []


async def test_a_tool_nobody_knows_is_handed_on(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say(Answer(calls=(("no_such_tool", {}),)), "Sorry.")
    answer = await reply(model, TOOLS, stream=stream)
    assert [(call.tool, call.arguments) for call in answer.content.tool_calls] == [("no_such_tool", {})]
    await reply(model, TOOLS._replace(messages=answered(HELLO.messages, answer.content)))
    assert service.refused == []


def answered(before: tuple[Content, ...], said: Content, **ids: str) -> tuple[Content, ...]:
    """The conversation after the calls in `said` were answered, the last one with an error. ids: new ones for the calls."""
    parts = [p.replace(call_id=ids.get(p.call_id, p.call_id)) if isinstance(p, ToolCallPart) else p for p in said.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    results: list[Any] = [
        ToolResultPart(call_id=call.call_id, tool=call.tool, result={"sum": 3} if number else "boom", failed=number == 0)
        for number, call in reversed(list(enumerate(calls)))
    ]
    return (*before, Content(role="agent", parts=tuple(parts)), Content(role="user", parts=(*results, TextPart(text="Go on."))))


async def test_calls_go_back_under_the_ids_of_the_provider(service: Service, model: ProviderModel, stream: bool) -> None:
    """Ours may be any text; what the provider signed covers its own."""
    service.say(Answer(calls=(("add", {"a": 1}), ("add", {"a": 2})), thinking="Hm.", ids=("id_1", "id_2")), "Done.")
    answer = await reply(model, TOOLS, stream=stream)
    messages = answered(HELLO.messages, answer.content, id_1="Ä long id: " + "x" * 90, id_2="other")
    await reply(model, TOOLS._replace(messages=messages), stream=stream)
    assert service.refused == []
    sent = service.requests[1].body["messages"]
    if isinstance(service, FakeOpenAI):
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
        assert [call["id"] for call in sent[2]["tool_calls"]] == ["id_1", "id_2"]
        assert [message["tool_call_id"] for message in sent[3:5]] == ["id_2", "id_1"]
        assert json.loads(sent[3]["content"]) == {"sum": 3}
        assert "boom" in sent[4]["content"]
        assert sent[2]["reasoning_content"] == "Hm."
    else:
        thinking, *calls = sent[1]["content"]
        assert thinking["thinking"] == "Hm."
        assert [call["id"] for call in calls] == ["id_1", "id_2"]
        good, bad, text = sent[2]["content"]
        assert (good["tool_use_id"], good["is_error"], bad["is_error"]) == ("id_2", False, True)
        assert text == {"type": "text", "text": "Go on."}


async def test_ids_that_repeat_from_answer_to_answer_are_told_apart(service: Service, model: ProviderModel) -> None:
    service.say(*[Answer(calls=(("add", {"a": 1}),), ids=("call_0",))] * 3, "Done.")
    messages = HELLO.messages
    for turn in range(3):
        answer = await reply(model, TOOLS._replace(messages=messages))
        messages = answered(messages, answer.content, call_0=f"ours-{turn}")
    assert (await reply(model, TOOLS._replace(messages=messages))).content.text == "Done."
    assert service.refused == []


async def test_no_provider_gets_the_seals_and_thoughts_of_another(service: Service, model: ProviderModel) -> None:
    seal = Seal(provider="elsewhere", data={"call_id": "theirs", "signature": "s3cret", "provider_details": {"x": 1}})
    said = Content(
        role="agent",
        parts=(
            ThinkingPart(text="Foreign thoughts.", seal=seal),
            ThinkingPart(text="Thoughts without a seal."),
            TextPart(text="I look.", seal=seal),
            ToolCallPart(call_id="ours", tool="add", arguments={"a": 1}, seal=seal),
        ),
    )
    service.say("Done.")
    await reply(model, TOOLS._replace(messages=answered(HELLO.messages, said)))
    sent = json.dumps(service.requests[0].body)
    assert [word for word in ("houghts", "s3cret", "theirs") if word in sent] == []
    assert "ours" in sent


async def test_what_leaves_nothing_to_say_is_left_out(service: Service, model: ProviderModel) -> None:
    """Both services refuse empty messages and two of one side in a row."""
    hidden = Content(role="agent", parts=(ThinkingPart(text="Foreign."),))
    shown = Content(role="user", parts=(DataPart(data=[1]), TextPart(text="")))
    result = Content(role="user", parts=(ToolResultPart(call_id="c", tool="add", result=""),))
    call = Content(role="agent", parts=(ToolCallPart(call_id="c", tool="add"),))
    service.say("Done.")
    messages = (*HELLO.messages, hidden, shown, text_content("More", "user"), call, result)
    await reply(model, TOOLS._replace(messages=messages))
    assert service.refused == []


async def test_files_go_out_as_files_and_others_as_their_names(service: Service, model: ProviderModel) -> None:
    parts = (
        TextPart(text="What is this?"),
        BlobPart(data=PNG, mime_type="image/png"),
        ArtifactPart(name="a1", title="plan.pdf"),
    )
    drawn = Content(role="agent", parts=(TextPart(text="A plan."), BlobPart(data=PNG, mime_type="image/png", name="d.png")))
    service.say("A picture.")
    await reply(model, ModelRequest(messages=(Content(role="user", parts=parts), drawn, text_content("And?", "user"))))
    sent = json.dumps(service.requests[0].body["messages"])
    assert "iVBORw0KGgo" in sent
    assert "[file: plan.pdf]" in sent
    assert "[file: d.png]" in sent


async def test_a_file_that_no_model_reads_is_refused_with_words(service: Service, model: ProviderModel) -> None:
    zipped = Content(role="user", parts=(BlobPart(data=b"PK", mime_type="application/x-strange"),))
    error = await failure(model, ModelRequest(messages=(zipped,)))
    assert isinstance(error, ModelRefused)
    assert service.requests == []


async def test_pieces_come_before_the_answer_is_whole(service: Service, model: ProviderModel) -> None:
    go_on = threading.Event()
    service.say(Answer("Slowly, slowly.", wait=go_on))
    pieces = []
    async for piece in model.answer(HELLO, stream=True):
        pieces.append(piece)
        go_on.set()
    assert len(pieces) > 2


async def test_a_call_that_is_cancelled_ends_at_the_service_too(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say(Answer("Slowly, slowly.", wait=threading.Event()), "Next.")
    task = asyncio.create_task(read(model, stream=stream))
    assert await asyncio.to_thread(service.asked.acquire, timeout=10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(service.dropped.wait, 10)
    assert (await reply(model)).content.text == "Next."


async def test_a_stream_may_be_left_after_its_first_piece(service: Service, model: ProviderModel) -> None:
    service.say("A story that nobody reads to its end.", "Next.")
    async with aclosing(model.answer(HELLO, stream=True)) as answer:  # type: ignore[type-var]
        async for _ in answer:
            break
    assert (await reply(model)).content.text == "Next."


async def test_many_calls_at_once_do_not_mix(service: Service, model: ProviderModel) -> None:
    service.say(*[lambda body: "Echo: " + json.dumps(body["messages"][-1])] * 10)
    asked = [HELLO._replace(messages=(text_content(f"number {number}", "user"),)) for number in range(10)]
    replies = await asyncio.gather(*(reply(model, request, stream=True) for request in asked))
    assert [f"number {number}" in answer.content.text for number, answer in enumerate(replies)] == [True] * 10


def test_a_model_serves_several_event_loops(service: Service, model: ProviderModel) -> None:
    """One after the other, and side by side in threads; no connection stays open when a loop is gone."""
    service.say(*["Hello."] * 8)
    for _ in range(2):
        assert asyncio.run(reply(model)).content.text == "Hello."
    said: list[str] = []
    threads = [threading.Thread(target=lambda: said.append(asyncio.run(twice(model)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["Hello. Hello."] * 3
    gc.collect()  # an open connection would be a warning here, and a warning is an error


def test_the_sync_door_takes_its_connections_with_it(service: Service, model: ProviderModel) -> None:
    service.say("Hello.")
    door = BlockingPortal("")
    assert door.run(reply(model)).content.text == "Hello."
    del door
    gc.collect()


async def twice(model: ProviderModel) -> str:
    return " ".join([(await reply(model)).content.text, (await reply(model, stream=True)).content.text])


async def test_the_key_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked for before the first call; then the variable is named."""
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for provider, variable in {"anthropic": "ANTHROPIC", "google": "GOOGLE", "openai": "OPENAI"}.items():
        error = await failure(ProviderModel(f"{provider}:some-model"))
        assert isinstance(error, ModelRefused)
        assert f"{variable}_API_KEY" in error.fix


async def test_a_base_url_elsewhere_means_chat_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOpenAI(key=KEY) as service:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", service.url)
        service.say("Here.")
        assert (await reply(ProviderModel("openai:small"))).content.text == "Here."
        assert "store" not in service.requests[0].body


async def test_an_endpoint_never_gets_the_key_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeOpenAI() as service:
        service.say("Here.")
        await reply(ProviderModel("small", url=service.url))
    assert KEY not in str(service.requests[0].headers)


async def test_a_library_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="groq"):
        await read(ProviderModel("groq:some-model"))
