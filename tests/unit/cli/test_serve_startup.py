"""What `turnwise serve` says when it starts. (With a real process: tests/integration/gateway/test_serve_command.py.)"""

from pathlib import Path

import pytest

from turnwise import Runner, agent
from turnwise.assemble import App
from turnwise.cli.serve_output import authentication_text, startup_lines
from turnwise.facts.gateway import AuthConfig, GatewayConfig, JwtConfig, Protocols, Switch
from turnwise.gateway.server import Serving, bound_socket, front_for

TOKENS = JwtConfig(jwks_url="https://id.example/keys")


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (None, "off (gateway.auth is not set), so everybody on this machine has full access"),
        (AuthConfig(), "on, requests need an API key (turnwise keys create NAME --user USER)"),
        (AuthConfig(keys=False, jwt=TOKENS), "on, requests need a token (JWT)"),
        (
            AuthConfig(jwt=TOKENS.replace(issuer="https://id.example")),
            "on, requests need an API key (turnwise keys create NAME --user USER) or a token (JWT) of https://id.example",
        ),
    ],
)
def test_authentication(auth: AuthConfig | None, words: str) -> None:
    assert authentication_text(auth) == words


async def test_what_is_off_is_told_with_its_reason() -> None:
    @agent
    def desk() -> str:
        return "hello"

    runner = Runner(desk, app="shop", store="sqlite://")
    config = GatewayConfig(
        port=0, documentation=False, protocols=Protocols(openai=Switch(on=False), graph_chat=Switch(on=False))
    )
    serving = Serving(front_for(runner, config), bound_socket(config.host, config.port))
    try:
        said = [line.plain.strip() for line in startup_lines(App(runner, Path(), "a store"), config, serving, traced=True)]
    finally:
        await serving.end()
        await runner.close()
    assert said[0] == f"Serving {runner.app} at {serving.address}; only this machine can connect"
    assert said[1:3] == ["sessions: stored in a store", "documentation: off (gateway.documentation is false)"]
    assert said.pop(3) == f"console: {serving.address}/console/"
    assert "OpenAI" not in said[3]
    assert said[3].startswith("protocols: Turnwise's API (/api/v1), ")
    assert said[4].startswith("not served: ")
    assert said[4].endswith("OpenAI and graph-chat, because switched off below gateway.protocols")
    assert said[6] == "traces: sent to OpenTelemetry"
    assert said[7].startswith(f"try it: curl {serving.address}/api/v1/")
