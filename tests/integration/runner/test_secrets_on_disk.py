"""No file of the database holds what a guardrail takes out, whichever way an error or a name brings it (C13)."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from runner_play import ask

from turnwise import AgentContext, BlobPart, RunConfig, Runner, TextPart, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import ArtifactPart, Content, DataPart, Seal, ToolCallPart, ToolResultPart
from turnwise.facts.errors import AgentFailed, MessageBlocked
from turnwise.facts.events import ErrorInfo, Event
from turnwise.guardrails.secrets import Secrets
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.models import ScriptedModel, calls

KEY = "sk-abcdEFGH1234ijklMNOP5678"


@agent
def chained() -> str:
    try:
        raise ValueError(f"inner {KEY}")
    except ValueError as error:
        raise RuntimeError(f"outer {KEY}") from error


@agent
def grouped() -> str:
    raise ExceptionGroup(f"group {KEY}", [ValueError(KEY), KeyError(KEY)])


@agent
def noted() -> str:
    error = ValueError("see the note")
    error.add_note(KEY)
    raise error


@agent
def typed() -> str:
    raise AgentFailed(f"It is {KEY}.", fix=f"Use {KEY}.")


@agent
async def yielded(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event("hi").replace(error=ErrorInfo(code="bad", message=f"It is {KEY}."))


@agent
async def yielded_bare(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event().replace(error=ErrorInfo(code=KEY, message=f"It is {KEY}."))


@agent
async def handed_to_nobody(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event("go on", transfer_to=KEY)


@agent
async def artifact(context: AgentContext) -> None:
    await context.artifacts.save(f"{KEY}.txt", b"x")


@agent
async def file(context: AgentContext) -> None:
    await context.say(Content(parts=(BlobPart(data=b"x", mime_type="text/plain", name=f"{KEY}.txt"),)))


@agent
async def data(context: AgentContext) -> None:
    await context.say(Content(parts=(DataPart(data=1, name=KEY),)))


def broken() -> str:
    """Raises."""
    raise ValueError(KEY)


def broken_twice() -> str:
    """Raises a group."""
    raise ExceptionGroup(KEY, [ValueError(KEY)])


def model(tool: str) -> LlmAgent:
    return LlmAgent(tool, model=ScriptedModel(calls(tool, {}), "well"), tools=[broken, broken_twice])


@agent
def echo(message: str) -> str:
    return "ok"


class OwnError(AgentFailed):
    code = KEY


class EmptyError(AgentFailed):
    code = ""


@agent
def own_code() -> str:
    raise OwnError("It failed.")


@agent
def empty_code() -> str:
    raise EmptyError("It failed.")


@agent
def instance_code() -> str:
    error = AgentFailed("It failed.")
    error.code = 7  # type: ignore[misc, assignment]
    raise error


@agent
async def step_key(context: AgentContext) -> None:
    await context.step(f"look up {KEY}", lambda: 1)


@agent
async def once_key(context: AgentContext) -> None:
    async def make(_: Any) -> Event:
        return context.event("hi")

    await context.once(KEY, make)


@agent
async def scope_label(context: AgentContext) -> None:
    await context.say("hi", scope=(f"about/{KEY}",))


@agent
async def yielded_label(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event("hi").replace(scope=(KEY,))


@agent
async def yielded_cut_off(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event("hi", cut_off=KEY)


@agent
async def mime_type(context: AgentContext) -> None:
    await context.say(Content(parts=(BlobPart(data=b"x", mime_type=f"text/{KEY}"),)))


@agent
async def reference(context: AgentContext) -> None:
    await context.say(Content(parts=(ArtifactPart(name=f"https://a.example/?key={KEY}", mime_type=f"text/{KEY}"),)))


@agent
async def result_of(context: AgentContext) -> None:
    await context.say(Content(parts=(ToolResultPart(call_id="1", tool=KEY, result=1),)))


@agent
async def made_up_call(context: AgentContext) -> None:
    await context.say(Content(parts=(ToolCallPart(call_id="1", tool=KEY),)))


@agent
async def newer_part(context: AgentContext) -> None:
    await context.say(NEWER)


def in_script(text: str) -> list[Any]:
    """Agents that bring the secret within letters of a script that has no spaces around it."""

    @agent
    def raises() -> str:
        raise ValueError(f"{text}{KEY}{text}")

    @agent
    async def names(context: AgentContext) -> None:
        await context.artifacts.save(f"{text}{KEY}{text}.txt", b"x")

    @agent
    async def keys(context: AgentContext) -> None:
        await context.step(f"{text}{KEY}{text}", lambda: 1)

    return [raises, names, keys]


def made_up_tool(tool: str) -> LlmAgent:
    return LlmAgent("modelled", model=ScriptedModel(calls(tool, {}), "well"), tools=[broken])


NEWER = Content.model_validate_json(
    json.dumps({"parts": [{"kind": "text", "text": "hi", "later": [KEY]}, {"kind": f"x-{KEY}", KEY: {"a": KEY}}], "more": KEY})
)
TYPED = Content(role="user", parts=(TextPart(text="keep it"), BlobPart(data=b"abc", mime_type=f"text/{KEY}")))
SEALED = Content(role="user", parts=(TextPart(text="keep it", seal=Seal(provider="p", data={"k": KEY})),))
REFERRED = Content(role="user", parts=(TextPart(text="keep it"), ArtifactPart(name=KEY)))

FILE = Content(
    role="user", parts=(TextPart(text="keep it"), BlobPart(data=b"abc", mime_type="text/plain", name=f"{KEY}/{KEY}.txt"))
)
WAYS: list[tuple[Any, str | Content]] = [
    *((each, "go") for each in (chained, grouped, noted, typed, yielded, yielded_bare, handed_to_nobody, artifact, file, data)),
    *((each, "go") for each in (own_code, empty_code, instance_code, step_key, once_key, scope_label, yielded_label)),
    *((each, "go") for each in (yielded_cut_off, mime_type, reference, result_of, made_up_call, newer_part)),
    *((model(tool), "go") for tool in ("broken", "broken_twice")),
    *((made_up_tool(name), "go") for name in (KEY, f"look up {KEY} 鍵{KEY}ключ")),
    *((each, "go") for text in ("密钥在这里", "รหัสลับ", "ключ", "키는") for each in in_script(text)),
    *((echo, each) for each in (TYPED, SEALED, REFERRED, NEWER)),
    (echo, FILE),
    (echo, f"the key is {KEY}"),
]


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize(("teller", "message"), WAYS, ids=[f"{way[0].card.name}-{place}" for place, way in enumerate(WAYS)])
@pytest.mark.parametrize("action", ["rewrite", "block"])
async def test_no_secret_reaches_the_database(tmp_path: Path, teller: Any, message: str | Content, action: str) -> None:
    """C13: neither the database, nor its write-ahead log, while it is open and after it is closed."""
    config = RunConfig(save_input_blobs_as_artifacts=True)
    runner = Runner(
        teller,
        store=f"sqlite:///{tmp_path}/log.db",
        artifacts=InMemoryArtifactStore(),
        guardrails=[Secrets(action=action)],  # type: ignore[arg-type]
        config=config,
    )
    try:
        with suppress(MessageBlocked):
            result = await ask(runner, message)
            assert result.events
        assert KEY.encode() not in on_disk(tmp_path)
        assert b"go" in on_disk(tmp_path) or message != "go"
    finally:
        await runner.close()
    assert KEY.encode() not in on_disk(tmp_path)
