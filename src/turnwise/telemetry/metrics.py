"""Prometheus metrics: decisions and their latency, ends of messages, model usage, and inbox lengths."""

import asyncio
import logging
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from importlib.metadata import version
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.facts.usage import Usage
from turnwise.ports.stores import InboxLengths, SessionStore
from turnwise.telemetry.attributes import MAX_LABELS, LabelSet, end_labels, error_code_labels

STORE_SECONDS = 2.0
"""How long a scrape waits for the store. Values that are not there by then are left out."""
CONFIDENCES = tuple(tenths / 10 for tenths in range(1, 11))
FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

log = logging.getLogger("turnwise.telemetry")


class ObservedRunner(Protocol):
    """The part of a runner that the metrics read."""

    app: str
    store: SessionStore

    @property
    def tree(self) -> AgentTree: ...

    @property
    def sets(self) -> "Sets": ...

    @property
    def rests(self) -> "RestingAgents": ...

    @property
    def checks(self) -> "Checks": ...

    @property
    def shadow_counts(self) -> "ShadowCounts": ...


class ServedSet(Protocol):
    """The agents that serve."""

    @property
    def tree(self) -> AgentTree: ...

    @property
    def revision(self) -> int: ...


class Sets(Protocol):
    """The sets of agents of a runner."""

    @property
    def current(self) -> ServedSet: ...

    @property
    def problem(self) -> Exception | None: ...

    def on_swap(self, listener: Callable[[ServedSet], None]) -> object: ...


class RestingAgents(Protocol):
    """The rests of a runner's agents."""

    def resting(self) -> Sized: ...


class Checks(Protocol):
    """The thread pool of guardrail checks."""

    @property
    def stuck(self) -> int: ...


class ShadowCounts(Protocol):
    """The decisions of shadow policies."""

    @property
    def results(self) -> Mapping[str, int]: ...


class Metrics:
    """Counts what a runner does, in a Prometheus registry of its own. It is one of the runner's hooks.

    Safe to call from event loops of any thread.

    Args:
        clock: Monotonic seconds, for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._agents, self._ends, self._codes = LabelSet(), end_labels(), error_code_labels()
        self._methods, self._selectors, self._models = (
            LabelSet(more=MAX_LABELS),
            LabelSet(more=MAX_LABELS),
            LabelSet(more=MAX_LABELS),
        )
        self._experiments, self._arms = LabelSet(more=MAX_LABELS), LabelSet(more=MAX_LABELS)
        self._runner: ObservedRunner | None = None
        self._running: dict[tuple[SessionKey, str], float] = {}
        self._awaiting_first_words: set[tuple[SessionKey, str]] = set()
        self._inbox_gauges = _InboxGauges()
        self._is_store_unreachable = False
        self._create_metrics()
        ProcessCollector(registry=self.registry)
        self.registry.register(self._inbox_gauges)
        self.registry.register(_ShadowCounter(lambda: {} if self._runner is None else self._runner.shadow_counts.results))

    def _create_metrics(self) -> None:
        """Registers all metrics."""
        counter, histogram = self._counter, self._histogram
        self._selections = counter("selections", "Decisions.", "agent", "method", "outcome")
        self._trials = counter("experiment_decisions", "Decisions of experiments.", "experiment", "arm", "outcome")
        self._confidence = histogram("selection_confidence", "How sure decisions were.", CONFIDENCES, "method")
        self._selection_seconds = histogram("selection_seconds", "Deciding who answers a message.", FAST)
        self._selector_seconds = histogram("selector_seconds", "One selector on the way to a decision.", FAST, "selector")
        self._invocations = counter("invocations", "Messages that came to an end, or wait, here.", "end")
        self._seconds = histogram("invocation_seconds", "From the message to the end, or the wait.", SLOW, "end")
        self._first_words = histogram("first_words_seconds", "From the message to the first words of the answer.", SLOW)
        self._calls = counter("model_calls", "Answers of models.", "model")
        self._call_seconds = histogram("model_call_seconds", "One answer of a model.", SLOW, "model")
        self._tokens = counter("model_tokens", "Tokens; cached_input are part of input.", "model", "kind")
        self._cost = counter("model_cost_dollars", "What models cost, where the price is known.", "model")
        self._errors = counter("errors", "Errors on record, and requests that were refused.", "code")
        running = Gauge("turnwise_invocations_running", "Messages being answered in this process.", registry=self.registry)
        running.set_function(lambda: len(self._running))
        stuck = Gauge(
            "turnwise_guardrail_threads_stuck", "Threads in a check that took longer than its limit.", registry=self.registry
        )
        stuck.set_function(lambda: 0 if self._runner is None else self._runner.checks.stuck)
        resting = Gauge("turnwise_agents_resting", "Agents that rest because their surroundings fail.", registry=self.registry)
        resting.set_function(lambda: 0 if self._runner is None else len(self._runner.rests.resting()))
        revision = Gauge(
            "turnwise_definitions_revision", "The revision of the definitions that serves here.", registry=self.registry
        )
        revision.set_function(lambda: 0 if self._runner is None else self._runner.sets.current.revision)
        refused = Gauge(
            "turnwise_definitions_refused",
            "1 while a newer revision is not served because of a mistake.",
            registry=self.registry,
        )
        refused.set_function(lambda: 0 if self._runner is None else int(self._runner.sets.problem is not None))
        self._build = Info("turnwise_build", "What runs here.", registry=self.registry)

    def attach(self, runner: ObservedRunner) -> None:
        """Sets the runner. Without one, every agent is labelled `other`, and inboxes are not counted."""
        self._runner = runner
        self._agents = LabelSet(card.name for card in runner.tree)
        runner.sets.on_swap(self._add_agents)
        self._build.info({"version": version("turnwise"), "python": platform.python_version(), "app": runner.app})

    def _add_agents(self, served: ServedSet) -> None:
        self._agents = LabelSet(card.name for card in served.tree)

    def count_error(self, code: str) -> None:
        """Counts an error that no invocation records, such as a refused request."""
        self._errors.labels(self._codes.of(code)).inc()

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        """Counts a decision and its latency."""
        method = self._methods.of(selection.method)
        self._selections.labels(self._agents.of(selection.agent), method, selection.outcome).inc()
        self._confidence.labels(method).observe(selection.confidence)
        if selection.experiment is not None:
            names = self._experiments.of(selection.experiment), self._arms.of(selection.arm or "")
            self._trials.labels(*names, selection.outcome).inc()
        if selection.occasion == "message":  # other selections are part of a turn
            self._selection_seconds.observe(selection.ms / 1000)
        for verdict in selection.verdicts:
            if verdict.ms:
                self._selector_seconds.labels(self._selectors.of(verdict.selector)).observe(verdict.ms / 1000)
            if verdict.usage is not None:
                self._count_usage(verdict.usage)

    async def stored(self, key: SessionKey, event: Event) -> None:
        """Counts a stored event: running answers, first words, model usage, errors."""
        actions, ref = event.actions, (key, event.invocation_id)
        is_new = event.author == USER and actions.selection is not None
        if is_new or (event.attempt > 1 and actions.rewind is not None):
            self._running[ref] = self._clock()
            self._awaiting_first_words.add(ref)
        elif event.text and not event.is_private:
            self._observe_first_words(ref)
        if actions.usage is not None:
            self._count_usage(actions.usage)
        if event.error is not None:
            self.count_error(event.error.code)

    async def shown(self, key: SessionKey, event: Event) -> None:
        self._observe_first_words((key, event.invocation_id))

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        """Counts the end of an answer, or its wait, and its duration."""
        end = self._ends.of(reason)
        self._invocations.labels(end).inc()
        self._awaiting_first_words.discard((key, invocation_id))
        began = self._running.pop((key, invocation_id), None)
        if began is not None:
            self._seconds.labels(end).observe(self._clock() - began)

    async def render(self, accept: str = "") -> tuple[bytes, str]:
        """Returns the current metrics and their content type, in the format that the Accept header prefers.

        The inbox lengths come from the store. They are missing when it does not answer in time.
        """
        self._inbox_gauges.lengths = await self._lengths()
        encode, content_type = _encoder(accept)
        return encode(_WithoutCreationTimes(self.registry)), content_type

    async def _lengths(self) -> InboxLengths | None:
        """Returns the lengths of the inboxes; None if the store does not answer in time."""
        if self._runner is None:
            return None
        try:
            async with asyncio.timeout(STORE_SECONDS):
                lengths = await self._runner.store.inbox.lengths(self._runner.app)
        except Exception as problem:
            if not self._is_store_unreachable:  # logged once per outage
                log.warning("What waits in the inboxes cannot be counted: %s", type(problem).__name__)
            self._is_store_unreachable = True
            return None
        self._is_store_unreachable = False
        return lengths

    def _observe_first_words(self, ref: tuple[SessionKey, str]) -> None:
        began = self._running.get(ref)
        if began is not None and ref in self._awaiting_first_words:
            self._awaiting_first_words.discard(ref)
            self._first_words.observe(self._clock() - began)

    def _count_usage(self, usage: Usage) -> None:
        """Counts the calls, tokens and cost of models."""
        model = self._models.of(usage.model or "several")
        self._calls.labels(model).inc(usage.calls)
        if usage.ms and usage.calls == 1:
            self._call_seconds.labels(model).observe(usage.ms / 1000)
        self._tokens.labels(model, "input").inc(usage.input_tokens)
        self._tokens.labels(model, "cached_input").inc(usage.cached_tokens)
        self._tokens.labels(model, "output").inc(usage.output_tokens)
        if usage.cost is not None:
            self._cost.labels(model).inc(usage.cost)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"turnwise_{name}", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"turnwise_{name}", about, labels, buckets=buckets, registry=self.registry)


class _InboxGauges:
    """A collector of the inbox lengths at the last scrape; empty when the store did not answer."""

    lengths: InboxLengths | None = None

    def describe(self) -> Iterable[Metric]:
        return self._families(InboxLengths(0, 0, 0))

    def collect(self) -> Iterable[Metric]:
        return self._families(self.lengths) if self.lengths is not None else ()

    def _families(self, lengths: InboxLengths) -> Iterator[Metric]:
        yield GaugeMetricFamily("turnwise_inbox_messages", "Messages that wait, in all processes.", lengths.messages)
        yield GaugeMetricFamily("turnwise_inbox_sessions", "Sessions in which messages wait.", lengths.sessions)
        yield GaugeMetricFamily("turnwise_inbox_longest", "Messages that wait in the session with the most.", lengths.longest)


class _ShadowCounter:
    """A collector of what became of the shadow's decisions."""

    def __init__(self, results: Callable[[], Mapping[str, int]]) -> None:
        self._results = results

    def collect(self) -> Iterable[Metric]:
        about = "Decisions of shadow policies: decided, dropped under load, failed, or not made because a stage asks somebody."
        family = CounterMetricFamily("turnwise_shadow_decisions", about, labels=("result",))
        for result, count in self._results().items():
            family.add_metric((result,), count)
        return (family,)


class _WithoutCreationTimes:
    """A registry without the `_created` samples, which are half of the lines and of no use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _encoder(accept: str) -> tuple[Callable[[_WithoutCreationTimes], bytes], str]:
    """Returns the encoder for an Accept header; the default one when the library cannot parse the header's version."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
