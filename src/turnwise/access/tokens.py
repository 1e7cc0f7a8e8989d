"""Bearer tokens: checks JSON Web Tokens of another issuer and turns them into callers."""

import logging
from collections.abc import Mapping
from typing import Any, get_args

import jwt

from turnwise.access.jwks import JwksClient
from turnwise.facts.callers import Caller, Role
from turnwise.facts.errors import ConfigError
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
