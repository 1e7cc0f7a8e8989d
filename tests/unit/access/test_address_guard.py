"""Which URLs may be notified."""

import asyncio
import socket
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.access.address_guard import LOOKUPS, AddressGuard, Target, is_public, parse_target, resolve_host
from turnwise.facts.errors import RequestInvalid


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("https://host.example", Target("https", "host.example", 443, "/"), "host.example"),
        ("HTTP://Host.Example:80/a?b=c#d", Target("http", "host.example", 80, "/a?b=c"), "host.example"),
        ("http://host.example:8080/%20", Target("http", "host.example", 8080, "/%20"), "host.example:8080"),
        ("https://[2606:4700::1111]:9/x", Target("https", "2606:4700::1111", 9, "/x"), "[2606:4700::1111]:9"),
        ("https://xn--mnchen-3ya.example/", Target("https", "xn--mnchen-3ya.example", 443, "/"), "xn--mnchen-3ya.example"),
    ],
)
def test_a_url_is_taken_apart(url: str, target: Target, authority: str) -> None:
    assert parse_target(url) == target
    assert target.authority == authority


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host.example",
        "//host.example/",
        "ftp://host.example/",
        "file:///etc/passwd",
        "gopher://host.example/",
        "javascript:alert(1)",
        "https://",
        "https:///path",
        "https://user@host.example/",
        "https://user:word@host.example/",
        "https://host.example:0/",
        "https://host.example:65536/",
        "https://host.example:x/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://höst.example/",
        "https://host.example/ä",
        "https://host.example/a b",
        "https://ho st.example/",
        "https://host.example\\@other.example/",
        "https://host.example/\ud800",
        f"https://{'a' * 254}/",
    ],
)
def test_what_is_no_url_to_be_notified_is_refused(url: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_target(url)
    assert "word" not in str(refused.value)


@given(st.text(max_size=30))
def test_whatever_comes_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://host.example/{text}"):
        try:
            parse_target(url).authority.encode("ascii")
        except RequestInvalid:
            continue


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1", "2a00:1450::1"],
)
def test_public_addresses_are_notified(address: str) -> None:
    assert is_public(address)


PRIVATE_4 = (
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "168.63.129.16",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
)


@pytest.mark.parametrize("address", PRIVATE_4)
def test_addresses_that_are_not_everybodys_are_not_notified(address: str) -> None:
    """In whatever form of IPv6 they come, too."""
    first, second, third, fourth = map(int, address.split("."))
    high, low = f"{first * 256 + second:x}", f"{third * 256 + fourth:x}"
    for form in (address, f"::ffff:{address}", f"64:ff9b::{address}", f"2002:{high}:{low}::1", f"::{address}"):
        assert not is_public(form), form


@pytest.mark.parametrize(
    "address",
    [
        "::1",
        "::",
        "::1.1.1.1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%eth0",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "ff0e::1",
        "100::1",
        "64:ff9b:1::1",
        "2001::1",
        "2001:db8::1",
        "3fff::1",
        "4000::1",
        "",
        "host",
        "127.1",
    ],
)
def test_special_addresses_of_ipv6_are_not_notified(address: str) -> None:
    assert not is_public(address)


def at(*addresses: str) -> AddressGuard:
    """A guard for whom every host has these addresses."""

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return addresses

    return AddressGuard(resolve=resolve)


async def test_all_addresses_of_a_host_have_to_be_public() -> None:
    target = parse_target("https://host.example/")
    assert list(await at("1.1.1.1", "2606:4700::1111").addresses(target)) == ["1.1.1.1", "2606:4700::1111"]
    for found in (("10.0.0.1",), ("1.1.1.1", "127.0.0.1"), ("2606:4700::1111", "::1"), ()):
        with pytest.raises(RequestInvalid):
            await at(*found).check("https://host.example/")


@pytest.mark.parametrize("port", [1, 22, 25, 53, 110, 445, 1023])
async def test_ports_of_other_services_are_not_notified(port: int) -> None:
    """What is sent is HTTP, but its words are a caller's: no mail server is to be asked to make sense of them."""
    url = f"http://host.example:{port}/"
    with pytest.raises(RequestInvalid, match="port"):
        await at("1.1.1.1").check(url)
    await AddressGuard(private=True, resolve=at("1.1.1.1")._resolve).check(url)


@pytest.mark.parametrize("port", [80, 443, 1024, 8443, 65535])
async def test_ports_where_receivers_listen_are_notified(port: int) -> None:
    await at("1.1.1.1").check(f"https://host.example:{port}/")


async def test_whoever_is_refused_does_not_learn_the_address() -> None:
    with pytest.raises(RequestInvalid) as refused:
        await at("10.1.2.3").check("https://host.example/")
    assert "10.1.2.3" not in str(refused.value)


async def test_a_host_without_an_address_is_refused() -> None:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        raise OSError("there is none")

    for private in (False, True):
        with pytest.raises(RequestInvalid, match="not found"):
            await AddressGuard(private=private, resolve=resolve).check("https://host.example/")


async def test_in_development_every_address_may_be_notified() -> None:
    guard = AddressGuard(private=True)
    assert set(await guard.addresses(parse_target("http://localhost:1/"))) <= {"127.0.0.1", "::1"}
    for host in ("127.0.0.1", "[::1]", "127.1", "2130706433", "0x7f000001"):
        await guard.check(f"http://{host}/")
        with pytest.raises(RequestInvalid):
            await AddressGuard().check(f"http://{host}/")


async def test_what_cannot_be_looked_up_is_an_error() -> None:
    for host in ("a" * 64 + ".invalid", "a..invalid"):
        with pytest.raises(OSError, match="label"):
            await resolve_host(host, 80)


async def test_many_are_looked_up_one_after_the_other() -> None:
    """Who comes when all are busy waits: he is not told that there is no such host."""
    go = threading.Event()

    def slow(*asked: Any, **options: Any) -> list[Any]:
        go.wait()
        return socket.getaddrinfo(*asked, **options)

    looks = [asyncio.create_task(resolve_host("127.0.0.1", 80, infos=slow)) for _ in range(2 * LOOKUPS)]
    await asyncio.sleep(0.1)
    go.set()
    assert await asyncio.gather(*looks) == [["127.0.0.1"]] * 2 * LOOKUPS


async def test_a_literal_address_is_its_own_only_one() -> None:
    assert await resolve_host("127.0.0.1", 80) == ["127.0.0.1"]
