"""Calls a Restate server: wake-ups through its ingress, versions and deployments through its admin API."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from turnwise.facts.errors import EngineError, MissingExtra

INGRESS_PORT, ADMIN_PORT = 8080, 9070
LOWEST, TESTED = (1, 5), "1.7"
"""The lowest version whose services have a retry policy, and the version of the tests."""
TIMEOUTS = {"connect": 3.0, "read": 10.0, "write": 5.0, "pool": 10.0}
CONNECTIONS = 3
"""Few, because the pool looks at each of them before each request."""
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
        try:
            import httpcore
        except ImportError:
            raise MissingExtra("Restate", "restate") from None
        self._address = address
        self._failures = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)
        self._pool = httpcore.AsyncConnectionPool(max_connections=CONNECTIONS, keepalive_expiry=30.0)

    @classmethod
    def at(cls, address: str) -> "RestateClient":
        """Returns a client of the server at `restate://HOST[:PORT][?admin=PORT]`. Raises EngineError, MissingExtra."""
        return cls(RestateAddress.parse(address))

    async def send(self, service: str, key: str, number: int, at: datetime | None = None) -> None:
        """Asks for a call of the session's handler, now or at a time. Pending calls with the same number are one call.

        Raises EngineError.
        """
        url = f"{self._address.ingress}/{quote(service)}/{quote(key, safe='')}/{HANDLER}/send"
        once = str(number)
        if at is not None:
            milliseconds = max(0, int((at - datetime.now(UTC)).total_seconds() * 1000))
            url, once = f"{url}?delay={milliseconds}ms", f"at {at.isoformat()}"
        await self._call("POST", url, number, {"idempotency-key": once})

    async def check(self) -> str:
        """Returns the server's version. Raises EngineError if it cannot be reached or is too old."""
        answer = await self._call("GET", f"{self._address.admin}/version")
        version = str(answer.get("version", ""))
        found = re.match(r"(\d+)\.(\d+)", version)
        if found is None:
            raise EngineError(f"{self._address.admin} is no Restate server.", fix="Name its admin port with ?admin=PORT.")
        if not LOWEST <= (int(found[1]), int(found[2])) < (2, 0):
            raise EngineError(
                f"The Restate server at {self._address.admin} has version {version}; 1.5 or later is needed, and below 2.",
                fix=f"Run version {TESTED}.",
            )
        return version

    async def is_registered(self, service: str) -> bool:
        """Returns whether some worker serves the service. Raises EngineError."""
        return bool(await self._call("GET", f"{self._address.admin}/services/{quote(service)}", missing={}))

    async def register(self, worker_url: str) -> None:
        """Registers the workers at that URL. Repeatable. Raises EngineError."""
        # Nothing of a handler is in the engine's journal, so another version at the same URL may finish a call.
        body = {"uri": worker_url, "use_http_11": True, "force": True}
        await self._call("POST", f"{self._address.admin}/deployments", body)

    async def close(self) -> None:
        """Closes the connections."""
        await self._pool.aclose()

    async def _call(
        self, method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, missing: Any = None
    ) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        sent = {"host": urlsplit(url).netloc, "content-type": "application/json", "accept": "application/json"}
        sent |= {"content-length": str(len(content))} if content is not None else {}
        sent |= headers or {}
        try:
            response = await self._pool.request(
                method, url, headers=list(sent.items()), content=content, extensions={"timeout": TIMEOUTS}
            )
        except self._failures as problem:
            place = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
            raise Unreachable(
                f"The engine at {place} cannot be reached: {problem or type(problem).__name__}.",
                fix="Start it, or correct the address.",
            ) from None
        if response.status == 404 and missing is not None:
            return dict(missing)
        return _answer_of(response.status, response.content, url)


def _answer_of(status: int, content: bytes, url: str) -> dict[str, Any]:
    """Returns the JSON object of a response. Raises EngineError."""
    try:
        answer = json.loads(content or b"{}")
    except ValueError:
        answer = {}
    if not 200 <= status < 300:
        said = answer.get("message") if isinstance(answer, dict) else None
        why = str(said or f"status {status}").partition("\n")[0][:500]
        raise EngineError(f"The engine refuses {urlsplit(url).path}: {why.rstrip('.')}.", fix="See docs/engines.md.")
    return answer if isinstance(answer, dict) else {}
