"""No file of the database holds what a guardrail takes out, whichever way an error or a name brings it (C13)."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from runner_play import ask

from turnwise import AgentContext, BlobPart, RunConfig, Runner, TextPart, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import Content, DataPart
from turnwise.facts.errors import AgentFailed, MessageBlocked
from turnwise.facts.events import ErrorInfo, Event
from turnwise.guardrails.secrets import Secrets
from turnwise.stores.artifacts.in_memory import InMemoryArtifactStore
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


FILE = Content(
    role="user", parts=(TextPart(text="keep it"), BlobPart(data=b"abc", mime_type="text/plain", name=f"{KEY}/{KEY}.txt"))
)
WAYS: list[tuple[Any, str | Content]] = [
    *((each, "go") for each in (chained, grouped, noted, typed, yielded, yielded_bare, handed_to_nobody, artifact, file, data)),
    *((model(tool), "go") for tool in ("broken", "broken_twice")),
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
