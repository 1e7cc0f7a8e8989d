"""Artifact tools: list, read and save the artifacts of the session."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from turnwise.facts.errors import ArtifactError, ConfigError, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.stores import Artifact
from turnwise.ports.tool import Tool
from turnwise.tools.function import tool

CHARACTERS = 20_000
NAMES_SHOWN = 200

_Name = Annotated[
    str, Field(description="Its name, such as 'report.txt'. All sessions of the user share names that begin with 'user:'.")
]


class ArtifactTools:
    """A toolset for the session's artifacts. Without an artifact store, every call fails with that reason.

    Args:
        characters: The most characters of a text that one call returns.
        saving: Adds the tool that saves artifacts.
    """

    def __init__(self, *, characters: int = CHARACTERS, saving: bool = True) -> None:
        if characters < 1:
            raise ConfigError(f"Artifacts cannot be read in pieces of {characters} characters.", fix="Give 1 or more.")
        self._tools: tuple[Tool, ...] = (list_artifacts, _load_tool(characters), *([save_artifact] if saving else []))

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        return self._tools

    async def close(self) -> None:
        """Does nothing: the toolset holds no resources."""


@tool(description="Lists the files of this conversation.")
async def list_artifacts(context: AgentContext) -> dict[str, Any]:
    try:
        infos = await context.artifacts.list()
    except (ArtifactError, ConfigError) as error:
        raise ToolFailed(str(error)) from None
    result: dict[str, Any] = {"artifacts": [info._asdict() for info in infos[:NAMES_SHOWN]]}
    if len(infos) > NAMES_SHOWN:
        result["not_listed"] = len(infos) - NAMES_SHOWN
    return result


@tool(description="Saves text as a file of this conversation, as a new version if there is one of that name.")
async def save_artifact(
    name: _Name,
    text: Annotated[str, Field(description="All of its text.")],
    context: AgentContext,
    mime_type: str = "text/plain",
) -> dict[str, Any]:
    try:
        return (await context.artifacts.save(name, text.encode(), mime_type=mime_type))._asdict()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"The text cannot be saved: {error}.") from None
    except (ArtifactError, ConfigError) as error:
        raise ToolFailed(str(error)) from None


def _load_tool(characters: int) -> Tool:
    @tool(description=f"Reads a file of this conversation: its text, at most {characters:,} characters at once.")
    async def load_artifact(
        name: _Name,
        context: AgentContext,
        version: Annotated[int | None, Field(ge=1, description="Which version; the latest if left out.")] = None,
        start: Annotated[int, Field(ge=0, description="The character to begin with.")] = 0,
    ) -> dict[str, Any]:
        try:
            artifact = await context.artifacts.load(name, version=version)
        except (ArtifactError, ConfigError) as error:
            raise ToolFailed(str(error)) from None
        if artifact is None:
            which = f"version {version} of {name!r}" if version else f"artifact {name!r}"
            raise ToolFailed(f"There is no {which}.", fix="list_artifacts says what there is.")
        return {**artifact.info._asdict(), **_read(artifact, start, characters)}

    return load_artifact


def _read(artifact: Artifact, start: int, characters: int) -> dict[str, Any]:
    text = _text(artifact.data)
    if text is None:
        return {"note": "This is no text and cannot be shown."}
    rest = len(text) - start - characters
    result: dict[str, Any] = {"text": text[start : start + characters]}
    return {**result, "next_start": start + characters} if rest > 0 else result


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
