"""The public keys that whoever makes tokens publishes: a JWK Set at a URL."""

import asyncio
import json
import logging
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPMessage, HTTPResponse
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit

from jwt import PyJWK, PyJWTError

from turnwise.facts.errors import ConfigError, StoreUnavailable

FRESH_SECONDS = 300.0
"""How old keys may be that are used without a look."""
STALE_SECONDS = 3600.0
"""How old they may be when nobody answers there: an outage there is not one here."""
UNKNOWN_KEY_SECONDS = 30.0
"""How often it is looked at most for a key that is not among them."""
RETRY_SECONDS = 5.0
"""How often it is tried at most while there are no keys at all."""
REFRESH_WAIT_SECONDS = 0.5
"""How long newer keys are waited for while the old ones can still be used."""
SOCKET_SECONDS = 5.0
FETCH_SECONDS = 10.0
MOST_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16

_log = logging.getLogger("turnwise.access")


class JsonWebKey(NamedTuple):
    """A public key, the family it belongs to (RS, ES), and the one algorithm it is for; None = any of its family."""

    id: str | None
    family: str
    algorithm: str | None
    key: Any

    def suits(self, algorithm: str) -> bool:
        """Whether tokens of that algorithm may be checked with it."""
        return algorithm.startswith(self.family) and self.algorithm in {None, algorithm}


class JwksClient:
    """The keys at a URL, fetched beside the event loop when they are needed, and remembered. For one event loop.

    ConfigError for what is no http or https URL. clock: seconds that only grow.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._clock = _checked(url), clock
        self._keys: tuple[JsonWebKey, ...] | None = None
        self._fetched = self._tried = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, id: str | None, algorithm: str) -> JsonWebKey | None:
        """The key of that id for that algorithm; without an id the only one there is. None when there is none.

        StoreUnavailable when the keys cannot be had.
        """
        if self._age(self._fetched) >= FRESH_SECONDS:
            usable = self._keys is not None and self._age(self._fetched) < STALE_SECONDS
            await self._fetch(
                UNKNOWN_KEY_SECONDS if self._keys else RETRY_SECONDS, patience=REFRESH_WAIT_SECONDS if usable else None
            )
        if self._keys is None or self._age(self._fetched) >= STALE_SECONDS:
            raise StoreUnavailable(
                "The keys by which tokens are checked cannot be fetched.", fix="Check gateway.auth.jwt.jwks_url, or try again."
            )
        found = _single_match(self._keys, id, algorithm)
        if found is None and await self._fetch(UNKNOWN_KEY_SECONDS):
            found = _single_match(self._keys, id, algorithm)
        return found

    def _age(self, moment: float) -> float:
        return self._clock() - moment

    async def _fetch(self, pause: float, *, patience: float | None = None) -> bool:
        """Fetches the keys, if that was not tried for so long: once for all who wait. Whether it was tried.

        patience: how long after it began to wait for it; None = until it is done.
        """
        if self._fetching is None:
            if self._age(self._tried) < pause:
                return False
            self._tried = self._clock()
            self._fetching = asyncio.create_task(self._try())
        # Whoever stops waiting takes nothing from the others.
        await asyncio.wait({self._fetching}, timeout=None if patience is None else max(patience - self._age(self._tried), 0.0))
        return True

    async def _try(self) -> None:
        try:
            self._keys = await asyncio.to_thread(_read, self._url)
            self._fetched = self._tried
        except Exception as error:  # whatever is published there, and however it fails
            _log.warning("The keys at %s cannot be fetched: %s: %s", urlsplit(self._url).hostname, type(error).__name__, error)
        finally:
            self._fetching = None


def _single_match(keys: tuple[JsonWebKey, ...], id: str | None, algorithm: str) -> JsonWebKey | None:
    suiting = [key for key in keys if key.suits(algorithm) and id in {None, key.id}]
    return suiting[0] if len(suiting) == 1 else None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        usable = usable and url.isascii() and url.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in url:
        raise ConfigError("gateway.auth.jwt.jwks_url is no URL.", fix="Write it as https://host[:port]/path.")
    if "@" in parts.netloc:
        # It would be taken for a part of the host: it is looked up by name, and stands in log lines.
        raise ConfigError(
            "gateway.auth.jwt.jwks_url holds a user or a password.", fix="Leave it out: such keys are published to everybody."
        )
    return url


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys are taken from where they were said to be, and from nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _read(url: str) -> tuple[JsonWebKey, ...]:
    """Fetches them. Raises whatever goes wrong; ValueError for what is no set of keys, or is too large or too slow."""
    until = time.monotonic() + FETCH_SECONDS
    request = urllib.request.Request(url, headers={"Accept": "application/jwk-set+json, application/json"})
    body = bytearray()
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SOCKET_SECONDS) as response:
            while piece := _read_chunk(response, until):
                body += piece
                if len(body) > MOST_BYTES:
                    raise ValueError(f"more than {MOST_BYTES:,} bytes came")
    except HTTPError as error:
        error.close()
        raise
    found = tuple(_usable(json.loads(bytes(body))))
    if not found:
        raise ValueError("no key in it can be used")
    return found


def _read_chunk(response: HTTPResponse, until: float) -> bytes:
    if time.monotonic() > until:
        raise ValueError(f"it took longer than {FETCH_SECONDS:g} seconds")
    return response.read1(CHUNK_BYTES)


def _usable(published: Any) -> Iterator[JsonWebKey]:
    if not isinstance(published, Mapping) or not isinstance(published.get("keys"), list):
        raise ValueError("it is no JWK Set")
    for each in published["keys"]:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") not in {"RSA", "EC"}:
            continue
        try:
            key = PyJWK(each).key
        except (PyJWTError, TypeError, KeyError):
            continue
        if hasattr(key, "verify"):  # a private key, which nobody should publish, has none
            id_ = each.get("kid")
            family = "RS" if each["kty"] == "RSA" else "ES"
            yield JsonWebKey(id_ if isinstance(id_, str) else None, family, each.get("alg"), key)
