"""What spans are called and say: the names of OpenTelemetry's conventions for generative AI, and ours beside them.

The conventions are not stable yet. They are written out here, so that a newer release of OpenTelemetry's package, where the
constants stand in a private module, cannot rename what is sent.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from turnwise.facts.content import Content, TextPart, ToolCallPart
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.limits import Limits
from turnwise.facts.selections import Selection
from turnwise.facts.usage import Usage

Value = str | bool | int | float | Sequence[str] | Sequence[float]
Attributes = dict[str, Value]

MESSAGE, STEP, SELECTION = "turnwise.message", "turnwise.step", "turnwise.selection"
OPERATION, AGENT, CONVERSATION = "gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id"
PROVIDER, REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"
TOKEN_TYPE = "gen_ai.token.type"
ERROR = "error.type"
END, ATTEMPT = "turnwise.end", "turnwise.attempt"
CANDIDATES = 10
"""How many candidates of a decision are told."""

# By the names that models go by here; the others are called as they are.
_PROVIDERS: Mapping[str, str] = {
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "grok": "x_ai",
    "xai": "x_ai",
    "moonshotai": "moonshot_ai",
}


def decision_attributes(selection: Selection, *, content: bool) -> Attributes:
    """A decision, as attributes of a span or of an event of one. Its reason may hold what the user said."""
    about: Attributes = {
        "turnwise.selection.agent": selection.agent,
        "turnwise.selection.method": selection.method,
        "turnwise.selection.confidence": selection.confidence,
        "turnwise.selection.outcome": selection.outcome,
        "turnwise.selection.occasion": selection.occasion,
        "turnwise.selection.policy": selection.policy,
        "turnwise.selection.ms": selection.ms,
    }
    if selection.fingerprint:
        about["turnwise.selection.fingerprint"] = selection.fingerprint
    if selection.segment is not None:
        about["turnwise.selection.segment"] = selection.segment
    if content:
        about["turnwise.selection.reason"] = selection.reason
    return about


def cascade_attributes(selection: Selection) -> Attributes:
    """How a decision came about: the selectors in their order, and the candidates of who decided."""
    last = selection.verdicts[-1] if selection.verdicts else None
    candidates = last.candidates[:CANDIDATES] if last else ()
    return {
        "turnwise.selection.selectors": [verdict.selector for verdict in selection.verdicts],
        "turnwise.selection.selector_ms": [verdict.ms for verdict in selection.verdicts],
        "turnwise.selection.candidates": [candidate.agent for candidate in candidates],
        "turnwise.selection.scores": [candidate.score for candidate in candidates],
        "turnwise.selection.excluded": selection.excluded_count,
    }


def model_attributes(usage: Usage) -> Attributes:
    """Who answered, as metrics are told apart by it, too; without a model's name when several are summed up."""
    about: Attributes = {OPERATION: "chat"}
    provider, colon, model = usage.model.partition(":")
    if not colon:
        provider, model = "", usage.model
    if provider:
        about[PROVIDER] = _PROVIDERS.get(provider, provider)
    if model:
        about[REQUEST_MODEL] = about[RESPONSE_MODEL] = model
    return about


def usage_attributes(usage: Usage) -> Attributes:
    """What one answer took."""
    about: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        about["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.calls != 1:
        about["turnwise.model.calls"] = usage.calls
    if usage.cost is not None:
        about["turnwise.model.cost_dollars"] = usage.cost
    return about


def tool_call_attributes(call_id: str, tool: str) -> Attributes:
    """A tool's call."""
    return {
        OPERATION: "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
    }


def message_attributes(name: str, event: Event) -> Attributes:
    """What an event says, as `gen_ai.input.messages` or `gen_ai.output.messages`; nothing when it says nothing."""
    parts = _parts(event.content) if event.content else []
    if not parts:
        return {}
    role = "user" if name == "input" else "assistant"
    return {f"gen_ai.{name}.messages": as_json([{"role": role, "parts": parts}])}


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parts(content: Content) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    for part in content.parts:
        if isinstance(part, TextPart):
            parts.append({"type": "text", "content": part.text})
        elif isinstance(part, ToolCallPart):
            parts.append({"type": "tool_call", "id": part.call_id, "name": part.tool, "arguments": part.arguments})
    return parts


OTHER = "other"
MOST, CHARACTERS = 100, 100

ENDS = ("completed", "clarify", "failed", "cancelled", "blocked", "loop", "waiting", "lost")


class LabelSet:
    """Lets known values through, and the first `more` others; the rest is OTHER."""

    def __init__(self, known: Iterable[str] = (), *, more: int = 0) -> None:
        self._let = set(known)
        self._more = more

    def of(self, value: str) -> str:
        """The value as a label."""
        value = value[:CHARACTERS]
        if value in self._let:
            return value
        if self._more <= 0:
            return OTHER
        self._more -= 1
        self._let.add(value)
        return value


def end_labels() -> LabelSet:
    """How invocations end, and how they are left."""
    return LabelSet((*ENDS, *(f"limit:{which}" for which in Limits.model_fields)))


def error_code_labels() -> LabelSet:
    """The codes of our errors, and of those that are made of them."""
    return LabelSet(_codes(TurnwiseError))


def _codes(kind: type[TurnwiseError]) -> Iterator[str]:
    yield kind.code
    for below in kind.__subclasses__():
        yield from _codes(below)
