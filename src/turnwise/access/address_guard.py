"""Guards URLs that others write against server-side request forgery: only public addresses may be reached.

Push notifications and the remote agents of definitions use it.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from turnwise.facts.errors import RequestInvalid

PORTS = {"http": 80, "https": 443}
FIRST_FREE_PORT = 1024
"""Below this port only 80 and 443 are allowed; the others belong to services with other protocols."""
LOOKUPS, LOOKUP_SECONDS, LOOKUP_POLL_SECONDS = 64, 5.0, 0.05
"""Maximum concurrent lookups, timeout of one in seconds, and the polling interval while all slots are taken."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host and port to addresses. Raises OSError for an unknown host."""

_lookups = threading.BoundedSemaphore(LOOKUPS)
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_PATH = re.compile(r"[!-~]*")
# Special-purpose ranges that not all Python versions know. The first is the host agent of every Azure machine.
_SPECIAL_4 = tuple(map(ip_network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")))
_SPECIAL_6 = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
_UNICAST_6 = ip_network("2000::/3")
# Ranges that embed an IPv4 address, and the number of bits after it.
_EMBEDDING_IPV4 = (
    (ip_network("::ffff:0:0/96"), 0),  # mapped
    (ip_network("64:ff9b::/96"), 0),  # NAT64
    (ip_network("2002::/16"), 80),  # 6to4
)


class UrlField(NamedTuple):
    """Where a URL is written, for error messages."""

    name: str
    """The field of the request."""
    setting: str
    """The setting that allows every address."""

    def refused(self, problem: str, fix: str = "Correct it.") -> RequestInvalid:
        """Returns the error that points to the field."""
        return RequestInvalid(problem, fix=fix, where=(self.name,))


PUSH_URL = UrlField("pushNotificationConfig.url", "gateway.protocols.a2a.private_pushes")
REMOTE_AGENT = UrlField("made_by.remote", "definitions.private_remotes")


class Target(NamedTuple):
    """A parsed URL."""

    scheme: str
    host: str
    port: int
    path: str
    """The path with the query."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS[self.scheme] == self.port else f"{host}:{self.port}"


def parse_target(url: str, field: UrlField = PUSH_URL) -> Target:
    """Parses a URL. Raises RequestInvalid unless it is an absolute http or https URL without credentials."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        raise field.refused("The value is not a URL.") from None
    if scheme not in PORTS:
        raise field.refused("Only http and https URLs are supported.", "Send an absolute URL: https://host/path.")
    if "@" in parts.netloc:
        raise field.refused("The URL contains credentials.", "Send secrets as token or authentication.")
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    if not _HOST.fullmatch(host) or port == 0 or not _PATH.fullmatch(path + query):
        raise field.refused("The URL cannot be requested.", "Write the host in ASCII, and escape the rest.")
    return Target(scheme, host, port or PORTS[scheme], path + query)


def is_public(address: str) -> bool:
    """Returns whether an address is a public unicast address. An embedded IPv4 address decides for its IPv6 form."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    if parsed.scope_id is not None:
        return False
    for network, suffix_bits in _EMBEDDING_IPV4:
        if parsed in network:
            return _is_public_4(IPv4Address(int(parsed) >> suffix_bits & 0xFFFFFFFF))
    return parsed in _UNICAST_6 and _is_ordinary(parsed) and not any(parsed in special for special in _SPECIAL_6)


def _is_public_4(address: IPv4Address) -> bool:
    return _is_ordinary(address) and not any(address in special for special in _SPECIAL_4)


def _is_ordinary(address: IPv4Address | IPv6Address) -> bool:
    """Returns whether the address is a public one, no multicast, private, local or reserved one."""
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
        or address.is_private
        or address.is_unspecified
    )


async def resolve_host(host: str, port: int, *, infos: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> Sequence[str]:
    """Resolves a host with the system resolver, once a lookup slot is free. Raises OSError. The caller bounds the time."""
    while not _lookups.acquire(blocking=False):  # noqa: ASYNC110 (it is shared by all event loops, and by threads)
        await asyncio.sleep(LOOKUP_POLL_SECONDS)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sequence[str]] = loop.create_future()

    def look_up() -> None:
        try:
            addresses = (str(info[4][0]) for info in infos(host, port, type=socket.SOCK_STREAM))
            report = partial(_set_outcome, future, list(dict.fromkeys(addresses)))
        except (OSError, UnicodeError) as problem:
            report = partial(_set_outcome, future, OSError(str(problem)))
        finally:
            _lookups.release()
        with suppress(RuntimeError):  # the waiting loop is closed
            loop.call_soon_threadsafe(report)

    # A daemon thread, because a lookup may be slow and cannot be cancelled, and must not delay the process's exit.
    try:
        threading.Thread(target=look_up, name="turnwise-lookup", daemon=True).start()
    except RuntimeError as problem:  # the thread limit is reached
        _lookups.release()
        raise OSError(str(problem)) from None
    return await future


def _set_outcome(future: "asyncio.Future[Sequence[str]]", outcome: Sequence[str] | Exception) -> None:
    """Gives the addresses or the error to the waiting caller, unless it has gone."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class AddressGuard:
    """Checks which addresses may be reached.

    Args:
        private: Allow every address, for development on one machine.
        resolve: Resolves host names.
        field: Where the URLs are written.
    """

    def __init__(self, *, private: bool = False, resolve: Resolve = resolve_host, field: UrlField = PUSH_URL) -> None:
        self._private, self._resolve, self.field = private, resolve, field

    async def addresses(self, target: Target) -> Sequence[str]:
        """Resolves a target and checks all of its addresses. Connect to the returned ones, because a later lookup may differ.

        Raises:
            RequestInvalid: The host is unknown, or its port or any address is not allowed. The addresses are not revealed.
        """
        if not self._private and target.port < FIRST_FREE_PORT and target.port not in PORTS.values():
            fix = f"Use port 80, 443, or any from {FIRST_FREE_PORT}."
            raise self.field.refused("The port is reserved for services other than HTTP.", fix)
        addresses: Sequence[str] = ()
        with suppress(OSError):  # a timeout is one
            async with asyncio.timeout(LOOKUP_SECONDS):
                addresses = await self._resolve(target.host, target.port)
        if not addresses:
            raise self.field.refused("The host is not found.", "Check the name.")
        if not self._private and not all(map(is_public, addresses)):
            fix = f"Send the URL of a public host; in development, set {self.field.setting}."
            raise self.field.refused("The host has an address that is not public.", fix)
        return addresses

    async def check(self, url: str) -> None:
        """Raises RequestInvalid unless the URL may be reached now."""
        await self.addresses(parse_target(url, self.field))
