"""The lines that `turnwise serve` prints when it starts: where it listens, what it serves, who may call it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from turnwise.cli.clean import one_line
from turnwise.cli.rendering import styled
from turnwise.config.gateway_entries import is_own_machine, lacking

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.facts.gateway import AuthConfig, GatewayConfig, Protocols, Switch
    from turnwise.gateway.serving import Serving

_OURS = "Turnwise's API (/api/v1)"
_NAMES: Mapping[str, tuple[str, str]] = {
    "openai": ("OpenAI", "/v1"),
    "a2a": ("A2A", "/a2a"),
    "ag_ui": ("AG-UI", "/ag-ui"),
    "adk": ("ADK", "/adk"),
    "mcp": ("MCP", "/mcp"),
    "graph_chat": ("graph-chat", "/api/v1/graph-chat"),
}


def startup_lines(app: "App", config: "GatewayConfig", serving: "Serving", *, traced: bool) -> Iterator[Text]:
    """A line for each thing to know before the first request."""
    reach = "; only this machine can connect" if is_own_machine(config.host) else ""
    yield styled(f"Serving {one_line(app.runner.app)} at ", "").append(serving.address, style="bold").append(reach, style="dim")
    yield _line("sessions", f"stored in {one_line(app.store)}")
    documentation = f"{serving.address_here}/docs" if config.documentation else "off (gateway.documentation is false)"
    yield _line("documentation", documentation)
    yield _line("protocols", ", ".join([_OURS, *(_with_path(name) for name in _spoken(config.protocols))]))
    if off := "; ".join(_not_served(config.protocols)):
        yield _line("not served", off)
    yield _line("authentication", one_line(authentication(config.auth)))
    yield _line("traces", "sent to OpenTelemetry" if traced else "off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)")
    key = ' -H "Authorization: Bearer $KEY"' if config.auth is not None else ""
    request = f"curl {serving.address_here}/api/v1/sessions/s1/messages{key}"
    yield _line("try it", request + " -H 'Content-Type: application/json' -d '{\"content\": \"Hello\"}'")


def authentication(auth: "AuthConfig | None") -> str:
    """Whether requests need credentials, which ones, and how to get them."""
    if auth is None:
        return "off (gateway.auth is not set), so everybody on this machine has full access"
    keys = ["an API key (turnwise keys create NAME --user USER)"] if auth.keys else []
    issuer = f" of {auth.jwt.issuer}" if auth.jwt is not None and auth.jwt.issuer else ""
    tokens = [f"a token (JWT){issuer}"] if auth.jwt is not None else []
    return "on, requests need " + " or ".join([*keys, *tokens])


def _line(name: str, told: str) -> Text:
    return styled(f"  {name}: ", "dim").append(told)


def _spoken(config: "Protocols") -> list[str]:
    missing = set(lacking(config, wanted=False))
    return [name for name in _NAMES if _switch(config, name).on is not False and name not in missing]


def _not_served(config: "Protocols") -> Iterator[str]:
    """The protocols that are not served, and why."""
    if missing := lacking(config, wanted=False):
        which = " and ".join(_NAMES[name][0] for name in missing)
        yield f"{which}, because not installed (pip install 'turnwise[{','.join(missing)}]')"
    if off := [name for name in _NAMES if _switch(config, name).on is False]:
        yield f"{' and '.join(_NAMES[name][0] for name in off)}, because switched off below gateway.protocols"


def _switch(config: "Protocols", name: str) -> "Switch":
    found: Switch = getattr(config, name)
    return found


def _with_path(name: str) -> str:
    return "{} ({})".format(*_NAMES[name])
