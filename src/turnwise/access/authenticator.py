"""Authentication: turns the credentials of a request into a caller."""

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from turnwise.access.api_keys import caller_of, is_valid, matches, read_key
from turnwise.access.quotas import RateLimiter
from turnwise.facts.callers import LOCAL_ID, ApiKey, Caller
from turnwise.facts.errors import ConfigError, MissingExtra, NotAuthenticated, TooMany
from turnwise.facts.gateway import AuthConfig, CallerLimits
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.ports.key_store import Keys, KeyStore

if TYPE_CHECKING:
    from turnwise.access.tokens import Tokens

LOCAL = Caller(id=LOCAL_ID, role="admin", user="local", acts_for_users=True, agent_roles=None)
"""The caller of every request when authentication is off."""
KEY_CACHE_SECONDS = 1.0
"""How long a key is cached. A key that another process revokes is accepted for this long at most."""
CACHE_ENTRIES = 10_000
"""Most keys, and most accepted credentials, that are cached."""
CREDENTIAL_CHARACTERS = 16_384
IPV6_SITE_BITS = 64
"""The network part of an IPv6 address. Its owner chooses the other bits freely, so failures count by network."""


def key_store_of(store: object) -> KeyStore:
    """Returns the API keys and counters of a session store.

    Raises:
        ConfigError: The store does not support API keys.
    """
    if isinstance(store, KeyStore):
        return store
    raise ConfigError(f"A {type(store).__name__} keeps no API keys.", fix="Use a SQL session store: store: sqlite:///file.db")


class Authenticator:
    """Authenticates the callers of an app. Without `auth` every caller is `LOCAL`. For one event loop.

    Wrong credentials are counted by client address, in this process only, so that they cost the store no write. Once an address
    exceeds the limit of a minute, its requests are refused before their credential is checked. A credential that was accepted
    recently still passes: clients behind one proxy share an address and must not lock each other out.

    Args:
        app: The app of the accepted API keys.
        auth: The accepted kinds of credentials; None = authentication is off.
        limits: `failures` is the number of wrong credentials that an address may send in a minute.
        keys: The stored API keys.
        issuer: The clock that ends keys.
        clock: Monotonic seconds.

    Raises:
        ConfigError: No kind of credential is accepted, or the token configuration is unsafe.
    """

    def __init__(
        self,
        app: str,
        auth: AuthConfig | None,
        limits: CallerLimits,
        keys: Keys | None = None,
        *,
        issuer: Issuer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._auth = auth
        self._keys = _keys(app, auth, keys, clock) if auth else None
        self._tokens = _tokens(auth) if auth else None
        if auth is not None and self._keys is None and self._tokens is None:
            raise ConfigError(
                "Nobody could get in: gateway.auth lets neither keys nor tokens count.",
                fix="Set its keys or its jwt; leave out gateway.auth if everybody may come in.",
            )
        self._issuer = issuer or SystemIssuer()
        self._failures = RateLimiter(limits.failures, clock=clock)
        # Hashes of accepted credentials, the newest last.
        self._accepted: OrderedDict[bytes, None] = OrderedDict()

    async def caller(self, authorization: str | None, api_key: str | None, address: str) -> Caller:
        """Returns the caller of a request.

        Args:
            authorization: The header `Authorization`: a bearer API key or token. It is ignored when `api_key` is set.
            api_key: An API key from its own header.
            address: The client's address.

        Raises:
            NotAuthenticated: The credential is missing or wrong. The error is the same for every reason.
            TooMany: This address sent too many wrong credentials.
            StoreError: The keys cannot be read.
        """
        if self._auth is None:
            return LOCAL
        credential = api_key or _bearer_token(authorization)
        if not credential:
            raise _not_authenticated()
        address_key, fingerprint = _client_address(address), sha256(credential.encode("utf-8", "surrogatepass")).digest()
        wait = self._failures.known_wait(address_key)
        if wait is not None and fingerprint not in self._accepted:
            raise _too_many(wait)
        caller = await self._authenticate(credential, key_only=bool(api_key))
        if caller is None:
            self._accepted.pop(fingerprint, None)
            wait = await self._failures.spend(address_key)
            raise _not_authenticated() if wait is None else _too_many(wait)
        self._remember_accepted(fingerprint)
        return caller

    async def _authenticate(self, credential: str, *, key_only: bool) -> Caller | None:
        """Returns the caller of an API key or token; None if it is not accepted."""
        if len(credential) > CREDENTIAL_CHARACTERS:
            return None
        read = read_key(credential)
        if read is not None:
            key = await self._keys.find(read[0]) if self._keys else None
            good = key is not None and matches(key, read[1]) and is_valid(key, self._issuer.now())
            return caller_of(key) if key is not None and good else None
        if self._tokens is None or key_only:
            return None
        return await self._tokens.caller(credential)

    def _remember_accepted(self, fingerprint: bytes) -> None:
        self._accepted[fingerprint] = None
        self._accepted.move_to_end(fingerprint)
        if len(self._accepted) > CACHE_ENTRIES:
            self._accepted.popitem(last=False)


class _CachedKeys:
    """Caches stored keys for `KEY_CACHE_SECONDS`."""

    def __init__(self, app: str, keys: Keys, clock: Callable[[], float]) -> None:
        self._app, self._keys, self._clock = app, keys, clock
        # Each key with the time of its read, oldest first.
        self._cached: OrderedDict[str, tuple[ApiKey, float]] = OrderedDict()

    async def find(self, id: str) -> ApiKey | None:
        """Returns the key of that id, which may be KEY_CACHE_SECONDS old; None if there is none."""
        now = self._clock()
        cached = self._cached.get(id)
        if cached is not None and now - cached[1] < KEY_CACHE_SECONDS:
            return cached[0]
        key = await self._keys.find(self._app, id)
        self._cached.pop(id, None)
        if key is not None:
            self._cached[id] = (key, now)
            if len(self._cached) > CACHE_ENTRIES:
                self._cached.popitem(last=False)
        return key


def _keys(app: str, auth: AuthConfig, keys: Keys | None, clock: Callable[[], float]) -> _CachedKeys | None:
    """Returns the keys to accept; None if none are. Raises ConfigError if the store keeps none."""
    if not auth.keys:
        return None
    if keys is None:
        raise ConfigError(
            "gateway.auth.keys lets API keys count, but this session store keeps none.",
            fix="Use a SQL session store, or set gateway.auth.keys: false.",
        )
    return _CachedKeys(app, keys, clock)


def _tokens(auth: AuthConfig) -> "Tokens | None":
    """Returns the checker of tokens; None if none are accepted. Raises MissingExtra."""
    if auth.jwt is None:
        return None
    try:
        from turnwise.access.tokens import Tokens
    except ImportError as error:
        raise MissingExtra("gateway.auth.jwt", "serve") from error
    return Tokens(auth.jwt)


def _bearer_token(authorization: str | None) -> str | None:
    """Returns the credential of a `Bearer` header."""
    scheme, _, rest = (authorization or "").strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else None


def _client_address(address: str) -> str:
    """Returns the address to count failures by: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    if isinstance(parsed, IPv6Address):
        return f"{int(parsed) >> (128 - IPV6_SITE_BITS):x}/{IPV6_SITE_BITS}"
    return str(parsed)


def _not_authenticated() -> NotAuthenticated:
    return NotAuthenticated(
        "The request has no valid credential.", fix="Send the header 'Authorization: Bearer …' with an API key or a token."
    )


def _too_many(wait: float) -> TooMany:
    return TooMany("Too many wrong credentials came from this address.", fix="Try again later.", retry_after=wait)
