from typing import Any

import pytest
from tool_play import called, turn

from turnwise import AgentContext, Limits, RunConfig
from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.tools.built_in import ArtifactTools

Calls = list[tuple[str, dict[str, Any]]]


async def told(toolset: ArtifactTools, calls: Calls, **options: Any) -> list[Any]:
    """What the model is told of these calls in one turn."""
    results: list[Any] = []

    async def work(context: AgentContext) -> str:
        await context.artifacts.save("photo.png", b"\x89PNG\xff", mime_type="image/png") if "artifacts" in options else None
        tools = {tool.spec.name: tool for tool in await toolset.tools(context)}
        for name, arguments in calls:
            try:
                results.append(await called(tools[name], context, **arguments))
            except ToolFailed as failed:
                results.append(str(failed))
        return "done"

    assert (await turn(work, **options)).text == "done"
    return results


async def test_files_are_saved_listed_and_read() -> None:
    calls: Calls = [
        ("save_artifact", {"name": "a.txt", "text": "one"}),
        ("save_artifact", {"name": "a.txt", "text": "zwölf", "mime_type": "text/markdown"}),
        ("list_artifacts", {}),
        ("load_artifact", {"name": "a.txt"}),
        ("load_artifact", {"name": "a.txt", "version": 1}),
        ("load_artifact", {"name": "photo.png"}),
    ]
    first, second, listed, latest, old, photo = await told(ArtifactTools(), calls, artifacts=InMemoryArtifactStore())
    assert first == {"name": "a.txt", "version": 1, "mime_type": "text/plain", "size": 3}
    assert second["size"] == 6
    assert [info["name"] for info in listed["artifacts"]] == ["a.txt", "photo.png"]
    assert (latest["text"], latest["mime_type"], old["text"]) == ("zwölf", "text/markdown", "one")
    assert photo["note"] == "This is no text and cannot be shown."


async def test_long_texts_are_read_in_pieces() -> None:
    calls: Calls = [
        ("save_artifact", {"name": "a.txt", "text": "0123456789"}),
        ("load_artifact", {"name": "a.txt"}),
        ("load_artifact", {"name": "a.txt", "start": 8}),
        ("load_artifact", {"name": "a.txt", "start": 99}),
    ]
    _, first, rest, beyond = await told(ArtifactTools(characters=8), calls, artifacts=InMemoryArtifactStore())
    assert (first["text"], first["next_start"]) == ("01234567", 8)
    assert (rest["text"], "next_start" in rest) == ("89", False)
    assert beyond["text"] == ""


async def test_many_files_are_not_all_listed() -> None:
    calls: Calls = [("save_artifact", {"name": f"{n}.txt", "text": ""}) for n in range(205)]
    listed = (await told(ArtifactTools(), [*calls, ("list_artifacts", {})], artifacts=InMemoryArtifactStore()))[-1]
    assert (len(listed["artifacts"]), listed["not_listed"]) == (200, 6)


async def test_what_cannot_be_done_is_told() -> None:
    config = RunConfig(limits=Limits(blob_bytes=10))
    calls: Calls = [
        ("save_artifact", {"name": "a.txt", "text": "x" * 11}),
        ("save_artifact", {"name": "../a.txt", "text": "x"}),
        ("save_artifact", {"name": "a.txt", "text": "x", "mime_type": ""}),
        ("load_artifact", {"name": "a.txt"}),
        ("load_artifact", {"name": "photo.png", "version": 7}),
        ("load_artifact", {"name": "../a.txt"}),
        ("load_artifact", {"name": "photo.png", "start": -1}),
    ]
    results = await told(ArtifactTools(), calls, artifacts=InMemoryArtifactStore(), config=config)
    words = [
        "11 bytes",
        "part that is empty",
        "MIME type",
        "no artifact 'a.txt'",
        "no version 7",
        "part that is empty",
        "'start'",
    ]
    assert [part in result for part, result in zip(words, results, strict=True)] == [True] * len(words)


async def test_without_a_store_every_call_says_so() -> None:
    calls: Calls = [("list_artifacts", {}), ("load_artifact", {"name": "a"}), ("save_artifact", {"name": "a", "text": "a"})]
    assert all("no artifact store" in result for result in await told(ArtifactTools(), calls))


async def test_a_model_may_be_kept_from_saving() -> None:
    toolset = ArtifactTools(saving=False)
    assert [tool.spec.name for tool in await toolset.tools(None)] == ["list_artifacts", "load_artifact"]  # type: ignore[arg-type]
    await toolset.close()
    with pytest.raises(ConfigError):
        ArtifactTools(characters=0)
