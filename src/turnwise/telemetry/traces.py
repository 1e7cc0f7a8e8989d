"""OpenTelemetry traces, one for each message, and metrics of model usage. Both are made from stored events."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context as otel, metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanContext, TracerProvider

from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.usage import Usage
from turnwise.telemetry import attributes as names
from turnwise.telemetry.log_context import log_context
from turnwise.telemetry.trace import Trace, nanoseconds

REMEMBERED = 1_000
"""How many waiting or restarted messages are remembered, so that their next trace links to the previous one."""
SUPERSEDED, UNFINISHED = "superseded", "unfinished"
"""Reasons for the end of a span that no invocation has: the invocation runs again, or the hook was closed first."""
DURATIONS = tuple(0.01 * 2**power for power in range(14))
TOKENS = tuple(4**power for power in range(14))

_InvocationRef = tuple[SessionKey, str]


class Spans:
    """Makes spans of a runner's stored events. It is one of the runner's hooks.

    Args:
        tracers: Where spans go; None = the program's global provider.
        meters: Where metrics go; None = the program's global provider.
        content: Adds messages, answers, tool results and the reasons of decisions to spans.
        clock: Nanoseconds since 1970, for tests.
    """

    def __init__(
        self,
        *,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
        content: bool = False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tracer = trace.get_tracer("turnwise", tracer_provider=tracers)
        self._content, self._clock = content, clock
        self._open: dict[_InvocationRef, Trace] = {}
        self._previous: dict[_InvocationRef, SpanContext] = {}
        meter = metrics.get_meter("turnwise", meter_provider=meters)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """Does nothing: the stored event holds the decision."""

    async def stored(self, key: SessionKey, event: Event) -> None:
        """Begins a trace with a message or another attempt, and adds later events to it."""
        ref = key, event.invocation_id
        is_restart = event.attempt > 1 and event.actions.rewind is not None
        if is_restart or (event.author == USER and (event.actions.selection or event.actions.end)):
            self._end_trace(ref, SUPERSEDED)
            self._open[ref] = self._begin(ref, event)
            return
        trace_ = self._open.get(ref)
        if trace_ is not None:
            trace_.add_event(event, self._clock())
        elif event.actions.end is not None:
            # An invocation that waited, or whose process died, is ended without running again.
            self._open[ref] = self._begin(ref, event)

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        self._end_trace((key, invocation_id), reason)

    def close(self) -> None:
        """Ends all open traces. Idempotent."""
        for ref in list(self._open):
            self._end_trace(ref, UNFINISHED)

    def _begin(self, ref: _InvocationRef, event: Event) -> Trace:
        """Begins the trace of a message, with the decision's attributes."""
        key, invocation = ref
        at, selection = nanoseconds(event.created_at), event.actions.selection
        began = at - int(selection.ms * 1_000_000) if selection is not None else at
        attributes: names.Attributes = {
            names.CONVERSATION: key.id,
            "turnwise.app": key.app,
            "turnwise.invocation.id": invocation,
            names.ATTEMPT: event.attempt,
        }
        decision = names.decision_attributes(selection, content=self._content) if selection is not None else {}
        attributes |= decision
        if self._content and event.author == USER:
            attributes |= names.message_attributes("input", event)
        root = self._root(ref, attributes, began, is_ours=event.author == USER)
        if selection is None:
            turn = event.author if event.actions.end is None else None
        else:
            turn = selection.agent if selection.outcome == "chosen" else None
            root.add_event(names.SELECTION, decision | names.cascade_attributes(selection), at)
        trace_ = Trace(self._tracer, root, at, session=key.id, turn=turn, count=self._count, content=self._content)
        for verdict in selection.verdicts if selection is not None else ():
            if verdict.usage is not None:
                trace_.add_selection_call(verdict.usage, at)
        return trace_

    def _root(self, ref: _InvocationRef, attributes: names.Attributes, began: int, *, is_ours: bool) -> Span:
        """Starts the span of a whole message: a child of the sender's span, linked to the invocation's previous trace."""
        previous = self._previous.pop(ref, None)
        links = [Link(previous)] if previous is not None else []
        parent = otel.get_current() if is_ours and log_context().is_local else otel.Context()
        return self._tracer.start_span(names.MESSAGE, parent, attributes=attributes, links=links, start_time=max(began, 0))

    def _end_trace(self, ref: _InvocationRef, reason: str) -> None:
        """Ends a trace, and remembers it as the one before if the invocation goes on later."""
        trace_ = self._open.pop(ref, None)
        if trace_ is None:
            return
        trace_.end(reason)
        if reason in ("waiting", SUPERSEDED):
            self._previous[ref] = trace_.root.get_span_context()
            if len(self._previous) > REMEMBERED:
                self._previous.pop(next(iter(self._previous)), None)

    def _count(self, usage: Usage) -> None:
        model = names.model_attributes(usage)
        self._tokens.record(usage.input_tokens, {**model, names.TOKEN_TYPE: "input"})
        self._tokens.record(usage.output_tokens, {**model, names.TOKEN_TYPE: "output"})
        if usage.calls == 1:
            self._durations.record(usage.ms / 1000, model)


@contextmanager
def join_trace(headers: Mapping[str, str]) -> Iterator[None]:
    """Makes spans in the block part of the trace that a request's headers name (W3C trace context), if any.

    Args:
        headers: Headers by lower-case name.
    """
    token = otel.attach(propagate.extract(headers))
    try:
        yield
    finally:
        otel.detach(token)
