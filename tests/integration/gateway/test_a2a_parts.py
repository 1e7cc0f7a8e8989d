"""What may stand in messages and tasks of A2A, with the SDK's own client over real sockets."""

from typing import Any

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a import types as wire
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from a2a_client import HTTP, JSONRPC, spoken, words
from google.protobuf.json_format import MessageToDict

from turnwise import AgentContext, Content, agent
from turnwise.facts.content import ArtifactPart, BlobPart, DataPart, TextPart
from turnwise.stores.artifacts.local import InMemoryArtifactStore

BINDINGS = pytest.mark.parametrize("binding", [JSONRPC, HTTP])
LARGE = b"x" * 3_000_000


@agent
def idle(message: str) -> str:
    return "Done."


def data(value: Any) -> wire.Part:
    part = wire.Part()
    part.data.struct_value.update(value)
    return part


@BINDINGS
async def test_every_kind_of_part_reaches_the_agent(binding: str) -> None:
    seen: list[Content] = []

    @agent
    def root(context: AgentContext) -> str:
        seen.append(context.message)
        return "Done."

    async with spoken(root, binding=binding) as a2a:
        task = await a2a.task(
            "text",
            wire.Part(raw=b"\x00\xff", media_type="image/png", filename="a.png"),
            wire.Part(url="data:text/csv;base64,YSxi", filename="b.csv"),
            data({"whole": 1, "half": 0.5, "deep": [None, True, {"a": "b"}]}),
        )
        assert seen[0].parts == (
            TextPart(text="text"),
            BlobPart(data=b"\x00\xff", mime_type="image/png", name="a.png"),
            BlobPart(data=b"a,b", mime_type="text/csv", name="b.csv"),
            DataPart(data={"whole": 1, "half": 0.5, "deep": [None, True, {"a": "b"}]}),
        )
        number = seen[0].parts[3]
        assert isinstance(number, DataPart)
        assert isinstance(number.data, dict)
        assert type(number.data["whole"]) is int
        (message,) = task.history
        assert [part.WhichOneof("content") for part in message.parts] == ["text", "raw", "raw", "data"]
        assert message.parts[1].raw == b"\x00\xff"


@BINDINGS
async def test_nothing_is_fetched_for_anybody(binding: str) -> None:
    async with spoken(idle, binding=binding) as a2a:
        for url in ("https://example.com/a.png", "file:///etc/passwd", "data:broken"):
            with pytest.raises(ContentTypeNotSupportedError, match="not fetched"):
                await a2a.task("look", wire.Part(url=url))
        with pytest.raises(ContentTypeNotSupportedError, match="application/x-odd"):
            await a2a.task("look", wire.Part(raw=b"x", media_type="application/x-odd"))
        with pytest.raises(InvalidParamsError, match="is empty"):
            await a2a.task("look", wire.Part())


@BINDINGS
async def test_what_agents_give_besides_words(binding: str) -> None:
    @agent
    async def root(message: str, context: AgentContext) -> None:
        small = (await context.artifacts.save("small.txt", b"small", mime_type="text/plain")).version
        large = (await context.artifacts.save("large.bin", LARGE)).version
        parts = (
            TextPart(text="Here."),
            BlobPart(data=b"ab", mime_type="image/png", name="a.png"),
            BlobPart(data=LARGE, name="big"),
            DataPart(name="numbers", data={"n": 2**60}),
            DataPart(data={"n": 1}),
            DataPart(data="hidden", private=True),
            ArtifactPart(name="small.txt", version=small, title="Small"),
            ArtifactPart(name="large.bin", version=large),
            ArtifactPart(name="missing"),
            ArtifactPart(name="https://example.com/f", mime_type="text/plain", title="There"),
        )
        await context.say(Content(parts=parts))

    async with spoken(root, binding=binding, artifacts=InMemoryArtifactStore()) as a2a:
        task = await a2a.task("go", context_id="c 1")
        text, blob, big, exact, plain, small, large, missing, elsewhere = task.artifacts[0].parts
        assert (text.text, blob.raw, blob.media_type, blob.filename) == ("Here.", b"ab", "image/png", "a.png")
        assert big.text == "[file: big, 3,000,000 bytes]"
        assert (exact.text, exact.media_type, exact.filename) == ('{"n":1152921504606846976}', "application/json", "numbers")
        assert MessageToDict(plain.data) == {"n": 1}
        assert (small.raw, small.filename, small.media_type) == (b"small", "Small", "text/plain")
        assert large.url == f"{a2a.gateway.address}/api/v1/sessions/c%201/artifacts/large.bin?version=1"
        assert missing.text == "[file: missing]"
        assert (elsewhere.url, elsewhere.filename) == ("https://example.com/f", "There")
        assert (await a2a.gateway.get(large.url)).content == LARGE
        assert (await a2a.client.get_task(wire.GetTaskRequest(id=task.id))).artifacts == task.artifacts
        assert (await a2a.task("go", context_id="c/1")).artifacts[0].parts[6].text == "[file: large.bin]", "no path leads there"
        options = {"accepted_output_modes": ["text/plain"]}
        plain = (await a2a.task("go", configuration=options)).artifacts[0].parts[4]
        assert (plain.text, plain.media_type) == ('{"n":1}', "text/plain")


async def test_data_too_deep_for_the_protocol_comes_as_text() -> None:
    deep: Any = "end"
    for _ in range(40):
        deep = [deep]

    @agent
    async def root(message: str, context: AgentContext) -> None:
        await context.say(Content(parts=(DataPart(data=deep),)))

    async with spoken(root) as a2a:
        assert words(await a2a.task("go")) == ["[" * 40 + '"end"' + "]" * 40]


@BINDINGS
async def test_a_file_that_is_too_large_is_refused(binding: str) -> None:
    async with spoken(idle, binding=binding) as a2a:
        limit = a2a.runner.config.limits.blob_bytes
        params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "A" * (limit // 3 * 4 + 8)}]}}
        answer = await a2a.rpc("SendMessage", params)
        assert (answer["error"]["code"], answer["id"]) == (-32602, "1")
