"""A notification goes to the address that was judged, and nowhere else."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from push_play import receiving

from turnwise.access.address_guard import AddressGuard
from turnwise.gateway.a2a.push import PushFailed, PushTransport

HEADERS = {"Content-Type": "application/json"}
NAME = "hooks.example"


class Names:
    """Looks names up in a list: the next answer each time, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def here(**options: object) -> PushTransport:
    """A courier for whom every name is this machine."""
    return PushTransport(AddressGuard(private=True, resolve=Names(["127.0.0.1"])), **options)  # type: ignore[arg-type]


async def test_it_arrives_at_the_address_that_the_name_was_found_to_have() -> None:
    async with receiving() as receiver:
        names = Names(["127.0.0.1"])
        await PushTransport(AddressGuard(private=True, resolve=names)).deliver(
            receiver.url("/a?b=c", host=NAME), HEADERS, b'{"a": 1}'
        )
    (got,) = receiver.got
    assert (got.path, got.headers["host"], got.body) == ("/a?b=c", f"{NAME}:{receiver.port}", {"a": 1})
    assert names.asked == [NAME], "once, or it could be somewhere else when it connects"


async def test_a_name_that_means_something_else_by_now_is_not_reached() -> None:
    """DNS rebinding: public when it was set up, this machine's when it is notified."""
    async with receiving() as receiver:
        guard = AddressGuard(resolve=Names(["1.1.1.1"], ["127.0.0.1"]))
        url = receiver.url(host=NAME)
        await guard.check(url)
        with pytest.raises(PushFailed, match="not public"):
            await PushTransport(guard).deliver(url, HEADERS, b"{}")
        for address in (["1.1.1.1", "127.0.0.1"], ["::ffff:127.0.0.1"]):
            with pytest.raises(PushFailed, match="not public"):
                await PushTransport(AddressGuard(resolve=Names(address))).deliver(url, HEADERS, b"{}")
        assert receiver.asked == 0


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with receiving() as receiver:
        guard = AddressGuard(private=True, resolve=Names(["127.0.0.2", "127.0.0.1"]))
        await PushTransport(guard).deliver(receiver.url(host=NAME), HEADERS, b"{}")
    assert receiver.asked == 1


async def test_the_next_address_is_tried_when_one_is_silent() -> None:
    """Such as one of IPv6 where only IPv4 leads out: nobody refuses, and nobody answers."""
    async with receiving() as receiver:
        with silent("127.0.0.2", receiver.port):
            await PushTransport(AddressGuard(private=True, resolve=Names(["127.0.0.2", "127.0.0.1"]))).deliver(
                receiver.url(host=NAME), HEADERS, b"{}"
            )
    assert receiver.asked == 1


@contextmanager
def silent(address: str, port: int) -> Iterator[None]:
    """Nobody there takes or refuses a connection: the queue of those who wait for it is full."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server((address, port), backlog=0))
        full.listen(0)
        for _ in range(3):
            waits = stack.enter_context(socket.socket())
            waits.setblocking(False)
            waits.connect_ex((address, port))
        yield


async def test_a_redirect_is_not_followed() -> None:
    async with receiving() as target, receiving([307], extra=f"Location: {target.url()}\r\n") as receiver:
        with pytest.raises(PushFailed, match="307"):
            await here().deliver(receiver.url(), HEADERS, b"{}")
        assert (receiver.asked, target.asked) == (1, 0)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        await here().deliver(receiver.url(), HEADERS, b"{}")
        assert (receiver.asked, proxy.asked) == (1, 0)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 429, 500, 503])
async def test_only_success_is_success(status: int) -> None:
    async with receiving([status]) as receiver:
        with pytest.raises(PushFailed, match=str(status)):
            await here().deliver(receiver.url("/?key=s3cret"), HEADERS, b"{}")


async def test_who_does_not_answer_is_given_up() -> None:
    async with receiving([0]) as receiver:
        with pytest.raises(PushFailed, match=r"longer than 0\.2 seconds"):
            await here(seconds=0.2).deliver(receiver.url(), HEADERS, b"{}")


async def test_who_is_not_there_is_given_up() -> None:
    async with receiving() as receiver:
        url = receiver.url("/?key=s3cret")
    with pytest.raises(PushFailed) as undelivered:
        await here().deliver(url, HEADERS, b"{}")
    assert "s3cret" not in str(undelivered.value)


async def test_a_long_answer_is_not_read() -> None:
    async with receiving(length=50_000_000) as receiver:
        await here().deliver(receiver.url(), HEADERS, b"{}")
    assert receiver.written < 40_000_000


async def test_an_answer_that_never_begins_is_not_read() -> None:
    """A receiver may say "go on" for ever, and as fast as it can: reading that would cost more than running agents."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
                await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PushFailed, match="could not be sent"):
            await here().deliver(f"http://127.0.0.1:{port}/", HEADERS, b"{}")


async def test_what_is_no_http_is_given_up() -> None:
    async with receiving([-1]) as receiver:
        with pytest.raises(PushFailed):
            await here().deliver(receiver.url(), HEADERS, b"{}")


async def test_a_certificate_is_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    serving, believing = certificate(tmp_path)
    async with receiving(tls=serving) as receiver:
        courier = here(tls=believing)
        await courier.deliver(receiver.url(host=NAME, scheme="https"), HEADERS, b"{}")
        for host in ("other.example", "127.0.0.1"):
            with pytest.raises(PushFailed):
                await courier.deliver(receiver.url(host=host, scheme="https"), HEADERS, b"{}")
        with pytest.raises(PushFailed):
            await here().deliver(receiver.url(host=NAME, scheme="https"), HEADERS, b"{}")
    assert receiver.asked == 1


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What serves as `NAME`, and what believes it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(signed.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    serving, believing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=public)
    serving.load_cert_chain(public, private)
    return serving, believing
