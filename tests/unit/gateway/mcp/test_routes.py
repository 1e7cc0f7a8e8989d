"""What is checked before a request is handed over. (What is answered then: tests/integration/gateway/test_mcp_refused.py.)"""

import pytest
from starlette.datastructures import Headers

from turnwise.facts.errors import Forbidden, RequestInvalid
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.gateway.mcp.server import check_headers, transport_security

OPEN = GatewayConfig(origins=("https://shop.example",))
KEYS = OPEN.replace(auth=AuthConfig())


def headers(**given: str) -> Headers:
    return Headers({"Content-Type": "application/json", **given})


def test_where_everybody_is_let_in_only_this_machines_names_count() -> None:
    settings = transport_security(OPEN)
    assert settings.enable_dns_rebinding_protection
    assert {host.removesuffix(":*") for host in settings.allowed_hosts} == {"localhost", "127.0.0.1", "[::1]"}
    assert "https://shop.example" in settings.allowed_origins
    assert "http://localhost:*" in settings.allowed_origins


def test_where_a_credential_is_needed_the_origin_is_looked_at_here() -> None:
    assert not transport_security(KEYS).enable_dns_rebinding_protection
    for fine in ({}, {"Origin": "https://shop.example"}, {"Origin": "https://SHOP.example"}, {"Host": "anything"}):
        check_headers(headers(**fine), KEYS)
    for wrong in ("https://evil.example", "null", "", "https://shop.example.evil.example", "http://localhost"):
        with pytest.raises(Forbidden):
            check_headers(headers(Origin=wrong), KEYS)
    check_headers(headers(Origin="https://evil.example"), KEYS.replace(origins=("*",)))
    check_headers(headers(Origin="https://evil.example"), OPEN)  # looked at by another


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", " application/json ;x"])
def test_json_is_json(kind: str) -> None:
    check_headers(headers(**{"Content-Type": kind}), OPEN)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonp", "multipart/form-data"])
def test_anything_else_is_not(kind: str) -> None:
    with pytest.raises(RequestInvalid):
        check_headers(Headers({"Content-Type": kind}), OPEN)
