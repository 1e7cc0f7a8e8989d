"""Calls a Restate server: wake-ups through its ingress, versions and deployments through its admin API."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from turnwise.dispatch.restate.http import HttpClient, NoAnswer
from turnwise.facts.errors import EngineError

INGRESS_PORT, ADMIN_PORT = 8080, 9070
LOWEST, TESTED = (1, 5), "1.7"
"""The lowest version with retry policies of services, and the version of the tests."""
HANDLER = "workOff"
_FORM = "restate://HOST[:PORT][?admin=PORT]"


class Unreachable(EngineError):
    """Nobody answers at the engine's address. May pass."""


@dataclass(frozen=True, slots=True)
class RestateAddress:
    """The address of a Restate server."""

    ingress: str
    """The URL of its ingress."""
    admin: str
    """The URL of its admin API."""

    @classmethod
    def parse(cls, text: str) -> "RestateAddress":
        """Reads `restate://HOST[:PORT][?admin=PORT]`; `restates://` means TLS. Raises EngineError."""
        try:
            parts = urlsplit(text)
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
            port, admin = parts.port or INGRESS_PORT, int(options.pop("admin", [str(ADMIN_PORT)])[0])
            if not 0 < admin < 2**16:
                raise ValueError
        except ValueError:
            parts, options, port, admin = urlsplit(""), {}, 0, 0
        if parts.scheme not in ("restate", "restates") or not parts.hostname or parts.path not in ("", "/") or options:
            raise EngineError(f"{text!r} is no address of an engine.", fix=f"Write it as {_FORM}.")
        if parts.username or parts.password:
            raise EngineError("The address of the engine holds a user or a password.", fix=f"Write it as {_FORM}.")
        scheme = "https" if parts.scheme == "restates" else "http"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(f"{scheme}://{host}:{port}", f"{scheme}://{host}:{admin}")


class RestateClient:
    """A client of one Restate server. For one event loop."""

    def __init__(self, address: RestateAddress) -> None:
        self._ingress, self._admin = HttpClient(address.ingress), HttpClient(address.admin)

    @classmethod
    def at(cls, address: str) -> "RestateClient":
        """Returns a client of the server at `restate://HOST[:PORT][?admin=PORT]`. Raises EngineError."""
        return cls(RestateAddress.parse(address))

    async def send(self, service: str, key: str, number: int, at: datetime | None = None) -> None:
        """Asks for a call of the session's handler, now or at a time. Pending calls with the same number are one call.

        Raises EngineError.
        """
        target = f"/{quote(service)}/{quote(key, safe='')}/{HANDLER}/send"
        once = str(number)
        if at is not None:
            milliseconds = max(0, int((at - datetime.now(UTC)).total_seconds() * 1000))
            target, once = f"{target}?delay={milliseconds}ms", f"at {at.isoformat()}"
        await _call(self._ingress, "POST", target, number, {"idempotency-key": once})

    async def check(self) -> str:
        """Returns the server's version. Raises EngineError if it cannot be reached or is too old."""
        answer = await _call(self._admin, "GET", "/version")
        version = str(answer.get("version", ""))
        found = re.match(r"(\d+)\.(\d+)", version)
        if found is None:
            raise EngineError(f"{self._admin.url} is no Restate server.", fix="Name its admin port with ?admin=PORT.")
        if not LOWEST <= (int(found[1]), int(found[2])) < (2, 0):
            raise EngineError(
                f"The Restate server at {self._admin.url} has version {version}; 1.5 or later is needed, and below 2.",
                fix=f"Run version {TESTED}.",
            )
        return version

    async def is_registered(self, service: str) -> bool:
        """Returns whether some worker serves the service. Raises EngineError."""
        return bool(await _call(self._admin, "GET", f"/services/{quote(service)}", missing={}))

    async def register(self, worker_url: str) -> None:
        """Registers the workers at that URL. Repeatable. Raises EngineError."""
        # Nothing of a handler is in the engine's journal, so another version at the same URL may finish a call.
        body = {"uri": worker_url, "use_http_11": True, "force": True}
        await _call(self._admin, "POST", "/deployments", body)

    async def close(self) -> None:
        """Closes the connections."""
        await self._ingress.close()
        await self._admin.close()


async def _call(
    server: HttpClient,
    method: str,
    target: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    missing: Any = None,
) -> dict[str, Any]:
    """Returns the JSON object of the answer, or `missing` for the status 404. Raises EngineError."""
    content = None if body is None else json.dumps(body).encode()
    try:
        status, answer = await server.request(method, target, content, headers)
    except NoAnswer as problem:
        raise Unreachable(
            f"The engine at {server.url} cannot be reached: {problem}.", fix="Start it, or correct the address."
        ) from None
    if status == 404 and missing is not None:
        return dict(missing)
    return _answer_of(status, answer, target)


def _answer_of(status: int, content: bytes, target: str) -> dict[str, Any]:
    """Returns the JSON object of a response. Raises EngineError."""
    try:
        answer = json.loads(content or b"{}")
    except ValueError:
        answer = {}
    if not 200 <= status < 300:
        said = answer.get("message") if isinstance(answer, dict) else None
        why = str(said or f"status {status}").partition("\n")[0][:500]
        raise EngineError(f"The engine refuses {urlsplit(target).path}: {why.rstrip('.')}.", fix="See docs/engines.md.")
    return answer if isinstance(answer, dict) else {}
