"""How tests of telemetry look at spans and numbers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from turnwise import LlmAgent, MessageContext, tool
from turnwise.facts.content import text_content
from turnwise.facts.usage import Usage
from turnwise.ports.model import ModelReply
from turnwise.telemetry.metrics import Metrics
from turnwise.telemetry.traces import Spans
from turnwise.testing.models import ScriptedModel, calls

SECRET = "my dog Rex is sick"
"""What a user says, and nobody else is to know."""


class _Counting(SpanProcessor):
    """Counts the spans that began."""

    begun = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.begun += 1


class Traced:
    """Spans and metrics that are kept in memory."""

    def __init__(self, **options: Any) -> None:
        self.exporter, self.reader, self._counting = InMemorySpanExporter(), InMemoryMetricReader(), _Counting()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracers.add_span_processor(self._counting)
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.hooks = Spans(tracers=self.tracers, meters=self.meters, **options)

    @property
    def begun(self) -> int:
        """How many spans began."""
        return self._counting.begun

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Those that have ended, in the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: (span.start_time or 0, span.end_time or 0))

    @property
    def roots(self) -> Sequence[ReadableSpan]:
        return [span for span in self.spans if span.name == "turnwise.message"]

    def span(self, name: str) -> ReadableSpan:
        """The only one of that name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def tree(self, root: ReadableSpan | None = None) -> list[str]:
        """The names of spans, each below its parent, children indented in the order in which they began."""
        if root is None:
            (root,) = self.roots
        return list(self._lines(root, ""))

    def _lines(self, span: ReadableSpan, indent: str) -> Iterable[str]:
        yield indent + span.name
        for child in self.spans:
            if child.parent and span.context and child.parent.span_id == span.context.span_id:
                yield from self._lines(child, indent + "  ")

    def texts(self) -> str:
        """All that was told of spans and metrics."""
        return "\n".join(span.to_json() for span in self.spans) + str(self.reader.get_metrics_data())

    def points(self, metric: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Attributes and data of the points of a metric."""
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
        found = [each for scope in scopes for each in scope.metrics if each.name == metric]
        return [(dict(point.attributes or {}), point) for each in found for point in each.data.data_points]


def about(span: ReadableSpan, *names: str) -> tuple[Any, ...]:
    """The values of these attributes."""
    return tuple((span.attributes or {}).get(name) for name in names)


async def numbers(metrics: Metrics) -> dict[str, float]:
    """All samples, by name and labels, as Prometheus reads them: `name{label="value"}`."""
    body, _ = await metrics.render()
    found = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def reply(text: str, model: str = "openai:gpt-5", *, ms: float = 2_000, **usage: Any) -> ModelReply:
    """An answer that took something."""
    took = {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 20, "cost": 0.25} | usage
    return ModelReply(text_content(text), Usage(model=model, ms=ms, **took))


@tool
async def look_up(what: str) -> str:
    """Looks something up."""
    return f"found {what}"


def helpdesk(*script: Any) -> LlmAgent:
    """A front that uses a tool twice at once, then hands over."""
    billing = LlmAgent("billing", model=ScriptedModel(reply("It is for the vet.")), instructions="Explain bills.")
    both = [calls("look_up", {"what": SECRET}), calls("look_up", {"what": SECRET})]
    script = script or (both, calls("transfer_to_agent", {"agent": "billing"}))
    return LlmAgent("front", model=ScriptedModel(*script), tools=[look_up], instructions="Help.", children=[billing])


TO_FRONT: dict[str, Any] = {"context": MessageContext(direct_agent_id="front")}
