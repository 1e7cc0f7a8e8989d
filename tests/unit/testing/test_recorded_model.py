"""What was recorded is said again, and holds no secret."""

from pathlib import Path

import pytest

from turnwise.facts.content import Content, Seal, TextPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import ConfigError, ModelRefused, ModelUnavailable
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest
from turnwise.ports.tool import ToolSpec
from turnwise.testing.models import RecordedModel, ScriptedModel, calls
from turnwise.testing.recorded_model import fingerprint

KEY = "test-key-0123456789"


def asking(text: str) -> ModelRequest:
    return ModelRequest(messages=(text_content(text, "user"),), settings={"extra_headers": {"x-key": KEY}})


async def read(model: Model, request: ModelRequest, *, stream: bool = False) -> ModelReply:
    *pieces, last = [piece async for piece in model.answer(request, stream=stream)]
    assert isinstance(last, ModelReply)
    assert stream == any(isinstance(piece, ModelPiece) for piece in pieces)
    return last


async def test_it_records_what_it_does_not_know_and_says_it_again(tmp_path: Path) -> None:
    live = ScriptedModel("One.", ["Two.", calls("add", {"a": 1})], name="live:model")
    recording = RecordedModel(tmp_path / "said.jsonl", live)
    said = [await read(recording, asking("a"), stream=True), await read(recording, asking("b"))]
    replayed = RecordedModel(tmp_path / "said.jsonl")
    assert [await read(replayed, asking("a")), await read(replayed, asking("b"), stream=True)] == said
    again = RecordedModel(tmp_path / "said.jsonl", live)
    assert await read(again, asking("a")) == said[0]
    assert (len(live.requests), again.name, replayed.name) == (2, "live:model", "recorded:said")


async def test_the_same_request_gets_its_answers_in_order_then_the_last(tmp_path: Path) -> None:
    recording = RecordedModel(tmp_path / "said.jsonl", ScriptedModel("One.", "Two."))
    for _ in range(2):
        await read(recording, asking("a"))
    replayed = RecordedModel(tmp_path / "said.jsonl")
    assert [(await read(replayed, asking("a"))).content.text for _ in range(3)] == ["One.", "Two.", "Two."]


async def test_what_is_not_recorded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"said.jsonl has no answer to this request of 1 messages"):
        await read(RecordedModel(tmp_path / "said.jsonl"), asking("a"))


async def test_errors_are_not_recorded(tmp_path: Path) -> None:
    recording = RecordedModel(tmp_path / "said.jsonl", ScriptedModel(ModelUnavailable("Away."), "Here."))
    with pytest.raises(ModelUnavailable):
        await read(recording, asking("a"))
    assert (await read(recording, asking("a"))).content.text == "Here."


async def test_no_secret_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    live = ScriptedModel([f"Your key is {KEY}.", calls("login", {KEY: ["hunter2", KEY]})])
    recording = RecordedModel(tmp_path / "said.jsonl", live, secrets=["hunter2"])
    request = asking(f"My password is hunter2, my key {KEY}")
    await read(recording, request)
    text = (tmp_path / "said.jsonl").read_text("utf-8")
    assert [secret for secret in (KEY, "hunter2", "password") if secret in text] == []
    assert (await read(RecordedModel(tmp_path / "said.jsonl"), request)).content.text == "Your key is ***."


@pytest.mark.parametrize(
    "line", ["no json", "[]", '{"request": "a"}', '{"request": "a", "content": {"parts": 5}, "usage": {}}']
)
def test_a_damaged_file_is_told_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "said.jsonl").write_text(line + "\n")
    with pytest.raises(ConfigError, match=r"Line 1 of said.jsonl"):
        RecordedModel(tmp_path / "said.jsonl")


def conversation(call_id: str, seal: Seal | None, result: str = "3") -> tuple[Content, ...]:
    call = ToolCallPart(call_id=call_id, tool="add", seal=seal)
    return (
        Content(role="agent", parts=(TextPart(text="I look."), call)),
        Content(role="user", parts=(ToolResultPart(call_id=call_id, tool="add", result=result),)),
    )


def test_a_request_is_known_by_what_the_model_is_told() -> None:
    """Ids and seals differ from run to run; all else is what the answer depends on."""
    request = ModelRequest(messages=conversation("c1", None))
    known = fingerprint(request)
    assert fingerprint(request._replace(messages=conversation("c2", Seal(provider="p", data={"id": "x"})))) == known
    assert fingerprint(request._replace(settings={"timeout": 3})) == known
    spec = ToolSpec(name="add", parameters={"type": "object"})
    others = [
        request._replace(messages=conversation("c1", None, "4")),
        request._replace(instructions="Be kind."),
        request._replace(tools=(spec,)),
        request._replace(choice="none"),
        request._replace(settings={"temperature": 0.5}),
    ]
    assert len({known, *map(fingerprint, others)}) == 1 + len(others)
