"""What an agent's exception leaves: a record without secrets, the exception itself in process, a session that goes on."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import ask, log, reason

from turnwise import AgentContext, BlobPart, Runner, TextPart, agent
from turnwise.facts.errors import ArtifactName
from turnwise.guardrails.secrets import Secrets
from turnwise.stores.artifacts.in_memory import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
KEY = "sk-abcdEFGH1234ijklMNOP5678"


async def test_the_exception_itself_is_in_the_result(make_runner: MakeRunner) -> None:
    @agent
    def clerk() -> str:
        drawers: dict[str, str] = {}
        return drawers["drawer"]

    result = await ask(make_runner(clerk), "hi")
    assert isinstance(result.exception, KeyError)
    assert result.exception.__traceback__ is not None
    assert result.error is not None

    @agent
    def fine() -> str:
        return "fine"

    assert (await ask(make_runner(fine), "hi")).exception is None


@pytest.mark.parametrize("name", ["sya", "Say", "messages"])
async def test_a_misspelled_name_of_the_context_is_told_in_the_developers_words(make_runner: MakeRunner, name: str) -> None:
    @agent
    async def clerk(context: AgentContext) -> Any:
        return getattr(context, name)

    result = await ask(make_runner(clerk), "hi")
    assert result.error is not None
    assert result.error.message == f"Agent 'clerk' raised AttributeError: The agent's context has no attribute '{name}'."


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
async def test_what_an_exception_quotes_passes_the_guardrails(make_runner: MakeRunner, error: type[BaseException]) -> None:
    """C13: nothing of it is in the log, neither in the error nor in the end."""

    @agent
    def clerk(message: str) -> str:
        if message == "again":
            return "fine"
        raise error(f"cannot log in with {KEY}")

    runner = make_runner(clerk, guardrails=[Secrets()])
    result = await ask(runner, "hi")
    assert reason(result) == "failed"
    assert result.error is not None
    assert f"raised {error.__name__}: cannot log in with [key]" in result.error.message
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in result.events])
    assert (await ask(runner, "again")).text == "fine"


async def test_an_error_that_a_guardrail_blocks_is_withheld(make_runner: MakeRunner) -> None:
    @agent
    def clerk() -> str:
        raise ValueError(KEY)

    result = await ask(make_runner(clerk, guardrails=[Secrets(action="block")]), "hi")
    assert result.error is not None
    assert result.error.message == "Agent 'clerk' failed; what the error says is withheld."
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in result.events])


async def test_names_of_artifacts_pass_the_guardrails(make_runner: MakeRunner) -> None:
    """C13: they stand in the log."""
    told: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> str:
        try:
            await context.artifacts.save(f"{KEY}.txt", b"x")
        except ArtifactName as problem:
            told.append(str(problem))
        await context.artifacts.save("fine.txt", b"x")
        return "saved"

    runner = make_runner(clerk, guardrails=[Secrets()], artifacts=InMemoryArtifactStore())
    result = await ask(runner, "hi")
    assert told == ["A guardrail does not let the artifact's name into the log. Choose another name."]
    assert [text for _, text in await log(runner)][-1] == "saved"
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in result.events])


@pytest.mark.parametrize(
    ("data", "stored", "mime_type"),
    [
        ("naïve", "naïve".encode(), "text/plain; charset=utf-8"),
        (b"x", b"x", "application/octet-stream"),
        (bytearray(b"x"), b"x", "application/octet-stream"),
        (TextPart(text="x"), b"x", "text/plain; charset=utf-8"),
        (BlobPart(data=b"x", mime_type="image/png"), b"x", "image/png"),
    ],
)
async def test_an_artifact_is_text_bytes_or_a_part(make_runner: MakeRunner, data: Any, stored: bytes, mime_type: str) -> None:
    @agent
    async def clerk(context: AgentContext) -> str:
        await context.artifacts.save("a", data)
        found = await context.artifacts.load("a")
        assert found is not None
        return f"{found.data!r} {found.info.mime_type}"

    runner = make_runner(clerk, artifacts=InMemoryArtifactStore())
    assert (await ask(runner, "hi")).text == f"{stored!r} {mime_type}"


async def test_something_else_is_no_artifact(make_runner: MakeRunner) -> None:
    @agent
    async def clerk(context: AgentContext) -> None:
        await context.artifacts.save("a", {"a": 1})  # type: ignore[arg-type]

    result = await ask(make_runner(clerk, artifacts=InMemoryArtifactStore()), "hi")
    assert result.error is not None
    assert "The artifact 'a' is a dict. Save text, bytes, a TextPart or a BlobPart." in result.error.message


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("nested", [False, True])
async def test_data_that_json_cannot_write_is_refused(make_runner: MakeRunner, number: float, nested: bool) -> None:
    """It would be read back as something else, or not at all."""

    @agent
    def clerk(message: str) -> Any:
        return "fine" if message == "again" else {"a": [number]} if nested else {"a": number}

    runner = make_runner(clerk)
    result = await ask(runner, "hi")
    assert result.error is not None
    assert result.error.message == "'clerk' said data with NaN or an infinite number, which JSON cannot write."
    assert (await ask(runner, "again")).text == "fine"
