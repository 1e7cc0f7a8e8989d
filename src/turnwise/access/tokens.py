"""Bearer tokens: checks JSON Web Tokens of another issuer, with its keys from a JWK Set URL, and turns them into callers."""

import asyncio
import json
import logging
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPMessage, HTTPResponse
from typing import IO, Any, NamedTuple, get_args
from urllib.error import HTTPError
from urllib.parse import urlsplit

import jwt
from jwt import PyJWK, PyJWTError

from turnwise.facts.callers import Caller, Role
from turnwise.facts.errors import ConfigError, StoreUnavailable
from turnwise.facts.gateway import JwtConfig
from turnwise.facts.ids import is_storable_id

_log = logging.getLogger("turnwise.access")
_ROLES: tuple[Role, ...] = get_args(Role)
_KEY = "gateway.auth.jwt.key"


class InvalidClaims(ValueError):
    """The claims hold no valid user, role or agent roles."""


class Tokens:
    """Checks tokens against one configuration. For one event loop.

    A token never chooses how it is checked: an algorithm that is not configured, or `none`, is refused before anything else is
    read.

    Raises:
        ConfigError: The keys do not suit the algorithms or are too weak, so that tokens could be forged.
    """

    def __init__(self, config: JwtConfig) -> None:
        self._config = config
        self._published: JwksClient | None = None
        self._key: Any = None
        shared = [algorithm for algorithm in config.algorithms if algorithm.startswith("HS")]
        if shared and len(shared) < len(config.algorithms):
            # Otherwise a token could be signed with the public key as if it were the shared secret.
            raise ConfigError(
                "gateway.auth.jwt.algorithms mixes shared secrets (HS) with public keys.", fix="Name one kind of them."
            )
        if (config.key is None) == (config.jwks_url is None):
            raise ConfigError("gateway.auth.jwt needs a key or a jwks_url, and not both.", fix="Write one of them.")
        if config.key is not None:
            self._key = _secret(config) if shared else _public_key(config)
        elif shared:
            raise ConfigError(
                "gateway.auth.jwt.jwks_url publishes public keys, which are no shared secrets (HS).",
                fix="Name algorithms of public keys, such as RS256, or write the secret as key.",
            )
        else:
            assert config.jwks_url is not None
            self._published = JwksClient(config.jwks_url)

    async def caller(self, token: str) -> Caller | None:
        """Returns the caller of a token, or None for an invalid token.

        The client does not learn the reason. The log names it, without any part of the token.

        Raises:
            StoreUnavailable: The key cannot be fetched.
        """
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in self._config.algorithms:
                raise jwt.InvalidAlgorithmError
            key = await self._key_for(header.get("kid"), algorithm)
            if key is None:
                raise jwt.PyJWKSetError
            return self._read(self._claims(token, key, algorithm))
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            _log.info("A token does not count: %s", type(error).__name__)
            return None

    async def _key_for(self, id: str | None, algorithm: str) -> Any:
        if self._published is None:
            return self._key
        key = await self._published.find(id, algorithm)
        return None if key is None else key.key

    def _claims(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        """Returns the claims of a token with a valid signature, issuer, audience and expiry. Raises the library's errors."""
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._config.audience,
            issuer=self._config.issuer,
            leeway=self._config.leeway_seconds,
            options={"require": ["exp"], "enforce_minimum_key_length": True},
        )

    def _read(self, claims: Mapping[str, Any]) -> Caller:
        """Returns the caller that the claims describe. Raises InvalidClaims."""
        user = claims.get(self._config.user_claim)
        subject = claims.get("sub", user)
        role = claims.get(self._config.role_claim, "user")
        agent_roles = _role_names(claims.get(self._config.agent_roles_claim))
        if not _is_id(user) or not _is_id(subject) or role not in _ROLES or agent_roles is None:
            raise InvalidClaims
        return Caller(id=f"token:{subject}", role=role, user=user, agent_roles=agent_roles)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and is_storable_id(value)


def _role_names(value: object) -> tuple[str, ...] | None:
    """Returns a list of texts, or the words of one text; None for any other value."""
    if value is None:
        return ()
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(_is_id(word) for word in words):
        return None
    return tuple(dict.fromkeys(words))


def _secret(config: JwtConfig) -> str:
    """Returns the shared secret after checking it against every algorithm."""
    assert config.key is not None
    for name in config.algorithms:
        algorithm = jwt.get_algorithm_by_name(name)
        try:
            weak = algorithm.check_key_length(algorithm.prepare_key(config.key))
        except (jwt.PyJWTError, ValueError):
            fix = "For a public key name its algorithms, such as RS256; else write a secret that only you and the issuer know."
            raise ConfigError(
                f"{_KEY} is no shared secret, as {name} wants it, but a public key, or nothing.", fix=fix
            ) from None
        if weak:
            fix = f"Use one of {name[2:]} random bits or more, such as `openssl rand -hex {int(name[2:]) // 8}` makes."
            raise ConfigError(f"{_KEY} is shorter than the hash of {name}: it could be guessed.", fix=fix)
    return config.key


def _public_key(config: JwtConfig) -> Any:
    """Returns the public key after checking it against every algorithm."""
    assert config.key is not None
    key: Any = None
    for name in config.algorithms:
        algorithm = jwt.get_algorithm_by_name(name)
        try:
            key = algorithm.prepare_key(config.key)
        except Exception:  # the library raises many kinds of errors for a bad key
            fix = "Write it as PEM: -----BEGIN PUBLIC KEY-----"
            raise ConfigError(f"{_KEY} is no public key for {name}.", fix=fix) from None
        if not hasattr(key, "verify"):
            fix = "Write the public one; the private one stays with the issuer of the tokens."
            raise ConfigError(f"{_KEY} is a private key.", fix=fix)
        if algorithm.check_key_length(key):
            raise ConfigError(f"{_KEY} is too short for {name}: tokens could be forged.", fix="Use one of 2048 bits or more.")
    return key


FRESH_SECONDS = 300.0
"""Keys younger than this are used without a new fetch."""
STALE_SECONDS = 3600.0
"""Keys up to this age are used while the URL cannot be reached, so that an outage there causes none here."""
UNKNOWN_KEY_SECONDS = 30.0
"""Shortest time between two fetches because of an unknown key id."""
RETRY_SECONDS = 5.0
"""Shortest time between two fetches while there are no keys."""
REFRESH_WAIT_SECONDS = 0.5
"""How long a request waits for newer keys while the old ones are still usable."""
SOCKET_SECONDS = 5.0
FETCH_SECONDS = 10.0
MOST_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16


class JsonWebKey(NamedTuple):
    """A public key for checking tokens."""

    id: str | None
    family: str
    """`RS` or `ES`."""
    algorithm: str | None
    """The only algorithm of the key; None = any algorithm of its family."""
    key: Any

    def suits(self, algorithm: str) -> bool:
        """Returns whether the key checks tokens of this algorithm."""
        return algorithm.startswith(self.family) and self.algorithm in {None, algorithm}


class JwksClient:
    """Fetches the keys of a URL in a thread when they are needed, and caches them. For one event loop.

    Args:
        url: An http or https URL of a JWK Set.
        clock: Monotonic seconds.

    Raises:
        ConfigError: The URL is not an http or https URL, or it holds a user or a password.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._clock = _checked_url(url), clock
        self._keys: tuple[JsonWebKey, ...] | None = None
        self._fetched = self._tried = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, id: str | None, algorithm: str) -> JsonWebKey | None:
        """Returns the key with this id for this algorithm.

        Args:
            id: The key id; None = the only key for the algorithm.
            algorithm: The token's algorithm, such as `RS256`.

        Returns:
            The key, or None when no key or more than one fits.

        Raises:
            StoreUnavailable: The keys cannot be fetched, and there are no usable old ones.
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
        key = _single_match(self._keys, id, algorithm)
        if key is None and await self._fetch(UNKNOWN_KEY_SECONDS):
            key = _single_match(self._keys, id, algorithm)
        return key

    def _age(self, moment: float) -> float:
        return self._clock() - moment

    async def _fetch(self, pause: float, *, patience: float | None = None) -> bool:
        """Fetches the keys, unless the last try is less than `pause` seconds ago. All waiting callers share one fetch.

        Args:
            pause: Shortest time in seconds since the last try.
            patience: How long to wait, in seconds from the start of the fetch; None = until it ends.

        Returns:
            True when a fetch was made, else False.
        """
        if self._fetching is None:
            if self._age(self._tried) < pause:
                return False
            self._tried = self._clock()
            self._fetching = asyncio.create_task(self._try())
        # `wait` does not cancel the task: other callers still wait for it.
        await asyncio.wait({self._fetching}, timeout=None if patience is None else max(patience - self._age(self._tried), 0.0))
        return True

    async def _try(self) -> None:
        """Fetches the keys. Logs a failure, after which the earlier keys stay."""
        try:
            self._keys = await asyncio.to_thread(_fetch_keys, self._url)
            self._fetched = self._tried
        except Exception as error:  # the content of the URL is not under our control
            _log.warning("The keys at %s cannot be fetched: %s: %s", urlsplit(self._url).hostname, type(error).__name__, error)
        finally:
            self._fetching = None


def _single_match(keys: tuple[JsonWebKey, ...], id: str | None, algorithm: str) -> JsonWebKey | None:
    suiting = [key for key in keys if key.suits(algorithm) and id in {None, key.id}]
    return suiting[0] if len(suiting) == 1 else None


def _checked_url(url: str) -> str:
    """Returns the URL. Raises ConfigError for an invalid one, or one with a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        usable = usable and url.isascii() and url.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in url:
        raise ConfigError("gateway.auth.jwt.jwks_url is no URL.", fix="Write it as https://host[:port]/path.")
    if "@" in parts.netloc:
        # The host name is logged and looked up by DNS: it must not hold a password.
        raise ConfigError(
            "gateway.auth.jwt.jwks_url holds a user or a password.", fix="Leave it out: such keys are published to everybody."
        )
    return url


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: keys come only from the configured URL."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _fetch_keys(url: str) -> tuple[JsonWebKey, ...]:
    """Fetches and parses the keys. Raises ValueError for an invalid, too large or too slow answer, and network errors."""
    until = time.monotonic() + FETCH_SECONDS
    request = urllib.request.Request(url, headers={"Accept": "application/jwk-set+json, application/json"})
    body = bytearray()
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SOCKET_SECONDS) as response:
            while chunk := _read_chunk(response, until):
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError(f"more than {MOST_BYTES:,} bytes came")
    except HTTPError as error:
        error.close()
        raise
    keys = tuple(_usable_keys(json.loads(bytes(body))))
    if not keys:
        raise ValueError("no key in it can be used")
    return keys


def _read_chunk(response: HTTPResponse, until: float) -> bytes:
    if time.monotonic() > until:
        raise ValueError(f"it took longer than {FETCH_SECONDS:g} seconds")
    return response.read1(CHUNK_BYTES)


def _usable_keys(published: Any) -> Iterator[JsonWebKey]:
    """Yields the public RSA and EC keys for signatures of a JWK Set. Raises ValueError for anything else."""
    if not isinstance(published, Mapping) or not isinstance(published.get("keys"), list):
        raise ValueError("it is no JWK Set")
    for entry in published["keys"]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") not in {"RSA", "EC"}:
            continue
        try:
            key = PyJWK(entry).key
        except (PyJWTError, TypeError, KeyError):
            continue
        if hasattr(key, "verify"):  # a private key has no `verify`
            id_ = entry.get("kid")
            family = "RS" if entry["kty"] == "RSA" else "ES"
            yield JsonWebKey(id_ if isinstance(id_, str) else None, family, entry.get("alg"), key)
