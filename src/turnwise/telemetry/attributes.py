"""Names and attributes of spans: OpenTelemetry's conventions for generative AI, and our own beside them.

The conventions are not stable yet. They are written out here, so that a newer OpenTelemetry release cannot rename what is
sent: its constants are in a private module.
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
"""Most candidates of a decision that a span holds."""

# From the provider names of model specs to those of the conventions; other names stay as they are.
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
    """Returns the attributes of a decision. With `content` they hold its reason, which may quote the user."""
    attributes: Attributes = {
        "turnwise.selection.agent": selection.agent,
        "turnwise.selection.method": selection.method,
        "turnwise.selection.confidence": selection.confidence,
        "turnwise.selection.outcome": selection.outcome,
        "turnwise.selection.occasion": selection.occasion,
        "turnwise.selection.policy": selection.policy,
        "turnwise.selection.ms": selection.ms,
    }
    if selection.fingerprint:
        attributes["turnwise.selection.fingerprint"] = selection.fingerprint
    if selection.segment is not None:
        attributes["turnwise.selection.segment"] = selection.segment
    if content:
        attributes["turnwise.selection.reason"] = selection.reason
    return attributes


def cascade_attributes(selection: Selection) -> Attributes:
    """Returns how a decision was made: the selectors in order, and the candidates of the deciding selector."""
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
    """Returns the provider and the model of a call, also used as metric labels. Without a model when several are summed up."""
    attributes: Attributes = {OPERATION: "chat"}
    provider, colon, model = usage.model.partition(":")
    if not colon:
        provider, model = "", usage.model
    if provider:
        attributes[PROVIDER] = _PROVIDERS.get(provider, provider)
    if model:
        attributes[REQUEST_MODEL] = attributes[RESPONSE_MODEL] = model
    return attributes


def usage_attributes(usage: Usage) -> Attributes:
    """Returns the tokens, calls and cost of one model answer."""
    attributes: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.calls != 1:
        attributes["turnwise.model.calls"] = usage.calls
    if usage.cost is not None:
        attributes["turnwise.model.cost_dollars"] = usage.cost
    return attributes


def tool_call_attributes(call_id: str, tool: str) -> Attributes:
    """Returns the attributes of a tool call."""
    return {
        OPERATION: "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
    }


def message_attributes(name: str, event: Event) -> Attributes:
    """Returns an event's content as `gen_ai.<name>.messages` (`input` or `output`); empty without content."""
    parts = _parts(event.content) if event.content else []
    if not parts:
        return {}
    role = "user" if name == "input" else "assistant"
    return {f"gen_ai.{name}.messages": as_json([{"role": role, "parts": parts}])}


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parts(content: Content) -> list[dict[str, object]]:
    """Returns texts and tool calls in the form of OpenTelemetry's message attributes."""
    parts: list[dict[str, object]] = []
    for part in content.parts:
        if isinstance(part, TextPart):
            parts.append({"type": "text", "content": part.text})
        elif isinstance(part, ToolCallPart):
            parts.append({"type": "tool_call", "id": part.call_id, "name": part.tool, "arguments": part.arguments})
    return parts


OTHER = "other"
"""Stands for all label values beyond the limit."""
MAX_LABELS, LABEL_CHARACTERS = 100, 100
"""Most different values, and most characters, of a label."""

ENDS = ("completed", "clarify", "failed", "cancelled", "blocked", "loop", "waiting", "lost")
"""How invocations end or pause, apart from limits."""


class LabelSet:
    """Bounds the values of a metric label: known values and the first `more` others pass, all further ones become `OTHER`."""

    def __init__(self, known: Iterable[str] = (), *, more: int = 0) -> None:
        self._allowed = set(known)
        self._more = more

    def of(self, value: str) -> str:
        """Returns the value as a label."""
        value = value[:LABEL_CHARACTERS]
        if value in self._allowed:
            return value
        if self._more <= 0:
            return OTHER
        self._more -= 1
        self._allowed.add(value)
        return value


def end_labels() -> LabelSet:
    """Returns the labels of how invocations end or pause."""
    return LabelSet((*ENDS, *(f"limit:{which}" for which in Limits.model_fields)))


def error_code_labels() -> LabelSet:
    """Returns the labels of error codes."""
    return LabelSet(_codes(TurnwiseError))


def _codes(error: type[TurnwiseError]) -> Iterator[str]:
    yield error.code
    for subclass in error.__subclasses__():
        yield from _codes(subclass)
