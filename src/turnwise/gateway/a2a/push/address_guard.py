"""Where notifications may be sent: callers name the URLs, and none of them is to reach what only this machine reaches."""

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

from turnwise.gateway.a2a.messages import invalid_field

URL = "pushNotificationConfig.url"
PORTS = {"http": 80, "https": 443}
FIRST_FREE_PORT = 1024
"""Below it only the ports of the web are notified: the others are of services that understand something else."""
LOOKUPS, LOOKUP_SECONDS, BUSY_SECONDS = 64, 5.0, 0.05
"""How many names are looked up at once, how long one may take, and how often whoever waits for his turn looks for it."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port there. OSError when it has none."""

_lookups = threading.BoundedSemaphore(LOOKUPS)
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_PATH = re.compile(r"[!-~]*")
# What Python does not, or not in all versions, know to be for special purposes. The first is in each machine of Azure its host.
_SPECIAL_4 = tuple(map(ip_network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")))
_SPECIAL_6 = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
_UNICAST_6 = ip_network("2000::/3")
# Those that hold an IPv4 address, and how many bits stand behind it.
_EMBEDDING_IPV4 = (
    (ip_network("::ffff:0:0/96"), 0),  # mapped
    (ip_network("64:ff9b::/96"), 0),  # NAT64
    (ip_network("2002::/16"), 80),  # 6to4
)


class Target(NamedTuple):
    """A URL taken apart. path: with the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host as the header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS[self.scheme] == self.port else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """What that URL names. RequestInvalid for what is no URL that can be notified."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        raise invalid_field(URL, "It is no URL.") from None
    if scheme not in PORTS:
        raise invalid_field(URL, "Only http and https are notified.", fix="Send an absolute URL: https://host/path.")
    if "@" in parts.netloc:
        raise invalid_field(URL, "It holds a user's name.", fix="Send what is secret as the token, or as the authentication.")
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    if not _HOST.fullmatch(host) or port == 0 or not _PATH.fullmatch(path + query):
        raise invalid_field(URL, "It is no URL that can be asked for.", fix="Write the host in ASCII, and escape the rest.")
    return Target(scheme, host, port or PORTS[scheme], path + query)


def is_public(address: str) -> bool:
    """Whether that is the address of one host that everybody reaches. One that holds an IPv4 address is judged by that."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    if parsed.scope_id is not None:
        return False
    for network, behind in _EMBEDDING_IPV4:
        if parsed in network:
            return _is_public_4(IPv4Address(int(parsed) >> behind & 0xFFFFFFFF))
    return parsed in _UNICAST_6 and _is_ordinary(parsed) and not any(parsed in special for special in _SPECIAL_6)


def _is_public_4(address: IPv4Address) -> bool:
    return _is_ordinary(address) and not any(address in special for special in _SPECIAL_4)


def _is_ordinary(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
        or address.is_private
        or address.is_unspecified
    )


async def resolve_host(host: str, port: int, *, infos: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> Sequence[str]:
    """The addresses of a host, by this machine's resolver: when it is their turn, so whoever asks bounds the time. OSError."""
    while not _lookups.acquire(blocking=False):  # noqa: ASYNC110 (it is shared by all event loops, and by threads)
        await asyncio.sleep(BUSY_SECONDS)
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[str]] = loop.create_future()

    def look() -> None:
        try:
            addresses = (str(info[4][0]) for info in infos(host, port, type=socket.SOCK_STREAM))
            told = partial(_set_outcome, found, list(dict.fromkeys(addresses)))
        except (OSError, UnicodeError) as problem:
            told = partial(_set_outcome, found, OSError(str(problem)))
        finally:
            _lookups.release()
        with suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(told)

    # A thread of its own, that the end of the process does not wait for: a lookup may take long, and cannot be stopped.
    try:
        threading.Thread(target=look, name="turnwise-lookup", daemon=True).start()
    except RuntimeError as problem:  # there are too many threads
        _lookups.release()
        raise OSError(str(problem)) from None
    return await found


def _set_outcome(future: "asyncio.Future[Sequence[str]]", found: Sequence[str] | Exception) -> None:
    if future.done():
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)


class AddressGuard:
    """private: whether every address may be reached, as for development on one machine. resolve: how hosts are looked up."""

    def __init__(self, *, private: bool = False, resolve: Resolve = resolve_host) -> None:
        self._private, self._resolve = private, resolve

    async def addresses(self, target: Target) -> Sequence[str]:
        """Where that is, all of it judged. Who connects has to connect to these: the next look may give others.

        RequestInvalid when it is nowhere, or its port or an address of it may not be reached; it does not say which that is.
        """
        if not self._private and target.port < FIRST_FREE_PORT and target.port not in PORTS.values():
            fix = f"Use 80, 443, or one from {FIRST_FREE_PORT} on."
            raise invalid_field(URL, "Its port is that of a service that is not the web.", fix=fix)
        found: Sequence[str] = ()
        with suppress(OSError):  # a timeout is one
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self._resolve(target.host, target.port)
        if not found:
            raise invalid_field(URL, "Its host is not found.", fix="Check the name.")
        if not self._private and not all(map(is_public, found)):
            raise invalid_field(
                URL,
                "Its host has an address that is not public.",
                fix="Send the URL of a public host; in development, set gateway.protocols.a2a.private_pushes.",
            )
        return found

    async def check(self, url: str) -> None:
        """RequestInvalid unless that may be notified, as of now."""
        await self.addresses(parse_target(url))
