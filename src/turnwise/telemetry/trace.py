"""One message as a tree of spans, made of what was stored of it, at the times that stand there.

turnwise.message
├── chat …                 a model that was asked who should answer
└── invoke_agent A         turn 1
    ├── chat …             one answer of A's model
    ├── execute_tool …     a call that was made
    ├── turnwise.step      work of A that is on record
    └── invoke_agent B     an agent below A, or called by it
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import LIMIT, USER, Event, StepRecord
from turnwise.facts.usage import Usage
from turnwise.telemetry import attributes as names
from turnwise.telemetry.attributes import OTHER

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 2**63 - 1
_WORD = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,63}")
_TOOL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_BEGUN = "-begun"
"""What the id of a call ends with on record whose result comes later."""
_INTERNAL_STEPS = re.compile(r"(?:later|confirm\?|pool)#")
"""Steps that agents and flows of ours record for themselves."""

Count = Callable[[Usage], None]


def nanoseconds(moment: datetime) -> int:
    """Since 1970, as far as OpenTelemetry can write it: an agent may give its events any time, and one that cannot be written
    would take all spans along that are sent with it.
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max((aware - _EPOCH) // timedelta(microseconds=1) * 1_000, 0), _LATEST)


@dataclass
class _AgentSpan:
    """The span of an agent's run on a branch. reached: until when something is known of it, and of what it ran; alone: the same
    without what ran side by side, so that none of those seems to have begun when another was over. chosen: when it chose whom
    to go on.
    """

    span: Span
    agent: str
    reached: int
    alone: int
    chosen: dict[str, int] = field(default_factory=dict)


@dataclass
class _ToolSpan:
    """A tool's call, and on which branch: when it was made, and when it was done; its span, once there is reason for one."""

    tool: str
    branch: str
    began: int
    arguments: str = ""
    done: int | None = None
    span: Span | None = None


class _PendingTurn(NamedTuple):
    """A turn of which nothing is known yet but whose it is, and since when."""

    agent: str
    since: int


class Trace:
    """The spans of one message, from where it began, or was taken up, to where it ended or was left.

    began: when it was decided who gets the floor. turn: who that is; None when nobody does. count: is told what models took.
    content: whether spans may say what users, agents and tools said.
    """

    def __init__(
        self, tracer: Tracer, root: Span, began: int, *, session: str, turn: str | None, count: Count, content: bool
    ) -> None:
        self.root, self._latest = root, began
        self._tracer, self._session, self._count, self._content = tracer, session, count, content
        self._next = _PendingTurn(turn, began) if turn is not None else None
        self._has_turns = turn is not None
        self._began = began
        self._runs: dict[str, _AgentSpan] = {}
        self._calls: dict[str, _ToolSpan] = {}

    def take(self, event: Event, told: int) -> None:
        """Adds what an event tells, which was told at that time."""
        at = nanoseconds(event.created_at)
        self._latest = max(self._latest, at)
        if event.author == USER or not self._has_turns or not event.branch:
            return
        for branch in event.actions.finished:
            self._finish(branch, at)
        run = self._run(event.branch, event.author)
        if event.actions.usage is not None:
            at = self._chat(run.span, event.actions.usage, at, told, event)
        self._record_calls(event, at)
        self._record_steps(run, event, at)
        for result in event.content.tool_results if event.content else ():
            self._finish_call(event, result, at)
        self._record_span_events(run, event)
        self._reach(event.branch, at)
        if event.actions.transfer_to is not None and not event.is_private:
            at = self._end_runs(list(self._runs), at)
            self._next = _PendingTurn(event.actions.transfer_to, at)

    def asked(self, usage: Usage, decided: int) -> None:
        """Adds a model that was asked who should answer."""
        self._chat(self.root, usage, decided - _length(usage), decided, None)

    def end(self, reason: str) -> None:
        """Ends whatever is open. `reason` is an end's, or says how the message was left."""
        if self._next is not None:
            self._begin(f"{len(self._runs)}+", "", self._next.agent, None)
        for id_, call in self._calls.items():
            if call.done is not None or call.span is not None:
                self._call_span(id_, call).end(max(call.began, call.done or self._latest))
        self._calls.clear()
        self._end_runs(list(self._runs), self._latest)
        self.root.set_attribute(names.END, reason)
        if reason in ("failed", "loop") or reason.startswith(LIMIT):
            _fail(self.root, reason)
        self.root.end(self._latest)

    def _run(self, branch: str, author: str) -> _AgentSpan:
        """The run on that branch; it, and those above it, begin when they are first heard of."""
        run, path = None, ""
        for segment in branch.split("/"):
            path = f"{path}/{segment}" if path else segment
            run = self._runs.get(path) or self._begin(path, segment, author if path == branch else "", run)
        assert run is not None
        if run.agent != author:
            run.agent = author
            run.span.update_name(f"invoke_agent {author}")
            run.span.set_attribute(names.AGENT, author)
        return run

    def _begin(self, path: str, segment: str, author: str, above: _AgentSpan | None, chosen: int | None = None) -> _AgentSpan:
        if above is None:
            agent, since = self._next or _PendingTurn(author, self._began)
            self._next = None
            parent = self.root
        else:
            agent, since = author or _named(segment), above.alone if segment.startswith("~") else above.reached
            since = since if chosen is None else chosen
            id_ = segment.partition("#")[2]  # a tool that calls an agent does so under the id of its call
            call = self._calls.get(id_) if segment.startswith(">") else None
            parent = above.span if call is None else self._call_span(id_, call)
        about: names.Attributes = {names.OPERATION: "invoke_agent", names.AGENT: agent}
        run = self._runs[path] = _AgentSpan(self._child(parent, f"invoke_agent {agent}", since, about), agent, since, since)
        return run

    def _reach(self, branch: str, at: int, *, beside: bool = False) -> None:
        """Something is known of the run on that branch, and those above it, until then; `beside`: it was one of several that
        run side by side. What those do while they run is known of them alone.
        """
        self._latest = max(self._latest, at)
        while branch:
            if (run := self._runs.get(branch)) is not None:
                run.reached = max(run.reached, at)
                run.alone = run.alone if beside else run.reached
            branch, _, last = branch.rpartition("/")
            if last.startswith("~"):
                return

    def _finish(self, branch: str, at: int) -> None:
        """The run on that branch is over, with all below it. It may never have said a word."""
        above, _, last = branch.rpartition("/")
        run, parent = self._runs.get(branch), self._runs.get(above)
        if run is None and parent is not None:
            agent = _named(last)
            since = parent.chosen.pop(agent, None)
            run = self._begin(branch, last, agent, parent, since)
            run.reached = max(run.reached, at if since is None else parent.reached)
        if run is not None:
            over = [path for path in self._runs if path == branch or path.startswith(f"{branch}/")]
            self._reach(above, self._end_runs(over, run.reached), beside=last.startswith("~"))

    def _end_runs(self, paths: Sequence[str], at: int) -> int:
        """Ends these runs then, or when the last of them is known to have done something; gives that time."""
        ended = [self._runs.pop(path) for path in paths]
        at = max([at, *(run.reached for run in ended)])
        for run in ended:
            run.span.end(at)
        return at

    def _chat(self, parent: Span, usage: Usage, at: int, told: int, event: Event | None) -> int:
        """One answer of a model; gives when it was there. An event may be made when its model is asked, or when it has
        answered: then it would end later than it was told of.
        """
        end = at + _length(usage)
        end = told if at <= told < end else end
        about = names.model_attributes(usage) | names.usage_attributes(usage)
        if event is not None:
            about[names.AGENT] = event.author
            if event.actions.cut_off == "tokens":
                about["gen_ai.response.finish_reasons"] = ["length"]
            if self._content:
                about |= names.message_attributes("output", event)
        name = " ".join(str(about[key]) for key in (names.OPERATION, names.REQUEST_MODEL) if key in about)
        self._child(parent, name, end - _length(usage), about, SpanKind.CLIENT).end(end)
        self._count(usage)
        return end

    def _record_calls(self, event: Event, at: int) -> None:
        for call in event.content.tool_calls if event.content else ():
            arguments = names.as_json(call.arguments) if self._content else ""
            self._calls.setdefault(call.call_id, _ToolSpan(call.tool, event.branch, at, arguments))

    def _record_steps(self, run: _AgentSpan, event: Event, at: int) -> None:
        for step in event.actions.steps:
            if step.call is not None:
                id_ = step.call.removesuffix(_BEGUN)
                self._calls.setdefault(id_, _ToolSpan("", event.branch, run.reached)).done = at
            elif not step.says and step.key.startswith(f"{event.branch}:"):
                self._step(run, step, at)

    def _step(self, run: _AgentSpan, step: StepRecord, at: int) -> None:
        key = step.key.partition(":")[2]
        if not _INTERNAL_STEPS.match(key):
            word = _WORD.match(key)
            shown = key if self._content else word[0] if word else ""
            about: names.Attributes = {"turnwise.step.key": shown, names.AGENT: run.agent}
            self._child(run.span, names.STEP, run.reached, about).end(max(run.reached, at))

    def _finish_call(self, event: Event, result: ToolResultPart, at: int) -> None:
        """The span of a call that has a result. One that was refused, because there is no such tool or for another reason, has
        none; one that was broken off when the message ended has.
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
        if call.span is None:
            tool = call.tool if _TOOL.fullmatch(call.tool) else OTHER  # a model may have made the name up
            about, run = names.tool_call_attributes(id_, tool), self._runs.get(call.branch)
            if run is not None:
                about[names.AGENT] = run.agent
            if call.arguments:
                about["gen_ai.tool.call.arguments"] = call.arguments
            parent = run.span if run is not None else self.root
            call.span = self._child(parent, f"execute_tool {tool}", call.began, about)
        return call.span

    def _record_span_events(self, run: _AgentSpan, event: Event) -> None:
        """What else the event tells: as events of the run's span, at the time that stands there."""
        actions, at = event.actions, nanoseconds(event.created_at)
        if event.error is not None:
            _fail(run.span, event.error.code)
        if actions.selection is not None:
            about = names.decision_attributes(actions.selection, content=self._content) | names.cascade_attributes(
                actions.selection
            )
            run.span.add_event(names.SELECTION, about, at)
            run.chosen[actions.selection.agent] = at
        if actions.awaits is not None:
            run.span.add_event("turnwise.waits", {"turnwise.wait.kind": actions.awaits.kind}, at)
        for guarded in actions.guarded:
            about = {"turnwise.guardrail.name": guarded.guardrail, "turnwise.guardrail.action": guarded.action}
            run.span.add_event("turnwise.guardrail", about, at)
        if self._content and actions.usage is None and event.text:
            run.span.set_attributes(names.message_attributes("output", event))

    def _child(self, parent: Span, name: str, since: int, about: names.Attributes, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        about = {names.CONVERSATION: self._session, **about}
        context = trace.set_span_in_context(parent)
        return self._tracer.start_span(name, context, kind, about, start_time=max(since, 0))


def _length(usage: Usage) -> int:
    return int(usage.ms * 1_000_000)


def _fail(span: Span, code: str) -> None:
    span.set_attribute(names.ERROR, code)
    span.set_status(Status(StatusCode.ERROR))


def _named(segment: str) -> str:
    """The agent that a part of a branch is named after, as far as it is."""
    name = segment.lstrip("~>").partition("#")[0]
    return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), name)
