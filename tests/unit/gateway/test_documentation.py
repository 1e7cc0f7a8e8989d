"""Which credentials the OpenAPI names."""

import copy
from typing import Any

import pytest

from turnwise.facts.gateway import AuthConfig, JwtConfig
from turnwise.gateway.openapi import OPEN, add_security_schemes, schemes_for

JWT = JwtConfig(algorithms=("HS256",), key="x" * 64)
DOCUMENT: dict[str, Any] = {"paths": {"/a": {"get": {}, "post": {"summary": "x"}}, "/health": {"get": OPEN}}}


@pytest.mark.parametrize(
    ("auth", "named", "takes"),
    [
        (None, [], ""),
        (AuthConfig(), ["bearer", "api_key"], "Takes an API key."),
        (AuthConfig(jwt=JWT), ["bearer", "api_key"], "Takes an API key or a JSON web token."),
        (AuthConfig(keys=False, jwt=JWT), ["bearer"], "Takes a JSON web token."),
    ],
)
def test_those_that_count(auth: AuthConfig | None, named: list[str], takes: str) -> None:
    schemes = schemes_for(auth)
    assert list(schemes) == named
    assert not schemes or schemes["bearer"]["description"] == takes
    document = copy.deepcopy(DOCUMENT)
    for _ in range(2):
        add_security_schemes(document, auth)
        paths = document["paths"]
        expected: list[dict[str, list[str]]] | None = [{name: []} for name in named] if named else None
        assert paths["/a"]["get"].get("security") == paths["/a"]["post"].get("security") == expected
        assert paths["/health"]["get"].get("security") == (None if auth is None else [])
        assert ("securitySchemes" in document.get("components", {})) == bool(named)
