"""How a run ends. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from turnwise.facts.events import LIMIT, Event
from turnwise.facts.usage import Usage
from turnwise.gateway.ag_ui.wire import Wire
from turnwise.gateway.speech.record import GOOD
from turnwise.runner import Result


def is_failed(result: Result) -> bool:
    """Whether the answer failed: it did not if it was stopped, by whomever, or waits."""
    reason = result.end.reason if result.end else ""
    return bool(reason) and reason not in GOOD and not is_stopped(result)


def is_stopped(result: Result) -> bool:
    """Whether the answer was stopped before it was whole: by somebody, or by a limit."""
    reason = result.end.reason if result.end else ""
    return reason == "cancelled" or (reason.startswith(LIMIT) and reason not in GOOD)


def outcome_of(result: Result | None, interrupts: Sequence[Wire], pending: Sequence[str]) -> Wire:
    """The outcome of a run that did not fail. result: None = nothing was answered. pending: calls without a result."""
    if result is not None and is_stopped(result):
        return {"type": "cancelled"}
    if interrupts:
        return {"type": "interrupt", "interrupts": list(interrupts)}
    return {"type": "success", **({"pendingToolCallIds": list(pending)} if pending else {})}


def usage_of(events: Iterable[Event]) -> list[Wire] | None:
    """What models took for these events, model by model, as far as they said; None when they said nothing."""
    used: dict[str, Usage] = {}
    for event in events:
        usage = event.actions.usage
        if usage is not None:
            used[usage.model] = used[usage.model] + usage if usage.model in used else usage
    return [entry for entry in map(_entry, used.values()) if "totalTokens" in entry] or None


def _entry(usage: Usage) -> Wire:
    provider, _, model = usage.model.rpartition(":")
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cachedInputTokens": usage.cached_tokens,
    }
    known: dict[str, Any] = {"provider": provider, "model": model, **counts}
    return {name: value for name, value in known.items() if value}
