"""Who asks: the caller that a request's credentials make."""

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from turnwise.access.api_keys import caller_of, is_valid, matches, read_key
from turnwise.access.rate_limit import RateLimiter
from turnwise.facts.callers import ApiKey, Caller
from turnwise.facts.errors import ConfigError, MissingExtra, NotAuthenticated, TooMany
from turnwise.facts.gateway import AuthConfig, CallerLimits
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.ports.key_store import Gate, Keys

if TYPE_CHECKING:
    from turnwise.access.tokens import Tokens

LOCAL = Caller(id="local", role="admin", user="local", acts_for_users=True, agent_roles=None)
"""Who everybody is where nobody has to say who he is."""
KEY_CACHE_SECONDS = 1.0
"""How long a key is remembered: as long as one may still count that was revoked elsewhere."""
CACHE_ENTRIES = 10_000
CREDENTIAL_CHARACTERS = 16_384
IPV6_SITE_BITS = 64
"""Of an IPv6 address, as many name whom it was given to; the others he may choose."""


def key_store_of(store: object) -> Gate:
    """The keys and counters that a session store keeps. ConfigError for one that keeps none."""
    if isinstance(store, Gate):
        return store
    raise ConfigError(f"A {type(store).__name__} keeps no API keys.", fix="Use a SQL session store: store: sqlite:///file.db")


class Authenticator:
    """Lets callers of an app in. Without `auth` everybody is `LOCAL`. For one event loop.

    Wrong credentials are counted by address. An address with too many of them in a minute is refused without a look at what
    it brings, unless that was good a short while ago: who shares an address with somebody else, as all do behind one proxy,
    is not locked out by him. They are counted in this process alone, as one without rights is to cost the store no write.

    ConfigError when nobody could get in, and for tokens that must not count. issuer: whose time ends keys. clock: seconds that
    only grow.
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
        # Fingerprints of what was good, the newest last.
        self._accepted: OrderedDict[bytes, None] = OrderedDict()

    async def caller(self, authorization: str | None, api_key: str | None, address: str) -> Caller:
        """Whose the API key is, or else what the header `Authorization` bears: an API key or a token.

        NotAuthenticated, the same for whatever is wrong; TooMany after too many wrong ones from that address; StoreError when
        the keys cannot be read.
        """
        if self._auth is None:
            return LOCAL
        credential = api_key or _bearer_token(authorization)
        if not credential:
            raise _not_authenticated()
        site, fingerprint = _client_address(address), sha256(credential.encode("utf-8", "surrogatepass")).digest()
        wait = self._failures.known_wait(site)
        if wait is not None and fingerprint not in self._accepted:
            raise _too_many(wait)
        found = await self._found(credential, key_only=bool(api_key))
        if found is None:
            self._accepted.pop(fingerprint, None)
            wait = await self._failures.spend(site)
            raise _not_authenticated() if wait is None else _too_many(wait)
        self._remember_accepted(fingerprint)
        return found

    async def _found(self, credential: str, *, key_only: bool) -> Caller | None:
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
    """Keys as they were read less than a second ago."""

    def __init__(self, app: str, keys: Keys, clock: Callable[[], float]) -> None:
        self._app, self._keys, self._clock = app, keys, clock
        # In the order in which they were read, each with when it was asked for.
        self._found: OrderedDict[str, tuple[ApiKey, float]] = OrderedDict()

    async def find(self, id: str) -> ApiKey | None:
        now = self._clock()
        known = self._found.get(id)
        if known is not None and now - known[1] < KEY_CACHE_SECONDS:
            return known[0]
        key = await self._keys.find(self._app, id)
        self._found.pop(id, None)
        if key is not None:
            self._found[id] = (key, now)
            if len(self._found) > CACHE_ENTRIES:
                self._found.popitem(last=False)
        return key


def _keys(app: str, auth: AuthConfig, keys: Keys | None, clock: Callable[[], float]) -> _CachedKeys | None:
    if not auth.keys:
        return None
    if keys is None:
        raise ConfigError(
            "gateway.auth.keys lets API keys count, but this session store keeps none.",
            fix="Use a SQL session store, or set gateway.auth.keys: false.",
        )
    return _CachedKeys(app, keys, clock)


def _tokens(auth: AuthConfig) -> "Tokens | None":
    if auth.jwt is None:
        return None
    try:
        from turnwise.access.tokens import Tokens
    except ImportError as error:
        raise MissingExtra("gateway.auth.jwt", "serve") from error
    return Tokens(auth.jwt)


def _bearer_token(authorization: str | None) -> str | None:
    """What stands behind `Bearer`."""
    scheme, _, rest = (authorization or "").strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else None


def _client_address(address: str) -> str:
    """Whose address it is, as far as that can be seen: somebody with IPv6 has very many."""
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
        "There is no credential that counts.", fix="Send the header 'Authorization: Bearer …' with an API key or a token."
    )


def _too_many(wait: float) -> TooMany:
    return TooMany("Too many wrong credentials came from this address.", fix="Try again later.", retry_after=wait)
