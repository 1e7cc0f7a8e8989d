"""Traces for OpenTelemetry: one for each message, made of what is stored, and what models took as metrics."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context as otel
from opentelemetry import metrics, propagate, trace
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
"""How many messages that wait, or were begun again, are remembered, so that what goes on with them can point to them."""
SUPERSEDED, UNFINISHED = "superseded", "unfinished"
"""Ends of spans that no invocation has: it is run again; or whoever watches was closed before it ended."""
DURATIONS = tuple(0.01 * 2**power for power in range(14))
TOKENS = tuple(4**power for power in range(14))

_InvocationRef = tuple[SessionKey, str]


class Spans:
    """Makes spans of what a runner stores, as one of its hooks.

    tracers, meters: where spans and metrics go; None = to whatever the program has set up for OpenTelemetry. content: whether
    spans hold what users, agents and tools said, and the reasons of decisions, which may quote it. clock: nanoseconds since
    1970, for tests.
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
        self._before: dict[_InvocationRef, SpanContext] = {}
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
        """Nothing: the event that holds the decision says it."""

    async def stored(self, key: SessionKey, event: Event) -> None:
        place = key, event.invocation_id
        again = event.attempt > 1 and event.actions.rewind is not None
        if again or (event.author == USER and (event.actions.selection or event.actions.end)):
            self._leave(place, SUPERSEDED)
            self._open[place] = self._begin(place, event)
            return
        open_ = self._open.get(place)
        if open_ is not None:
            open_.take(event, self._clock())
        elif event.actions.end is not None:
            # It had waited, or was left by a process that died, and is not gone on with.
            self._open[place] = self._begin(place, event)

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        self._leave((key, invocation_id), reason)

    def close(self) -> None:
        """Ends what is still open. Idempotent."""
        for place in list(self._open):
            self._leave(place, UNFINISHED)

    def _begin(self, place: _InvocationRef, event: Event) -> Trace:
        key, invocation = place
        at, selection = nanoseconds(event.created_at), event.actions.selection
        began = at - int(selection.ms * 1_000_000) if selection is not None else at
        described: names.Attributes = {
            names.CONVERSATION: key.id,
            "turnwise.app": key.app,
            "turnwise.invocation.id": invocation,
            names.ATTEMPT: event.attempt,
        }
        decision = names.decision_attributes(selection, content=self._content) if selection is not None else {}
        described |= decision
        if self._content and event.author == USER:
            described |= names.message_attributes("input", event)
        root = self._root(place, described, began, mine=event.author == USER)
        if selection is None:
            turn = event.author if event.actions.end is None else None
        else:
            turn = selection.agent if selection.outcome == "chosen" else None
            root.add_event(names.SELECTION, decision | names.cascade_attributes(selection), at)
        begun = Trace(self._tracer, root, at, session=key.id, turn=turn, count=self._count, content=self._content)
        for verdict in selection.verdicts if selection is not None else ():
            if verdict.usage is not None:
                begun.asked(verdict.usage, at)
        return begun

    def _root(self, place: _InvocationRef, described: names.Attributes, began: int, *, mine: bool) -> Span:
        """The span of the whole message, below what its sender was doing; it points to what the invocation did before."""
        before = self._before.pop(place, None)
        links = [Link(before)] if before is not None else []
        parent = otel.get_current() if mine and log_context().sent_here else otel.Context()
        return self._tracer.start_span(names.MESSAGE, parent, attributes=described, links=links, start_time=max(began, 0))

    def _leave(self, place: _InvocationRef, reason: str) -> None:
        open_ = self._open.pop(place, None)
        if open_ is None:
            return
        open_.end(reason)
        if reason in ("waiting", SUPERSEDED):
            self._before[place] = open_.root.get_span_context()
            if len(self._before) > REMEMBERED:
                self._before.pop(next(iter(self._before)), None)

    def _count(self, usage: Usage) -> None:
        model = names.model_attributes(usage)
        self._tokens.record(usage.input_tokens, {**model, names.TOKEN_TYPE: "input"})
        self._tokens.record(usage.output_tokens, {**model, names.TOKEN_TYPE: "output"})
        if usage.calls == 1:
            self._durations.record(usage.ms / 1000, model)


@contextmanager
def join_trace(headers: Mapping[str, str]) -> Iterator[None]:
    """In the block, spans belong to the trace that a request's headers name (W3C trace context), if they do. `headers` are
    found by names in small letters.
    """
    token = otel.attach(propagate.extract(headers))
    try:
        yield
    finally:
        otel.detach(token)
