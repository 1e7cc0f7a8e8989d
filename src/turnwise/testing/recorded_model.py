"""A model that replays recorded answers of a provider, without network access."""

import hashlib
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from turnwise.facts.content import Content
from turnwise.facts.errors import ConfigError, ModelRefused
from turnwise.facts.usage import Usage
from turnwise.models.by_name import open_answer
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest
from turnwise.testing.telling import stream_reply

_NOT_ASKED = frozenset({"extra_headers", "timeout"})
_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")
_SHORTEST_SECRET = 8


class RecordedModel:
    """Replays the answers recorded in a file of JSON lines. With a `model`, calls it for unknown requests and records its
    answers.

    Equal requests are recognized by all that is sent to the model except tool call ids. A repeated request gets the next answer
    recorded for it, and then the last one again. Errors are not recorded. The file holds only fingerprints of requests. In
    answers, `secrets` and the values of environment variables that look like secrets are replaced by `***`.

    Args:
        path: the file.
        model: None = only replay.
        secrets: texts to replace in recorded answers.

    Raises:
        ModelRefused: for a request without a recorded answer.
        ConfigError: for a file that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model | None = None, *, secrets: Sequence[str] = ()) -> None:
        self._path, self._model = Path(path), model
        self._secrets = sorted({*secrets, *_secrets_of_the_environment()} - {""}, key=len, reverse=True)
        self._lock = threading.Lock()
        self._said: dict[str, list[ModelReply]] = {}
        self._asked: dict[str, int] = {}
        for fingerprint, reply in _read(self._path):
            self._said.setdefault(fingerprint, []).append(reply)

    @property
    def name(self) -> str:
        return self._model.name if self._model is not None else f"recorded:{self._path.stem}"

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        known = fingerprint(request)
        time = self._asked[known] = self._asked.get(known, -1) + 1
        said = self._said.get(known, [])
        if said and (self._model is None or time < len(said)):
            for piece in stream_reply(said[min(time, len(said) - 1)], stream=stream):
                yield piece
            return
        if self._model is None:
            problem = f"{self._path.name} has no answer to this request of {len(request.messages)} messages ({known[:12]})."
            raise ModelRefused(problem, fix="Record it: give RecordedModel the model that shall be asked.")
        async with open_answer(self._model, request, stream=stream) as answer:
            async for piece in answer:
                if isinstance(piece, ModelReply):
                    self._write(known, piece)
                yield piece

    def _write(self, known: str, reply: ModelReply) -> None:
        entry = {
            "request": known,
            "content": reply.content.model_dump(mode="json"),
            "usage": reply.usage.model_dump(mode="json"),
            "finish": reply.finish,
        }
        line = json.dumps(_masked(entry, self._secrets), ensure_ascii=False)
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._said.setdefault(known, []).append(reply)


def fingerprint(request: ModelRequest) -> str:
    """A hash of the request. Equal for requests that send the same to a model."""
    names: dict[str, str] = {}
    told: dict[str, Any] = {
        "messages": [_without_run_ids(content.model_dump(mode="json"), names) for content in request.messages],
        "instructions": request.instructions,
        "tools": [spec.model_dump(mode="json") for spec in request.tools],
        "choice": request.choice,
        "settings": {name: value for name, value in request.settings.items() if name not in _NOT_ASKED},
    }
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _without_run_ids(content: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The content without parts that differ between runs: call ids are numbered in order, and seals are removed."""
    parts = []
    for part in content["parts"]:
        kept = {name: value for name, value in part.items() if name != "seal"}
        if "call_id" in kept:
            kept["call_id"] = names.setdefault(kept["call_id"], f"call-{len(names) + 1}")
        parts.append(kept)
    return {**content, "parts": parts}


def _read(path: Path) -> Iterator[tuple[str, ModelReply]]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            content = Content.model_validate_json(json.dumps(entry["content"]))
            usage = Usage.model_validate_json(json.dumps(entry["usage"]))
            yield str(entry["request"]), ModelReply(content, usage, str(entry["finish"]))
        except (ValueError, KeyError, TypeError) as error:
            problem = f"Line {number} of {path.name} is no recorded answer: {type(error).__name__}."
            raise ConfigError(problem, fix="Remove it, or record anew.") from error


def _secrets_of_the_environment() -> set[str]:
    named = (value for name, value in os.environ.items() if name.upper().endswith(_SECRET_NAMES))
    return {value for value in named if len(value) >= _SHORTEST_SECRET}


def _masked(value: Any, secrets: Sequence[str]) -> Any:
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, "***")
            return value
        case dict():
            return {_masked(name, secrets): _masked(inner, secrets) for name, inner in value.items()}
        case list():
            return [_masked(inner, secrets) for inner in value]
    return value
