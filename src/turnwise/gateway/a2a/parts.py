"""What agents and users say, as parts of the protocol. Pure: the files are given."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from a2a.types import Part
from pydantic_core import to_json

from turnwise.facts import content as ours
from turnwise.facts.events import USER, Event
from turnwise.gateway.a2a.json_values import JSON_TYPE, data_part
from turnwise.gateway.redaction import Redactor

TEXT_TYPE = "text/plain"
MOST_INLINE = 2 * 1024 * 1024
"""How many bytes of files an answer holds; of what is more, it says where it is, or only that it is there."""

URL_PREFIXES = ("https://", "http://")
"""How the name of a file begins that is no artifact of ours, but stands there."""

FileId = tuple[str, int | None]
"""An artifact's name, and its version."""


class File(NamedTuple):
    """An artifact. url: where it stands, empty if no URL leads there. data: what it holds; None = it is too large."""

    url: str
    mime_type: str
    data: bytes | None = None


class PartWriter:
    """How one answer shows parts. files: the artifacts that are named in it. modes: the media types that its reader takes; none
    = any.
    """

    def __init__(self, view: Redactor, files: Mapping[FileId, File] | None = None, modes: Iterable[str] = ()) -> None:
        self._view, self._files = view, files or {}
        self._modes = [mode.partition(";")[0].strip().lower() for mode in modes]
        self._left = MOST_INLINE

    def of(self, event: Event) -> list[Part]:
        """What that event says to the reader."""
        content = self._view.event(event).content
        return self.parts(content, results=event.author == USER) if content else []

    def parts(self, content: ours.Content, *, results: bool = False) -> list[Part]:
        """What this says; results: what calls gave among it."""
        shown = (self._part(part, results=results) for part in content.parts)
        return [part for part in shown if part is not None]

    def takes(self, mime_type: str) -> bool:
        """Whether the reader takes that media type."""
        any_of = f"{mime_type.partition('/')[0]}/*"
        return not self._modes or any(mode in (mime_type, any_of, "*", "*/*") for mode in self._modes)

    def _part(self, part: ours.Part, *, results: bool) -> Part | None:
        if isinstance(part, ours.TextPart):
            return Part(text=part.text, media_type=TEXT_TYPE)
        if isinstance(part, ours.BlobPart):
            return self._file(part.data, part.mime_type, part.name or "")
        if isinstance(part, ours.ArtifactPart):
            return self._artifact(part)
        if isinstance(part, ours.DataPart) and not part.private:
            return self._data(part)
        if isinstance(part, ours.ToolResultPart) and results:
            return data_part({"callId": part.call_id, "result": part.result, "failed": part.failed})
        return None

    def _data(self, part: ours.DataPart) -> Part:
        shown = data_part(part.data, part.name or "")
        if shown.HasField("data") and not self.takes(JSON_TYPE) and self.takes(TEXT_TYPE):
            return Part(text=to_json(part.data, inf_nan_mode="null").decode(), media_type=TEXT_TYPE, filename=part.name or "")
        return shown

    def _artifact(self, part: ours.ArtifactPart) -> Part:
        if part.name.startswith(URL_PREFIXES):
            return Part(url=part.name, media_type=part.mime_type or "", filename=part.title or "")
        file, name = self._files.get((part.name, part.version)), part.title or part.name
        if file is not None and file.data is not None and len(file.data) <= self._left:
            return self._file(file.data, file.mime_type, name)
        if file is not None and file.url:
            return Part(url=file.url, media_type=file.mime_type, filename=name)
        return Part(text=f"[file: {name}]", media_type=TEXT_TYPE)

    def _file(self, data: bytes, mime_type: str, name: str) -> Part:
        if len(data) > self._left:
            return Part(text=f"[file: {name or mime_type}, {len(data):,} bytes]", media_type=TEXT_TYPE)
        self._left -= len(data)
        return Part(raw=data, media_type=mime_type, filename=name)


def referenced_files(events: Iterable[Event]) -> list[FileId]:
    """The artifacts that are named in what these events say, each once, but for those that stand somewhere else."""
    parts = (part for event in events if event.content for part in event.content.parts if isinstance(part, ours.ArtifactPart))
    return list(dict.fromkeys((part.name, part.version) for part in parts if not part.name.startswith(URL_PREFIXES)))
