"""The gateway as one ASGI application. (What it answers: tests/integration/gateway.)"""

import pytest
from fastapi.routing import iter_route_contexts

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig, Protocols
from turnwise.gateway import api, graph_chat, mcp, openai
from turnwise.gateway.app import error_formatter, gateway, protocols
from turnwise.gateway.server import front_for


@agent
def echo(message: str) -> str:
    return message


def surroundings(config: GatewayConfig, *, traced: bool = False) -> list[str]:
    """The names of what is around requests, from the outermost on."""
    front = front_for(Runner(echo, store=SqlSessionStore("sqlite://")), config, traced=traced)
    return [str(getattr(each.cls, "__name__", "")) for each in gateway(front).user_middleware]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("/api/v1/sessions", api),
        ("/v1/responses", openai),
        ("/api/v1/graph-chat/chat", graph_chat),
        ("/api/v1/graph-chats", api),
        ("/v1", openai),
        ("/mcp", mcp),
        ("/mcp/", mcp),
        ("/v10/x", api),
        ("/", api),
        ("", api),
    ],
)
async def test_each_protocol_writes_problems_in_its_own_form(path: str, module: object) -> None:
    form_for = error_formatter(list(protocols(Protocols())))
    assert form_for(path) is module.error_response  # type: ignore[attr-defined]


async def test_every_request_is_known_before_anything_is_refused() -> None:
    usual = ["RequestIds", "AccessLog", "SecurityHeaders", "CompressedJson", "OpenRequests", "ProblemResponses"]
    usual += ["HeadRequests", "LocalOnly", "PlainTextPaths", "ShutdownResponses", "RequestBodies"]
    assert surroundings(GatewayConfig()) == usual
    without = [name for name in usual if name != "LocalOnly"]
    assert surroundings(GatewayConfig(auth=AuthConfig())) == without
    paged = [*without[:3], "CORSMiddleware", *without[3:]]
    assert surroundings(GatewayConfig(auth=AuthConfig(), origins=("*",))) == paged
    assert surroundings(GatewayConfig(), traced=True) == [usual[0], "TraceContext", *usual[1:]]


@pytest.mark.parametrize("documented", [True, False])
async def test_the_documentation_is_there_if_it_is_to_be(documented: bool) -> None:
    app = gateway(front_for(Runner(echo, store=SqlSessionStore("sqlite://")), GatewayConfig(documentation=documented)))
    assert app.openapi_url == ("/openapi.json" if documented else None)
    assert ("/docs" in {each.path_format for each in iter_route_contexts(app.routes)}) is documented
    assert "/api/v1/health" in app.openapi()["paths"]
