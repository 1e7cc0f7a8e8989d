"""What a chat completion looks like on the wire. Every field of OpenAI's is there, null where we have nothing to say."""

from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from turnwise.gateway.speech.record import Behind

Finish = Literal["stop", "length", "tool_calls", "content_filter"]


class Function(BaseModel):
    name: str
    arguments: str


class Call(BaseModel):
    """A call whose result is awaited from the caller."""

    id: str
    type: Literal["function"] = "function"
    function: Function


class Said(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    annotations: list[JsonValue] = []
    audio: None = None
    function_call: None = None
    tool_calls: list[Call] | None = None


class Choice(BaseModel):
    index: Literal[0] = 0
    message: Said
    logprobs: None = None
    finish_reason: Finish


class PromptTokens(BaseModel):
    audio_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: None = None
    image_tokens: None = None
    text_tokens: None = None


class CompletionTokens(BaseModel):
    accepted_prediction_tokens: int = 0
    audio_tokens: int = 0
    reasoning_tokens: int = 0
    rejected_prediction_tokens: int = 0
    text_tokens: None = None


class Usage(BaseModel):
    """What the models of the agents took, as far as they said; zeros where none was asked."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptTokens = PromptTokens()
    completion_tokens_details: CompletionTokens = CompletionTokens()


class Head(BaseModel):
    """What a completion and its chunks have in common."""

    id: str
    created: int
    model: str
    service_tier: None = None
    system_fingerprint: str | None = None


class ChatCompletion(Head):
    """system_fingerprint: of the policy that decided who answers."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[Choice]
    usage: Usage
    metadata: dict[str, str] | None = None
    moderation: None = None
    turnwise: Behind


class ChunkChoice(BaseModel):
    """delta: what comes next; what is not in it has not changed."""

    index: Literal[0] = 0
    delta: dict[str, Any]
    logprobs: None = None
    finish_reason: Finish | None = None


class Chunk(Head):
    """`turnwise` is in the one with the finish_reason."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]
    moderation: None = None
    obfuscation: None = None
    turnwise: Behind | None = None
    usage: Usage | None = None
