"""Chat completions, with OpenAI's own client over real sockets."""

import asyncio
import base64
from typing import Any

import openai
import pytest
from openai.types import CompletionUsage, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails
from openai_play import assistant, chatting, joined, said, session_of, system, user
from runner_play import Gate, soon

from turnwise import AgentContext, Content, LlmAgent, agent
from turnwise.agents.composite import Parallel
from turnwise.facts.content import BlobPart, text_content
from turnwise.facts.usage import Usage
from turnwise.flows.flow import Flow
from turnwise.flows.tasks import Task
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.ports.model import LENGTH, ModelReply
from turnwise.testing.models import ScriptedModel, calls

WORDS = "You said: hello.\nOne moment.\nThat is all."


@agent
async def talker(message: str, context: AgentContext) -> str:
    async with context.stream() as out:
        for piece in ("You said: ", message[:2], message[2:], "."):
            await out.write(piece)
    await context.say("One moment.")
    return "That is all."


async def test_every_field_of_the_schema_is_there() -> None:
    async with chatting(talker) as chat:
        body: dict[str, Any] = {"model": "turnwise", "messages": [user("hello")]}
        raw = (await chat.gateway.post("/v1/chat/completions", json=body)).json()
        assert raw.keys() >= ChatCompletion.model_fields.keys()
        choice = raw["choices"][0]
        assert choice.keys() >= Choice.model_fields.keys()
        assert choice["message"].keys() >= ChatCompletionMessage.model_fields.keys()
        assert raw["usage"].keys() >= CompletionUsage.model_fields.keys()
        assert raw["usage"]["prompt_tokens_details"].keys() >= PromptTokensDetails.model_fields.keys()
        assert raw["usage"]["completion_tokens_details"].keys() >= CompletionTokensDetails.model_fields.keys()
        ChatCompletion.model_validate(raw, strict=True)
        chunk = (await chat.pieces("hello"))[0]
        assert chunk.to_dict().keys() >= ChatCompletionChunk.model_fields.keys()
        assert chunk.choices[0].to_dict().keys() >= ChunkChoice.model_fields.keys()
        (model, *_) = (await chat.gateway.get("/v1/models")).json()["data"]
        assert model.keys() >= Model.model_fields.keys()


async def test_what_is_streamed_is_what_is_answered() -> None:
    async with chatting(talker) as chat:
        answer, chunks = await chat.ask("hello"), await chat.pieces("hello")
        assert said(answer) == joined(chunks) == WORDS
        assert answer.choices[0].finish_reason == "stop"
        first, *middle, last, usage = chunks
        assert first.choices[0].delta.role == "assistant"
        assert all(chunk.choices[0].finish_reason is None and chunk.usage is None for chunk in (first, *middle))
        assert last.choices[0].finish_reason == "stop"
        assert usage.choices == []
        assert usage.usage is not None
        assert usage.usage.total_tokens == 0
        assert {chunk.id for chunk in chunks} == {first.id} != {answer.id}


async def test_pieces_come_while_the_answer_is_made() -> None:
    heard = asyncio.Event()

    @agent
    async def slow(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("one ")
            await heard.wait()
            await out.write("two")

    async with chatting(slow) as chat:
        stream: Any = await chat.client.chat.completions.create(model="turnwise", messages=[user("hello")], stream=True)  # type: ignore[list-item]
        pieces = []
        async for chunk in stream:
            if piece := chunk.choices[0].delta.content:
                pieces.append(piece)
                heard.set()
        assert pieces == ["one ", "two"]


async def test_a_stream_ends_with_done_and_says_what_it_took_only_if_asked() -> None:
    async with chatting(talker) as chat:
        body: dict[str, Any] = {"model": "turnwise", "messages": [user("hello")], "stream": True}
        raw = await chat.gateway.post("/v1/chat/completions", json=body)
        assert raw.headers["content-type"].startswith("text/event-stream")
        assert raw.text.endswith("data: [DONE]\n\n")
        assert all(chunk.choices for chunk in await chat.pieces("hello", stream_options=None))


async def test_the_sync_client() -> None:
    async with chatting(talker) as chat:

        def ask() -> tuple[str, str]:
            with openai.OpenAI(base_url=f"{chat.gateway.address}/v1", api_key="none") as client:
                messages: Any = [user("hello")]
                whole = client.chat.completions.create(model="turnwise", messages=messages)
                stream = client.chat.completions.create(model="turnwise", messages=messages, stream=True)
                return said(whole), joined(stream)

        assert await asyncio.to_thread(ask) == (WORDS, WORDS)


async def test_what_models_took() -> None:
    model = ScriptedModel(_reply("one", 10, 3), _reply("two", 20, 4))
    async with chatting(LlmAgent("root", model=model)) as chat:
        answer = await chat.ask("hello")
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (10, 3, 13)
        assert answer.usage.prompt_tokens_details is not None
        assert answer.usage.prompt_tokens_details.cached_tokens == 5
        usage = (await chat.pieces("hello"))[-1].usage
        assert usage is not None
        assert usage.total_tokens == 24


def _reply(text: str, asked: int, answered: int, finish: str = "") -> ModelReply:
    usage = Usage(model="scripted:model", input_tokens=asked, cached_tokens=5, output_tokens=answered)
    return ModelReply(text_content(text), usage, finish)


async def test_an_answer_that_is_cut_off_says_so() -> None:
    model = ScriptedModel(_reply("half an", 1, 2, LENGTH), _reply("half an", 1, 2, LENGTH))
    async with chatting(LlmAgent("root", model=model)) as chat:
        assert (await chat.ask("hello")).choices[0].finish_reason == "length"
        assert (await chat.pieces("hello"))[-2].choices[0].finish_reason == "length"


class Prim:
    """Blocks answers and messages that hold a bad word."""

    name = "prim"

    async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="Not here.") if "bad" in content.text else ALLOW


async def test_what_a_guardrail_blocks_is_filtered_content() -> None:
    """C13."""

    @agent
    def rude() -> str:
        return "a bad word"

    async with chatting(rude, guardrails=[Prim()]) as chat:
        answer = await chat.ask("hello")
        assert (said(answer), answer.choices[0].finish_reason) == ("Not here.", "content_filter")
        assert (await chat.pieces("hello"))[-2].choices[0].finish_reason == "content_filter"
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await chat.ask("a bad question")
        assert refused.value.code == "content_filter"


async def test_an_answer_that_is_data_is_told_as_json() -> None:
    @agent
    def clerk() -> dict[str, int]:
        return {"total": 3}

    async with chatting(clerk) as chat:
        assert joined(await chat.pieces("how much?")) == '{"total":3}'
        answer = await chat.ask("how much?")
        assert said(answer) == '{"total":3}'
        again = await chat.ask("how much?", assistant(said(answer)), "and now?")
        assert session_of(again) == session_of(answer)


async def test_children_of_a_parallel_agent_are_not_mixed() -> None:
    first_spoke = asyncio.Event()

    @agent
    async def left(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("left ")
            await first_spoke.wait()
            await out.write("words")

    @agent
    async def right(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("right ")
            await out.write("words")
        first_spoke.set()

    async with chatting(Parallel("both", children=[left, right])) as chat:
        chunks = await chat.pieces("hello")
        assert joined(chunks) == "right words\nleft words"


async def test_words_on_the_tasks_of_a_flow_are_not_told() -> None:
    model = ScriptedModel(["Working on it. ", calls("task_succeeded", {"result": "It is done."})])
    flow = Flow("works", [Task("Do it.", result=str)], agents=[LlmAgent("worker", model=model)])
    async with chatting(flow) as chat:
        chunks = await chat.pieces("please")
        assert joined(chunks) == "It is done."


async def test_an_agent_that_asks_gives_a_normal_answer_and_goes_on() -> None:
    begun: list[str] = []

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        await context.step("begin", lambda: begun.append(message))
        number = await context.ask("Which order?")
        return f"{message}: {number.text}"

    async with chatting(clerk) as chat:
        asked = await chat.ask("where is it?")
        assert (said(asked), asked.choices[0].finish_reason) == ("Which order?", "stop")
        answer = await chat.ask("where is it?", assistant("Which order?"), "1001")
        assert (said(answer), begun) == ("where is it?: 1001", ["where is it?"])
        assert session_of(answer) == session_of(asked)


async def test_a_system_prompt_reaches_the_model_and_no_selector() -> None:
    model = ScriptedModel(*["Bien."] * 3)
    heard: list[str] = []

    @agent
    def plain(message: str) -> str:
        heard.append(message)
        return "ok"

    async with chatting(LlmAgent("root", model=model, children=[plain])) as chat:
        french = system("Answer in French.")
        answer = await chat.ask(french, "How are you?")
        assert [message.text for message in model.requests[0].messages] == ["Answer in French.\nHow are you?"]
        # It is not said again in the same conversation, as the model reads it there.
        again = await chat.ask(french, "How are you?", assistant("Bien."), "And now?")
        assert session_of(again) == session_of(answer)
        assert [message.text for message in model.requests[1].messages][-1] == "And now?"
        # It may change, as those do that hold the time.
        await chat.ask(system("Answer in Greek."), "How are you?", assistant("Bien."), "And now?", assistant("Bien."), "Now?")
        assert [message.text for message in model.requests[2].messages][-1] == "Answer in Greek.\nNow?"
        await chat.ask(french, "hello", model="plain")
        assert heard == ["hello"]


async def test_files_come_as_data_urls() -> None:
    @agent
    def reader(message: Content) -> str:
        blobs = [part for part in message.parts if isinstance(part, BlobPart)]
        return " ".join(f"{blob.mime_type} {blob.data.decode()}" for blob in blobs)

    data = base64.b64encode(b"pixels").decode()
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "low"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ]
    async with chatting(reader) as chat:
        assert said(await chat.ask(user(parts))) == "image/png pixels application/pdf pixels audio/wav pixels"
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await chat.ask(user([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]))
        assert refused.value.param == "messages[0].content[0].image_url.url"
        assert "URLs of images are not fetched. Send the image itself as a data URL" in str(refused.value)


async def test_metadata_is_for_agents_and_selectors() -> None:
    @agent
    def looking(context: AgentContext) -> dict[str, Any]:
        known = context.message_context
        return {"channel": known.channel, "attributes": known.attributes}

    async with chatting(looking) as chat:
        answer = await chat.ask("hello", metadata={"customer": "7", "channel": "phone"})
        assert said(answer) == '{"channel":"phone","attributes":{"customer":"7"}}'
        assert answer.metadata == {"customer": "7", "channel": "phone"}


async def test_whoever_leaves_early_finds_the_answer_in_the_session() -> None:
    """A22."""
    gate = Gate()
    async with chatting(gate.agent) as chat:
        stream: Any = await chat.client.chat.completions.create(model="turnwise", messages=[user("one")], stream=True)  # type: ignore[list-item]
        assert (await anext(stream)).choices[0].delta.role == "assistant"
        await gate.began.wait()
        await stream.close()
        following = asyncio.create_task(chat.ask("one", assistant("answ"), "two"))
        gate.go.set()
        answer = await soon(following)
        assert said(answer) == "answer to two"
        assert await chat.log(session_of(answer)) == [
            ("user", "one"),
            ("gated", "answer to one"),
            ("user", "two"),
            ("gated", "answer to two"),
        ]


async def test_eight_streams_at_once() -> None:
    async with chatting(talker) as chat:
        streams = [chat.pieces(f"number {number}") for number in range(8)]
        for number, chunks in enumerate(await asyncio.gather(*streams)):
            assert joined(chunks) == f"You said: number {number}.\nOne moment.\nThat is all."
        assert len(await chat.sessions()) == 8


async def test_an_agent_that_fails_is_an_error_also_in_a_stream() -> None:
    @agent
    async def broken(message: str, context: AgentContext) -> str:
        await context.say("Let me see.")
        raise RuntimeError("secret")

    async with chatting(broken) as chat:
        with pytest.raises(openai.InternalServerError) as failed:
            await chat.ask("hello")
        assert (failed.value.code, failed.value.type) == ("agent.failed", "server_error")
        assert failed.value.response.headers["x-should-retry"] == "false"
        heard = []

        async def listen() -> None:
            stream: Any = await chat.client.chat.completions.create(model="turnwise", messages=[user("hi")], stream=True)  # type: ignore[list-item]
            async for chunk in stream:
                heard.append(chunk)

        with pytest.raises(openai.APIError) as broke:
            await listen()
        assert joined(heard) == "Let me see."
        assert broke.value.code == "agent.failed"
