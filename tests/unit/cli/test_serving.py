"""What `turnwise serve` says in the beginning. (With a real process: tests/integration/gateway/test_serve_command.py.)"""

import pytest

from turnwise.cli.serving import who_may_enter
from turnwise.facts.gateway import AuthConfig, JwtConfig

TOKENS = JwtConfig(jwks_url="https://id.example/keys")


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (None, "everybody on this machine, as an admin, as there is no gateway.auth"),
        (AuthConfig(), "who has an API key (turnwise keys create NAME --user USER)"),
        (AuthConfig(keys=False, jwt=TOKENS), "who has a token"),
        (
            AuthConfig(jwt=TOKENS.model_copy(update={"issuer": "https://id.example"})),
            "who has an API key (turnwise keys create NAME --user USER), or who has a token of https://id.example",
        ),
    ],
)
def test_who_may_enter(auth: AuthConfig | None, words: str) -> None:
    assert who_may_enter(auth) == f"who may enter: {words}"
