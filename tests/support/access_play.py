"""Clocks, tokens, and a place that publishes keys, for tests of who may enter."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

SECRET = "a secret of more than sixty-four characters, so that it suits every hash there is"


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@cache
def rsa_key(name: str = "one", bits: int = 2048) -> Any:
    """A private key; the same for the same name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key(name: str = "one") -> Any:
    return ec.generate_private_key(ec.SECP256R1())


def public_pem(key: Any) -> str:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def private_pem(key: Any) -> str:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


def jwk(key: Any, id: str | None, **more: Any) -> dict[str, Any]:
    """A public key as it is published."""
    made = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    written: dict[str, Any] = made.to_jwk(key.public_key(), as_dict=True)
    return written | ({} if id is None else {"kid": id}) | more


def token(key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, /, **claims: Any) -> str:
    """A token of ann that is good for an hour, but for these claims; one that is None is left out."""
    whole = {"sub": "ann", "exp": time.time() + 3600, **claims}
    headers = None if kid is None else {"kid": kid}
    told = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(told, key, algorithm=algorithm, headers=headers)


class Publisher:
    """Answers each GET with `status` and `body`, once `answers` is set; `asked` counts."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status, self.body, self.asked = 200, b"", 0
        self.headers: dict[str, str] = {}
        self.answers = threading.Event()
        self.answers.set()

    def publish(self, *keys: dict[str, Any]) -> None:
        self.status, self.body = 200, json.dumps({"keys": keys}).encode()


@contextmanager
def publishing() -> Iterator[Publisher]:
    """A server on this machine, at work in a thread."""
    publisher: Publisher

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.asked += 1
            publisher.answers.wait(20)
            self.send_response(publisher.status)
            for name, value in publisher.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(publisher.body)

        log_message: Callable[..., None] = lambda *_: None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publisher = Publisher(f"http://127.0.0.1:{server.server_port}/keys")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield publisher
    finally:
        publisher.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
