"""Start-up lines and telemetry of `turnwise serve`."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from turnwise.cli.rendering import styled
from turnwise.cli.terminal import one_line
from turnwise.config.gateway_entries import is_loopback, protocols_without_extra
from turnwise.facts.errors import MissingExtra
from turnwise.facts.hints import install_command

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.facts.gateway import AuthConfig, GatewayConfig, Protocols, Switch
    from turnwise.gateway.server import Serving
    from turnwise.ports.hooks import Hooks
    from turnwise.runner import Runner
    from turnwise.telemetry.exporters import Exporters
    from turnwise.telemetry.metrics import Metrics
    from turnwise.telemetry.traces import Spans

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable that includes message contents in spans."""
_OWN_API = "Turnwise's API (/api/v1)"
_NAMES: Mapping[str, tuple[str, str]] = {
    "openai": ("OpenAI", "/v1"),
    "a2a": ("A2A", "/a2a"),
    "ag_ui": ("AG-UI", "/ag-ui"),
    "adk": ("ADK", "/adk"),
    "mcp": ("MCP", "/mcp"),
    "graph_chat": ("graph-chat", "/api/v1/graph-chat"),
}


class Telemetry:
    """Metrics and traces of a runner, as its hooks. Close it after the runner."""

    def __init__(self, metrics: "Metrics", spans: "Spans | None" = None, exporting: "Exporters | None" = None) -> None:
        self.metrics = metrics
        self._spans, self._exporting = spans, exporting

    @property
    def hooks(self) -> list["Hooks"]:
        return [self.metrics] if self._spans is None else [self.metrics, self._spans]

    @property
    def traced(self) -> bool:
        return self._spans is not None

    def attach(self, runner: "Runner") -> None:
        """Connects the metrics to the runner."""
        self.metrics.attach(runner)

    async def close(self) -> None:
        """Sends the remaining telemetry. Idempotent."""
        if self._spans is not None:
            self._spans.close()
        if self._exporting is not None:
            await self._exporting.close()


def build_telemetry() -> Telemetry:
    """Builds the telemetry that the environment configures. Without the extra `otel`, prints that there are no traces.

    Raises:
        ConfigError: if the configuration of telemetry is invalid.
    """
    from turnwise.cli import terminal
    from turnwise.telemetry.exporters import exporters_from_environment
    from turnwise.telemetry.metrics import Metrics

    metrics = Metrics()
    try:
        exported = exporters_from_environment()
    except MissingExtra as missing:
        terminal.print_note(f"no traces: {missing}", style="yellow")
        return Telemetry(metrics)
    if exported is None:
        return Telemetry(metrics)
    from turnwise.telemetry.traces import Spans

    exported.install()
    content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() == "true"
    return Telemetry(metrics, Spans(tracers=exported.tracers, meters=exported.meters, content=content), exported)


def startup_lines(app: "App", config: "GatewayConfig", serving: "Serving", *, traced: bool) -> Iterator[Text]:
    """The lines printed before the first request."""
    reach = "; only this machine can connect" if is_loopback(config.host) else ""
    yield styled(f"Serving {one_line(app.runner.app)} at ", "").append(serving.address, style="bold").append(reach, style="dim")
    yield _line("sessions", f"stored in {one_line(app.store)}")
    documentation = f"{serving.address_here}/docs" if config.documentation else "off (gateway.documentation is false)"
    yield _line("documentation", documentation)
    yield _line("console", f"{serving.address_here}/console/" if config.console else "off (gateway.console is false)")
    yield _line("protocols", ", ".join([_OWN_API, *(_with_path(name) for name in _served_protocols(config.protocols))]))
    if off := "; ".join(_not_served_protocols(config.protocols)):
        yield _line("not served", off)
    yield _line("authentication", one_line(authentication_text(config.auth)))
    yield _line("traces", "sent to OpenTelemetry" if traced else "off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)")
    key = ' -H "Authorization: Bearer $KEY"' if config.auth is not None else ""
    request = f"curl {serving.address_here}/api/v1/sessions/s1/messages{key}"
    yield _line("try it", request + " -H 'Content-Type: application/json' -d '{\"content\": \"Hello\"}'")


def authentication_text(auth: "AuthConfig | None") -> str:
    """States whether requests need credentials, which ones, and how to get them."""
    if auth is None:
        return "off (gateway.auth is not set), so everybody on this machine has full access"
    keys = ["an API key (turnwise keys create NAME --user USER)"] if auth.keys else []
    issuer = f" of {auth.jwt.issuer}" if auth.jwt is not None and auth.jwt.issuer else ""
    tokens = [f"a token (JWT){issuer}"] if auth.jwt is not None else []
    return "on, requests need " + " or ".join([*keys, *tokens])


def _line(name: str, told: str) -> Text:
    return styled(f"  {name}: ", "dim").append(told)


def _served_protocols(config: "Protocols") -> list[str]:
    missing = set(protocols_without_extra(config, wanted=False))
    return [name for name in _NAMES if _switch(config, name).on is not False and name not in missing]


def _not_served_protocols(config: "Protocols") -> Iterator[str]:
    """The protocols that are not served, each with the reason."""
    if missing := protocols_without_extra(config, wanted=False):
        which = " and ".join(_NAMES[name][0] for name in missing)
        yield f"{which}, because not installed ({install_command(missing)})"
    if off := [name for name in _NAMES if _switch(config, name).on is False]:
        yield f"{' and '.join(_NAMES[name][0] for name in off)}, because switched off below gateway.protocols"


def _switch(config: "Protocols", name: str) -> "Switch":
    found: Switch = getattr(config, name)
    return found


def _with_path(name: str) -> str:
    return "{} ({})".format(*_NAMES[name])
