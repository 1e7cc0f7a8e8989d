"""Reads the `gateway` section of a configuration file and checks its combinations of settings."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path

from turnwise.access.authenticator import Authenticator
from turnwise.access.quotas import Quotas
from turnwise.config.document import Document, Where
from turnwise.facts.errors import ConfigError, MissingExtra
from turnwise.facts.gateway import GatewayConfig, Protocols, Switch
from turnwise.ports.key_store import KeyStore

ANY_ORIGIN = "*"

_ORIGIN = re.compile(r"https?://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


def is_installed(extra: str) -> bool:
    """Whether the package of a protocol's extra can be imported."""
    return find_spec(extra) is not None


def check_gateway(document: Document, config: GatewayConfig) -> GatewayConfig:
    """Reports the settings that cannot be served. Returns them with absolute paths; the defaults if one is invalid."""
    if document.has_problem(("gateway",)):
        return GatewayConfig()
    config = _with_absolute_paths(config, document.folder)
    for where, error in gateway_problems(config):
        document.report_error(("gateway", *where), error)
    return config


def gateway_problems(config: GatewayConfig) -> Iterator[tuple[Where, ConfigError]]:
    """Yields the settings that cannot be served, each with its location below `gateway`.

    Keys and tokens are not checked here but by the authenticator.
    """
    if config.auth is None and not is_loopback(config.host):
        yield (
            ("host",),
            ConfigError(
                f"The gateway would let everybody in at {config.host!r}, as an admin: without gateway.auth it listens to this "
                "machine alone.",
                fix="Write `gateway: {auth: {keys: true}}` and make a key with `turnwise keys create`, or take host 127.0.0.1.",
            ),
        )
    for index, origin in enumerate(config.origins):
        if origin == ANY_ORIGIN and config.auth is None:
            problem = "Without gateway.auth, any web page could act as an admin here."
            yield ("origins", index), ConfigError(problem, fix="Name the pages' origins, or set gateway.auth.")
        elif origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            fix = "Write it as browsers do: https://host or https://host:port, in small letters, without a path; or '*'."
            yield ("origins", index), ConfigError(f"{origin!r} is not an origin of web pages.", fix=fix)
    for index, proxy in enumerate(config.trusted_proxies):
        if not _is_network(proxy):
            fix = "Write an address such as 10.0.0.7, or a network such as 10.0.0.0/8."
            yield ("trusted_proxies", index), ConfigError(f"{proxy!r} is not an address of a proxy.", fix=fix)
    for protocol in protocols_without_extra(config.protocols, wanted=True):
        yield ("protocols", protocol), MissingExtra(f"gateway.protocols.{protocol}", protocol)
    adk = config.protocols.adk
    if adk.on is not False and adk.web is not None and not (Path(adk.web) / "index.html").is_file():
        fix = "Name the folder with its index.html, such as google/adk/cli/browser of an installed google-adk."
        yield ("protocols", "adk", "web"), ConfigError(f"There is no web page in {adk.web!r}.", fix=fix)


def protocols_without_extra(
    config: Protocols, *, wanted: bool, is_there: Callable[[str], bool] = is_installed
) -> Sequence[str]:
    """Returns the protocols that miss their extra.

    Args:
        wanted: True = checks the protocols that are switched on; False = those that the file does not mention.
        is_there: says whether an extra is installed.
    """
    switches: Mapping[str, Switch] = {"a2a": config.a2a, "mcp": config.mcp}
    said = True if wanted else None
    return [name for name, switch in switches.items() if switch.on is said and not is_there(name)]


def access_control(app: str, config: GatewayConfig, store: object) -> tuple[Authenticator, Quotas]:
    """Builds the app's authenticator and quotas.

    Args:
        store: the session store; it also holds keys and counters if it is a `KeyStore`.

    Raises:
        ConfigError: if the settings are invalid, or need a store of keys that this one is not.
    """
    key_store = store if isinstance(store, KeyStore) else None
    keys, counters = (key_store.keys, key_store.counters) if key_store is not None else (None, None)
    return Authenticator(app, config.auth, config.limits, keys), Quotas(app, config.limits, counters)


def is_loopback(host: str) -> bool:
    """Whether a server on that host is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _with_absolute_paths(config: GatewayConfig, folder: Path) -> GatewayConfig:
    """Makes the relative paths absolute: they are relative to the file's folder."""
    adk = config.protocols.adk
    if adk.web is None:
        return config
    placed = adk.replace(web=str(folder / adk.web))
    return config.replace(protocols=config.protocols.replace(adk=placed))


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True
