"""Files that become artifacts (A26, A27), and guardrails (A10, A18, C13)."""

from collections.abc import Callable

import pytest
from runner_play import ask, key

from turnwise import AgentContext, Content, RunConfig, Runner, agent
from turnwise.facts.content import ArtifactPart, BlobPart, TextPart, text_content
from turnwise.facts.errors import StoreFull
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.fakes import FunctionGuardrail

MakeRunner = Callable[..., Runner]
SAVE = RunConfig(save_input_blobs_as_artifacts=True)


def with_file() -> Content:
    return Content(parts=(TextPart(text="see file"), BlobPart(data=b"pdf", mime_type="application/pdf", name="receipt.pdf")))


@agent
async def reads(message: Content, context: AgentContext) -> str:
    names = [info.name for info in await context.artifacts.list()]
    return f"{message.text} | {names}"


async def test_blobs_become_artifacts(make_runner: MakeRunner) -> None:
    """A26: all parts are counted; A27: the version is on the user event, the caller's object untouched."""
    artifacts = InMemoryArtifactStore()
    runner = make_runner(reads, artifacts=artifacts)
    mine = with_file()
    result = await ask(runner, mine, config=SAVE)
    name = f"artifact_{result.invocation_id}_1"
    assert result.text == f"see file\nUploaded file: {name}. It has been saved to the artifacts | ['{name}']"
    assert result.events[0].actions.artifact_versions == {name: 1}
    assert mine == with_file()
    assert result.events[0].content is not None
    assert result.events[0].content.parts[-1] == ArtifactPart(
        name=name, version=1, mime_type="application/pdf", title="receipt.pdf"
    )
    saved = await artifacts.load(key(), name)
    assert saved is not None
    assert (saved.data, saved.info.mime_type) == (b"pdf", "application/pdf")


async def test_without_an_artifact_store_nothing_happens(make_runner: MakeRunner) -> None:
    """A26."""

    @agent
    async def counts(message: Content) -> str:
        return str([part.kind for part in message.parts])

    assert (await ask(make_runner(counts), with_file(), config=SAVE)).text == "['text', 'blob']"


class FullArtifacts(InMemoryArtifactStore):
    async def save(self, *_: object, **__: object) -> None:  # type: ignore[override]
        raise StoreFull("No space.")


async def test_a_save_error_fails_before_the_message_is_stored(make_runner: MakeRunner) -> None:
    """A26."""
    runner = make_runner(reads, artifacts=FullArtifacts())
    with pytest.raises(StoreFull):
        await runner.start(with_file(), user="ada", session="s", config=SAVE)
    assert await runner.store.open(key()) is None


async def test_what_an_agent_saves_is_on_its_event(make_runner: MakeRunner) -> None:
    @agent
    async def writes(context: AgentContext) -> str:
        await context.artifacts.save("note.txt", b"1")
        await context.artifacts.save("note.txt", b"2")
        return "saved"

    result = await ask(make_runner(writes, artifacts=InMemoryArtifactStore()), "x")
    assert result.events[-1].actions.artifact_versions == {"note.txt": 2}


async def test_an_app_without_artifacts_says_so(make_runner: MakeRunner) -> None:
    result = await ask(make_runner(reads), "x")
    assert result.error is not None
    assert "artifact store" in result.error.message


def judge(place: str, text: str) -> GuardrailVerdict | None:
    if "forbidden" in text:
        return GuardrailVerdict("block", reason="This is not answered.")
    if "secret" in text:
        return GuardrailVerdict("rewrite", content=text_content(text.replace("secret", "***")))
    return None


@agent
async def echo(message: str) -> str:
    return message if message != "leak" else "a secret and " + message


async def test_messages_and_answers_can_be_rewritten(make_runner: MakeRunner) -> None:
    """C13."""
    runner = make_runner(echo, guardrails=[FunctionGuardrail("words", judge)])
    assert (await ask(runner, "my secret")).text == "my ***"
    assert (await ask(runner, "leak")).text == "a *** and leak"
    assert all("secret" not in e.text for e in await runner.store.events(key()))


async def test_a_blocked_answer_does_not_make_its_author_the_one_to_resume(make_runner: MakeRunner) -> None:
    """A10, C13: and the user is told."""

    @agent(patterns=["bad"])
    async def bad(context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("forbidden words")

    @agent(children=[bad])
    async def front() -> str:
        return "front"

    runner = make_runner(front, guardrails=[FunctionGuardrail("words", judge)])
    live = [e async for e in runner.run("be bad", user="ada", session="s")]
    assert [e.text for e in live if e.author == "bad" and e.text] == ["This is not answered."]
    assert [e.actions.blocked_by for e in live if e.actions.blocked_by] == ["words"]
    assert (await ask(runner, "hello")).text == "front"
