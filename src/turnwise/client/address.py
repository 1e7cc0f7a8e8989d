"""Where a gateway is, and the key for it: looked at once, before anything is sent."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError


def checked_url(url: str) -> str:
    """The address without a slash at its end. ConfigError for what is no address of a server."""
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        sound = False
    if not sound:
        shown = "What was given" if "@" in url else repr(url)  # there may be a password in front of it
        raise ConfigError(f"{shown} is no address of a gateway.", fix='Write it as "http://127.0.0.1:8000".')
    return url.strip().rstrip("/")


def is_this_machine(url: str) -> bool:
    """Whether the address never leaves this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def checked_key(key: str | None) -> str | None:
    """The key without space around it, as files have it. ConfigError for one that cannot be sent."""
    if key is None:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("The key is empty, or has characters that no key has.", fix="Pass it as `turnwise keys` showed it.")
    return key
