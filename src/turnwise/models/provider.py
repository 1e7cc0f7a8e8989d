"""Models of all providers through `pydantic_ai.direct`. Only this file depends on that library.

It converts our messages to the library's, its replies to ours, and its errors to the three kinds of ModelError. The agent
loop, the tools, the log and the retries are ours; the library's own retries are off.
"""

import asyncio
import importlib.util
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from pydantic import JsonValue
from pydantic_core import from_json, to_json, to_jsonable_python

from turnwise.facts.content import (
    BlobPart,
    Content,
    Part,
    Seal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.errors import ConfigError, MissingExtra, ModelAnswerInvalid, ModelError, ModelRefused, ModelUnavailable
from turnwise.facts.usage import Usage
from turnwise.models.outgoing import WireIds, loop_local, outgoing
from turnwise.ports.model import LENGTH, ModelPiece, ModelReply, ModelRequest

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.exceptions import ModelAPIError
    from pydantic_ai.models import Model as TheirModel, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_LONG_CHARACTERS = 100_000
"""A streamed answer of this many characters or more is put together in a thread."""
_COMMON_PROVIDERS = ("openai", "anthropic", "google")
_TRANSIENT_STATUSES = {408, 409, 425, 429}
_SEAL_FIELDS = ("id", "signature", "provider_details")
_INVALID_ARGUMENTS = "INVALID_JSON"  # arguments have to be an object when they go back
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)`")


class ProviderModel:
    """A model of a provider, or at an endpoint that speaks OpenAI's chat completions.

    It connects at the first call and reads its key from the environment then. Equal models share their connections, per event
    loop. The key is in no message and no repr.

    Args:
        model: `provider:model`; with `url` only the model's name.
        url: The base URL of an endpoint.
        key: The endpoint's key.

    Raises:
        ConfigError: The provider is unknown.
        MissingExtra: The extra `llm` is not installed.
    """

    def __init__(self, model: str, *, url: str = "", key: str = "") -> None:
        if importlib.util.find_spec("pydantic_ai") is None:
            raise MissingExtra(f"The model {model!r}", "llm")
        self._model, self._url, self._key = model, url, key
        self._provider = (urlsplit(url).hostname or "") if url else _provider(model)
        self._name = f"{self._provider}:{model}" if url else model

    def __repr__(self) -> str:
        return f"ProviderModel({self._name!r})"

    @property
    def name(self) -> str:
        """`provider:model`. For an endpoint the host takes the provider's place."""
        return self._name

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        """Calls the model and yields pieces, then the reply. Raises ModelError."""
        try:
            model = await self._connect()
            began = time.perf_counter()
            history = _history(request, model.system)
            async with aclosing(self._responses(model, history, request, stream=stream)) as responses:
                async for answer in responses:
                    if isinstance(answer, ModelPiece):
                        yield answer
                        continue
                    usage = _usage(answer, self._name, (time.perf_counter() - began) * 1000)
                    yield _reply(answer, usage, model.system)
        except (ModelError, ConfigError):
            raise
        except Exception as error:
            raise self._failure(error) from (None if _is_authentication_error(error) else error)

    async def _responses(
        self, model: "TheirModel", history: "Sequence[theirs.ModelMessage]", request: ModelRequest, *, stream: bool
    ) -> "AsyncGenerator[ModelPiece | theirs.ModelResponse, None]":
        """Calls the library, and yields pieces if streamed, and at last the complete response."""
        from pydantic_ai.direct import model_request, model_request_stream

        settings, tools = self._settings(request, model), _parameters(request)
        if not stream:
            yield await model_request(model, history, model_settings=settings, model_request_parameters=tools, instrument=False)
            return
        async with model_request_stream(
            model, history, model_settings=settings, model_request_parameters=tools, instrument=False
        ) as events:
            pieces, characters = _Pieces(), 0
            async for event in events:
                if piece := pieces.of(event):
                    characters += len(piece.text)
                    yield piece
        # The library searches the whole text again, which would hold the event loop.
        yield events.get() if characters < _LONG_CHARACTERS else await asyncio.to_thread(events.get)

    async def _connect(self) -> "TheirModel":
        try:
            return await loop_local((self._model, self._url, self._key), self._create)
        except ImportError as error:
            raise ConfigError(f"{self._name} needs a library that is not installed.", fix=f"{error}.") from error

    def _create(self) -> "TheirModel":
        """Creates the library's model for the name, URL and key."""
        from pydantic_ai.models import infer_model

        if self._url:
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            endpoint = OpenAICompatibleProvider(self._provider, base_url=self._url, api_key=self._key or None)
            return _chat(self._model, endpoint)
        elsewhere = urlsplit(os.environ.get("OPENAI_BASE_URL", "")).hostname
        if self._provider == "openai" and elsewhere and not elsewhere.endswith("openai.com"):
            return _chat(self._model.partition(":")[2], "openai")  # compatible servers speak this protocol
        return infer_model(self._model)

    def _settings(self, request: ModelRequest, model: "TheirModel") -> "ModelSettings":
        """Returns the request's settings, without the provider's own retries and storage."""
        settings: dict[str, Any] = {} if "max_retries" in model.unsupported_settings else {"max_retries": 0}
        if type(model).__name__ == "OpenAIResponsesModel":
            settings["openai_store"] = False  # our log is the only copy: their stored ids expire
        settings |= request.settings
        if request.tools and request.choice != "auto":
            settings["tool_choice"] = request.choice
        return cast("ModelSettings", settings)

    def _failure(self, error: Exception) -> ModelError:
        """Returns the library's error as one of ours. A provider's message may quote the conversation, so it stays in the
        cause.
        """
        from pydantic_ai import exceptions as theirs

        if isinstance(error, theirs.ModelAPIError):
            return self._refusal(error) or ModelUnavailable(
                f"{self._name} is not available: {_error_kinds(error)}.",
                fix="Try again later, or name a second model as a fallback.",
                retry_after=error.retry_after,
            )
        if isinstance(error, theirs.ContentFilterError):
            return _filtered(self._name)
        if isinstance(error, theirs.AgentRunError):
            problem = f"{self._name} gave an answer that cannot be read: {type(error).__name__}."
            return ModelAnswerInvalid(problem, fix="The cause of this error says more.")
        if isinstance(error, theirs.UserError) and (missing := _VARIABLE.findall(str(error))):
            return ModelRefused(f"{self._name} cannot be asked.", fix=f"Set {' or '.join(missing)} in the environment.")
        problem = f"{self._name} cannot be asked this: {type(error).__name__}."
        return ModelRefused(
            problem, fix="The cause of this error says why: a file, a setting or a schema that it does not take."
        )

    def _refusal(self, error: "ModelAPIError") -> ModelRefused | None:
        """Returns the error for a request that the provider refuses for good; None for other errors."""
        from pydantic_ai import exceptions as theirs

        status = getattr(error, "status_code", None)
        if isinstance(error, theirs.ModelAuthenticationError):
            fix = f"Check the key {self._key_place()}, and what it may use."
        elif isinstance(error, theirs.ModelNotFoundError):
            fix = "Check the model's name and the URL."
        elif isinstance(error, theirs.ModelQuotaExceededError):
            fix = "Its account has nothing left to spend."
        elif isinstance(error, theirs.ModelContextWindowExceededError):
            fix = "The conversation is longer than the model can read: lower its budget of tokens."
        elif status == 413:
            fix = "The request is too large: send smaller files, or fewer."
        elif isinstance(error, theirs.ModelRequestRejectedError) and status not in _TRANSIENT_STATUSES:
            fix = "The cause of this error has the provider's own words."
        else:
            return None
        return ModelRefused(f"{self._name} refused the request: {_error_kinds(error)}.", fix=fix)

    def _key_place(self) -> str:
        if self._url:
            return "of the endpoint"
        vendor = next((usual for usual in _COMMON_PROVIDERS if usual in self._provider), self._provider)
        return f"in {vendor.replace('-', '_').upper()}_API_KEY"


def _provider(model: str) -> str:
    """Returns the provider of `provider:model`. ConfigError for an unknown one."""
    provider, _, name = model.partition(":")
    if provider in _COMMON_PROVIDERS and name:
        return provider
    from pydantic_ai.models import known_model_names
    from pydantic_ai.providers import infer_provider_class

    try:
        if not name:
            raise ValueError
        infer_provider_class(provider)
    except ImportError:
        pass  # a known provider; its missing library is reported at the first call
    except ValueError:
        known = sorted({known.partition(":")[0] for known in known_model_names()} - {"test"})
        fix = f"Write provider:model, where provider is one of {', '.join(known)}, or give a ModelEndpoint."
        raise ConfigError(f"There is no model {model!r}.", fix=fix) from None
    return provider


def _chat(model: str, provider: Any) -> "TheirModel":
    """Returns a model that uses OpenAI's chat completions. A stream without a finish reason counts as broken off."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    return OpenAIChatModel(model, provider=provider, profile=profile)


# --- requests: our messages as the library's


def _parameters(request: ModelRequest) -> "ModelRequestParameters":
    """Returns the tools in the library's form."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=spec.name, parameters_json_schema=dict(spec.parameters), description=spec.description or None)
        for spec in request.tools
    ]
    return ModelRequestParameters(function_tools=tools)


def _history(request: ModelRequest, system: str) -> "list[theirs.ModelMessage]":
    """Returns the conversation in the library's form."""
    from pydantic_ai import messages as theirs

    history: list[theirs.ModelMessage] = []
    ids = WireIds(system)
    # One time for all: the library would ask the clock for each message.
    instructions, sent = request.instructions or None, datetime.now(UTC)
    for content in outgoing(request.messages, system):
        if content.role == "user":
            history.append(theirs.ModelRequest(_request_parts(content, ids, sent), instructions=instructions))
        else:
            said = [_response_part(part, system, ids) for part in content.parts]
            history.append(theirs.ModelResponse(said, provider_name=system, timestamp=sent))
    return history


def _request_parts(content: Content, ids: WireIds, sent: datetime) -> "list[theirs.ModelRequestPart]":
    """Returns the user's parts and tool results in the library's form."""
    from pydantic_ai import messages as theirs

    parts: list[theirs.ModelRequestPart] = []
    said: list[theirs.UserContent] = []
    for part in content.parts:
        match part:
            case ToolResultPart():
                result: Any = "(nothing)" if part.result in ("", None) else part.result
                call_id = ids.of_result(part.call_id)
                outcome: Any = "failed" if part.failed else "success"
                parts.append(theirs.ToolReturnPart(part.tool, result, call_id, outcome=outcome, timestamp=sent))
            case TextPart():
                said.append(part.text)
            case BlobPart():
                said.append(theirs.BinaryContent(part.data, media_type=part.mime_type))
    if said:
        alone = said[0] if len(said) == 1 else None
        parts.append(theirs.UserPromptPart(alone if isinstance(alone, str) else said, timestamp=sent))
    return parts


def _response_part(part: Part, system: str, ids: WireIds) -> "theirs.ModelResponsePart":
    """Returns a part of an earlier answer in the library's form."""
    from pydantic_ai import messages as theirs

    if type(part) is TextPart and part.seal is None:  # the usual part
        return theirs.TextPart(part.text)
    seal = getattr(part, "seal", None)
    sealed: dict[str, Any] = {name: seal.data[name] for name in _SEAL_FIELDS if name in seal.data} if seal else {}
    if sealed:
        sealed["provider_name"] = system
    match part:
        case ToolCallPart():
            arguments = part.arguments if part.raw is None else {_INVALID_ARGUMENTS: part.raw}
            return theirs.ToolCallPart(part.tool, dict(arguments), ids.of_call(part), **sealed)
        case ThinkingPart():
            return theirs.ThinkingPart(part.text, **sealed)
    return theirs.TextPart(getattr(part, "text", ""), **sealed)


# --- replies: the library's messages as ours


class _Pieces:
    """Converts the events of a stream to pieces."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[int, str]] = {}  # by the part's index: the index among the calls, and the tool

    def of(self, event: "theirs.ModelResponseStreamEvent") -> ModelPiece | None:
        """Returns the piece of an event; None for an event without text."""
        from pydantic_ai import messages as theirs

        match event:
            case theirs.PartStartEvent(index=place, part=theirs.TextPart(content=text)):
                return ModelPiece("text", text) if text else None
            case theirs.PartStartEvent(index=place, part=theirs.ThinkingPart(content=text)):
                return ModelPiece("thinking", text) if text else None
            case theirs.PartStartEvent(index=place, part=theirs.ToolCallPart(tool_name=tool, args=more)):
                self._calls[place] = (len(self._calls), tool)
                return self._arguments_piece(place, more)
            case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
                return ModelPiece("text", text) if text else None
            case theirs.PartDeltaEvent(delta=theirs.ThinkingPartDelta(content_delta=thought)):
                return ModelPiece("thinking", thought) if thought else None
            case theirs.PartDeltaEvent(index=place, delta=theirs.ToolCallPartDelta(args_delta=more)):
                return self._arguments_piece(place, more)
        return None

    def _arguments_piece(self, place: int, more: str | Mapping[str, Any] | None) -> ModelPiece | None:
        call, tool = self._calls.get(place, (0, ""))
        text = more if isinstance(more, str | None) else to_json(more).decode()
        return ModelPiece("arguments", text, call, tool) if text else None


def _reply(response: "theirs.ModelResponse", usage: Usage, system: str) -> ModelReply:
    """Converts a response.

    Raises:
        ModelUnavailable: The answer broke off.
        ModelAnswerInvalid: The answer is empty, or the provider's filter cut it.
    """
    if response.finish_reason is None or response.state != "complete":
        raise ModelUnavailable(f"{usage.model} broke off in the middle of its answer.", fix="Ask again.")
    if response.finish_reason == "content_filter":
        raise _filtered(usage.model)
    parts = tuple(part for part in (_part(part, system) for part in response.parts) if part is not None)
    if all(isinstance(part, ThinkingPart) for part in parts):
        fix = "Raise max_tokens." if response.finish_reason == "length" else "Ask again, or ask another model."
        raise ModelAnswerInvalid(f"{usage.model} said nothing.", fix=fix)
    raw = (response.provider_details or {}).get("finish_reason")
    finish = LENGTH if response.finish_reason == "length" else str(raw or response.finish_reason or "")
    return ModelReply(Content(role="agent", parts=parts), usage, finish)


def _part(part: "theirs.ModelResponsePart", system: str) -> Part | None:
    """Returns a part of the response in our form; None for unknown and empty ones."""
    from pydantic_ai import messages as theirs

    match part:
        case theirs.TextPart(content=text):
            return TextPart(text=text, seal=_seal(part, system)) if text else None
        case theirs.ThinkingPart(content=text):
            return ThinkingPart(text=text, seal=_seal(part, system))
        case theirs.ToolCallPart(tool_name=tool, tool_call_id=call_id):
            arguments, raw = _arguments(part.args)
            seal = _seal(part, system, call_id=call_id)
            return ToolCallPart(call_id=call_id, tool=tool, arguments=arguments, raw=raw, seal=seal)
        case theirs.FilePart(content=file):
            return BlobPart(data=file.data, mime_type=file.media_type)
    return None


def _arguments(written: str | Mapping[str, Any] | None) -> tuple[dict[str, JsonValue], str | None]:
    """Returns the arguments. When they are no JSON object, returns an empty dict and the raw text."""
    if not written:
        return {}, None
    if not isinstance(written, str):
        return to_jsonable_python(written), None
    try:
        arguments = from_json(written, allow_inf_nan=False)
    except ValueError:
        return {}, written
    return (arguments, None) if isinstance(arguments, dict) else ({}, written)


def _seal(part: Any, system: str, **more: JsonValue) -> Seal | None:
    fields = {name: getattr(part, name, None) for name in _SEAL_FIELDS}
    data = {**more, **{name: to_jsonable_python(value) for name, value in fields.items() if value}}
    return Seal(provider=system, data=data) if data else None


def _usage(response: "theirs.ModelResponse", name: str, ms: float) -> Usage:
    """Returns the token counts and, if the price is known, the cost."""
    counted = response.usage
    try:
        cost = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # the price is unknown, or the provider sent no counts
        cost = None
    return Usage(
        model=name,
        input_tokens=counted.input_tokens,
        cached_tokens=counted.cache_read_tokens,
        output_tokens=counted.output_tokens,
        cost=cost,
        ms=ms,
    )


def _filtered(name: str) -> ModelAnswerInvalid:
    return ModelAnswerInvalid(f"A filter of the provider stopped {name}.", fix="Ask in other words, or ask another model.")


def _is_authentication_error(error: Exception) -> bool:
    """Returns whether the error concerns the key. Some providers repeat the key in it."""
    from pydantic_ai.exceptions import ModelAuthenticationError

    return isinstance(error, ModelAuthenticationError)


def _error_kinds(error: "ModelAPIError") -> str:
    """Returns the parts of a provider's error that never quote the conversation: its status and codes."""
    kinds = (getattr(error, "status_code", None), error.provider_error_type, error.provider_error_code)
    texts = [str(kind)[:80] for kind in kinds if kind]
    return ", ".join(dict.fromkeys(texts)) or type(error).__name__
