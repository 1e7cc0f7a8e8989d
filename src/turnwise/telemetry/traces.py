"""OpenTelemetry traces, one for each message, and metrics of model usage. Both are made from stored events.

A trace has the spans of one message, with the timestamps of its events:

turnwise.message
├── chat …                 a model call of the selection
└── invoke_agent A         turn 1
    ├── chat …             one answer of A's model
    ├── execute_tool …     a tool call
    ├── turnwise.step      a recorded step of A
    └── invoke_agent B     a nested agent, or one that A called as a tool
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from opentelemetry import context as otel, metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider

from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import LIMIT, USER, Branch, Event, StepRecord, name_of
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.usage import Usage
from turnwise.telemetry import attributes as names
from turnwise.telemetry.attributes import OTHER
from turnwise.telemetry.logs import log_context

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 2**63 - 1
_WORD = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,63}")
_TOOL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_BEGUN = "-begun"
"""Suffix of the recorded id of a call whose result comes later."""
_INTERNAL_STEPS = re.compile(r"(?:later|confirm\?|pool)#")
"""Steps that Turnwise's own agents and flows record for themselves."""

Count = Callable[[Usage], None]


def nanoseconds(moment: datetime) -> int:
    """Returns nanoseconds since 1970, clamped to the range that OpenTelemetry can write.

    An agent may give its events any time. A time out of range would make the export of the whole batch fail.
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max((aware - _EPOCH) // timedelta(microseconds=1) * 1_000, 0), _LATEST)


@dataclass
class _AgentSpan:
    """The span of an agent's run on a branch."""

    span: Span
    agent: str
    reached: int
    """Time of the last known activity of the run or anything it ran."""
    alone: int
    """The same without parallel runs, so that a parallel run does not seem to begin after its sibling ended."""
    chosen: dict[str, int] = field(default_factory=dict)
    """When the run selected each agent to continue with."""


@dataclass
class _ToolSpan:
    """A tool call on a branch. Its span is created when it is needed."""

    tool: str
    branch: Branch
    began: int
    """When the call was made."""
    arguments: str = ""
    done: int | None = None
    """When the call ended; None while it runs."""
    span: Span | None = None


class _PendingTurn(NamedTuple):
    """A turn that has an agent and a start, but no event yet."""

    agent: str
    since: int


class Trace:
    """Builds the spans of one run of a message: from its start or resumption until it ends, pauses or is abandoned.

    Args:
        tracer: Creates the spans.
        root: The span of the message.
        began: When the agent was selected.
        session: The session's id.
        turn: The selected agent; None = none.
        count: Called with the usage of each model call.
        content: Adds messages, answers, arguments and tool results to spans.
    """

    def __init__(
        self, tracer: Tracer, root: Span, began: int, *, session: str, turn: str | None, count: Count, content: bool
    ) -> None:
        self.root, self._latest = root, began
        self._tracer, self._session, self._count, self._content = tracer, session, count, content
        self._next = _PendingTurn(turn, began) if turn is not None else None
        self._has_turns = turn is not None
        self._began = began
        self._runs: dict[Branch, _AgentSpan] = {}
        self._calls: dict[str, _ToolSpan] = {}

    def add_event(self, event: Event, emitted_at: int) -> None:
        """Adds an event. `emitted_at` is the time of the call."""
        at = nanoseconds(event.created_at)
        self._latest = max(self._latest, at)
        if event.author == USER or not self._has_turns or not event.branch:
            return
        for branch in event.actions.finished:
            self._finish(branch, at)
        run = self._run(event.branch, event.author)
        if event.actions.usage is not None:
            at = self._chat(run.span, event.actions.usage, at, emitted_at, event)
        self._record_calls(event, at)
        self._record_steps(run, event, at)
        for result in event.content.tool_results if event.content else ():
            self._finish_call(event, result, at)
        self._record_span_events(run, event)
        self._extend(event.branch, at)
        if event.actions.transfer_to is not None and not event.is_private:
            at = self._end_runs(list(self._runs), at)
            self._next = _PendingTurn(event.actions.transfer_to, at)

    def add_selection_call(self, usage: Usage, end: int) -> None:
        """Adds a model call of the selection."""
        self._chat(self.root, usage, end - _length(usage), end, None)

    def end(self, reason: str) -> None:
        """Ends all open spans. `reason` is the end of the invocation, or how this run of it stopped."""
        if self._next is not None:
            self._begin(Branch(f"{len(self._runs)}+"), self._next.agent, None)
        for id_, call in self._calls.items():
            if call.done is not None or call.span is not None:
                self._call_span(id_, call).end(max(call.began, call.done or self._latest))
        self._calls.clear()
        self._end_runs(list(self._runs), self._latest)
        self.root.set_attribute(names.END, reason)
        if reason in ("failed", "loop") or reason.startswith(LIMIT):
            _fail(self.root, reason)
        self.root.end(self._latest)

    def _run(self, branch: Branch, author: str) -> _AgentSpan:
        """Returns the run on a branch. It and its parents begin with the first event on them."""
        run = None
        for path in reversed([*branch.with_ancestors()]):
            run = self._runs.get(path) or self._begin(path, author if path == branch else "", run)
        assert run is not None
        if run.agent != author:
            run.agent = author
            run.span.update_name(f"invoke_agent {author}")
            run.span.set_attribute(names.AGENT, author)
        return run

    def _begin(self, path: Branch, author: str, parent_run: _AgentSpan | None, chosen: int | None = None) -> _AgentSpan:
        """Begins the span of an agent's run on that branch, below the run or the call that started it."""
        if parent_run is None:
            agent, since = self._next or _PendingTurn(author, self._began)
            self._next = None
            parent = self.root
        else:
            segment = path.last
            agent, since = author or name_of(segment), parent_run.alone if segment.startswith("~") else parent_run.reached
            since = since if chosen is None else chosen
            id_ = segment.partition("#")[2]  # an agent called as a tool runs under the id of the call
            call = self._calls.get(id_) if segment.startswith(">") else None
            parent = parent_run.span if call is None else self._call_span(id_, call)
        attributes: names.Attributes = {names.OPERATION: "invoke_agent", names.AGENT: agent}
        run = self._runs[path] = _AgentSpan(
            self._child(parent, f"invoke_agent {agent}", since, attributes), agent, since, since
        )
        return run

    def _extend(self, branch: Branch, at: int, *, is_parallel: bool = False) -> None:
        """Extends the run on a branch, and its parents, to a time. Activity of a parallel run counts for that run only.

        Args:
            branch: The branch of the run.
            at: The time of the activity.
            is_parallel: True for activity of one of several parallel runs.
        """
        self._latest = max(self._latest, at)
        while branch:
            if (run := self._runs.get(branch)) is not None:
                run.reached = max(run.reached, at)
                run.alone = run.alone if is_parallel else run.reached
            if branch.last.startswith("~"):
                return
            branch = branch.parent

    def _finish(self, branch: Branch, at: int) -> None:
        """Ends the run on a branch and everything below it. The run may have no event."""
        run, parent = self._runs.get(branch), self._runs.get(branch.parent)
        if run is None and parent is not None:
            agent = name_of(branch.last)
            since = parent.chosen.pop(agent, None)
            run = self._begin(branch, agent, parent, since)
            run.reached = max(run.reached, at if since is None else parent.reached)
        if run is not None:
            ended = [path for path in self._runs if branch.holds(path)]
            self._extend(branch.parent, self._end_runs(ended, run.reached), is_parallel=branch.last.startswith("~"))

    def _end_runs(self, paths: Sequence[Branch], at: int) -> int:
        """Ends runs at a time, or at the last known activity among them if that is later. Returns the time of the end."""
        ended = [self._runs.pop(path) for path in paths]
        at = max([at, *(run.reached for run in ended)])
        for run in ended:
            run.span.end(at)
        return at

    def _chat(self, parent: Span, usage: Usage, at: int, emitted_at: int, event: Event | None) -> int:
        """Adds one model call and returns its end.

        An event may be stamped at the start or at the end of its call. If the computed end would be later than the emission,
        the
        stamp is taken as the end.
        """
        end = at + _length(usage)
        end = emitted_at if at <= emitted_at < end else end
        attributes = names.model_attributes(usage) | names.usage_attributes(usage)
        if event is not None:
            attributes[names.AGENT] = event.author
            if event.actions.cut_off == "tokens":
                attributes["gen_ai.response.finish_reasons"] = ["length"]
            if self._content:
                attributes |= names.message_attributes("output", event)
        name = " ".join(str(attributes[key]) for key in (names.OPERATION, names.REQUEST_MODEL) if key in attributes)
        self._child(parent, name, end - _length(usage), attributes, SpanKind.CLIENT).end(end)
        self._count(usage)
        return end

    def _record_calls(self, event: Event, at: int) -> None:
        for call in event.content.tool_calls if event.content else ():
            arguments = names.as_json(call.arguments) if self._content else ""
            self._calls.setdefault(call.call_id, _ToolSpan(call.tool, event.branch, at, arguments))

    def _record_steps(self, run: _AgentSpan, event: Event, at: int) -> None:
        """Records the steps of an event: a tool's step ends its call, others become spans."""
        for step in event.actions.steps:
            if step.call is not None:
                id_ = step.call.removesuffix(_BEGUN)
                self._calls.setdefault(id_, _ToolSpan("", event.branch, run.reached)).done = at
            elif not step.says and step.key.startswith(event.branch.step_key("")):
                self._step(run, step, at)

    def _step(self, run: _AgentSpan, step: StepRecord, at: int) -> None:
        """Adds a span for one of the agent's own steps. Its key is shown in full only with content."""
        key = step.key.partition(":")[2]
        if not _INTERNAL_STEPS.match(key):
            word = _WORD.match(key)
            shown = key if self._content else word[0] if word else ""
            attributes: names.Attributes = {"turnwise.step.key": shown, names.AGENT: run.agent}
            self._child(run.span, names.STEP, run.reached, attributes).end(max(run.reached, at))

    def _finish_call(self, event: Event, result: ToolResultPart, at: int) -> None:
        """Ends the span of a call that has a result.

        A refused call, such as one of an unknown tool, gets no span. A call that was cut off by the message's end gets one.
        """
        call = self._calls.pop(result.call_id, None)
        call = call or _ToolSpan("", event.branch, self._runs[event.branch].reached)
        if call.done is None and call.span is None and result.failed and event.actions.steps:
            return
        call.tool = call.tool or result.tool
        span = self._call_span(result.call_id, call)
        if result.failed:
            _fail(span, ToolFailed.code)
        if self._content:
            span.set_attribute("gen_ai.tool.call.result", names.as_json(result.result))
        span.end(max(call.began, call.done or at))

    def _call_span(self, id_: str, call: _ToolSpan) -> Span:
        """Returns the span of a tool call, begun when it is first needed."""
        if call.span is None:
            tool = call.tool if _TOOL.fullmatch(call.tool) else OTHER  # a model may invent a name
            attributes, run = names.tool_call_attributes(id_, tool), self._runs.get(call.branch)
            if run is not None:
                attributes[names.AGENT] = run.agent
            if call.arguments:
                attributes["gen_ai.tool.call.arguments"] = call.arguments
            parent = run.span if run is not None else self.root
            call.span = self._child(parent, f"execute_tool {tool}", call.began, attributes)
        return call.span

    def _record_span_events(self, run: _AgentSpan, event: Event) -> None:
        """Records an event's selection, wait and guardrail results as events of the run's span."""
        actions, at = event.actions, nanoseconds(event.created_at)
        if event.error is not None:
            _fail(run.span, event.error.code)
        if actions.selection is not None:
            attributes = names.decision_attributes(actions.selection, content=self._content) | names.cascade_attributes(
                actions.selection
            )
            run.span.add_event(names.SELECTION, attributes, at)
            run.chosen[actions.selection.agent] = at
        if actions.awaits is not None:
            run.span.add_event("turnwise.waits", {"turnwise.wait.kind": actions.awaits.kind}, at)
        for guarded in actions.guarded:
            attributes = {"turnwise.guardrail.name": guarded.guardrail, "turnwise.guardrail.action": guarded.action}
            run.span.add_event("turnwise.guardrail", attributes, at)
        if self._content and actions.usage is None and event.text:
            run.span.set_attributes(names.message_attributes("output", event))

    def _child(
        self, parent: Span, name: str, since: int, attributes: names.Attributes, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        attributes = {names.CONVERSATION: self._session, **attributes}
        context = trace.set_span_in_context(parent)
        return self._tracer.start_span(name, context, kind, attributes, start_time=max(since, 0))


def _length(usage: Usage) -> int:
    return int(usage.ms * 1_000_000)


def _fail(span: Span, code: str) -> None:
    span.set_attribute(names.ERROR, code)
    span.set_status(Status(StatusCode.ERROR))


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
