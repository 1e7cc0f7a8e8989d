"""The OpenAPI security schemes: the credentials that the gateway is configured to accept."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from turnwise.facts.gateway import AuthConfig

OPEN: dict[str, Any] = {"security": []}
"""OpenAPI entry of an operation that never needs a credential."""


def schemes_for(auth: AuthConfig | None) -> Mapping[str, Any]:
    """Returns the security schemes by name; empty if the gateway needs no credentials."""
    if auth is None:
        return {}
    kinds = [kind for kind, counts in (("an API key", auth.keys), ("a JSON web token", auth.jwt is not None)) if counts]
    found = {"bearer": {"type": "http", "scheme": "bearer", "description": f"Takes {' or '.join(kinds)}."}}
    return found | ({"api_key": dict(_API_KEY)} if auth.keys else {})


def add_security_schemes(document: dict[str, Any], auth: AuthConfig | None) -> None:
    """Adds the security schemes to the OpenAPI document and to each operation that needs one. Idempotent."""
    schemes = schemes_for(auth)
    if schemes:
        document.setdefault("components", {})["securitySchemes"] = dict(schemes)
    for operations in document["paths"].values():
        for operation in operations.values():
            if not schemes:
                operation.pop("security", None)
            elif operation.get("security") != []:
                operation["security"] = [{name: []} for name in schemes]


_API_KEY: Mapping[str, str] = MappingProxyType(
    {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."}
)
