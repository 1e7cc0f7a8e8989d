"""Vectors from a service, over real HTTP on this machine."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from turnwise.facts.errors import EncoderError
from turnwise.models.encoders import EndpointEncoder, pause
from turnwise.ports.encoder import Encoder

KEY = "sk-very-secret"
Reply = tuple[int, dict[str, str], Any]


class Service(ThreadingHTTPServer):
    """Answers with the next of `replies`, and with each text's length when there is none left."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[Reply] = []
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.drips, self.gone = False, threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        data = [{"index": number, "embedding": [len(text), 1]} for number, text in enumerate(body["input"])]
        status, headers, answer = self.server.replies.pop(0) if self.server.replies else (200, {}, {"data": data[::-1]})
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        for piece in (content[first : first + 1] for first in range(len(content))) if self.server.drips else (content,):
            self.wfile.write(piece)
            self.server.gone.wait(0.05 if self.server.drips else 0)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.drips = False
        running.gone.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def connect(service: Service) -> Iterator[Callable[..., EndpointEncoder]]:
    made: list[EndpointEncoder] = []

    def make(**options: Any) -> EndpointEncoder:
        made.append(EndpointEncoder(service.url, "small-1", key=KEY, **options))
        return made[-1]

    yield make
    for encoder in made:
        encoder.close()


Connect = Callable[..., EndpointEncoder]


def test_texts_go_out_in_batches_and_come_back_in_order(service: Service, connect: Connect) -> None:
    encoder: Encoder = connect(batch=2, max_characters=5)
    rows = encoder.encode(["", "a" * 9, "aa"])
    assert np.allclose(rows[:, 0] / rows[:, 1], [1, 5, 2])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert [asked[:2] for asked in service.asked] == [("/v1/embeddings", f"Bearer {KEY}")] * 2
    assert [asked[2] for asked in service.asked] == [
        {"model": "small-1", "input": [" ", "aaaaa"]},
        {"model": "small-1", "input": ["aa"]},
    ]
    assert encoder.encode([]).shape == (0, 2)
    assert not encoder.is_local


def test_dimensions_are_asked_for_once(service: Service, connect: Connect) -> None:
    encoder = connect()
    assert (encoder.dimensions, encoder.dimensions, len(service.asked)) == (2, 2, 1)
    assert connect(dimensions=7).dimensions == 7


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(service: Service, connect: Connect, status: int) -> None:
    service.replies = [(status, {"Retry-After": "0"}, b"busy")] * 3
    assert connect().encode(["a"]).shape == (1, 2)
    assert len(service.asked) == 4


def test_four_times_in_all(service: Service, connect: Connect) -> None:
    service.replies = [(429, {"Retry-After": "0"}, KEY.encode())] * 9
    with pytest.raises(EncoderError, match="status 429"):
        connect().encode(["a"])
    assert len(service.asked) == 4


def test_a_decision_is_not_held_by_what_the_service_asks_for(service: Service, connect: Connect) -> None:
    """A pause that would end after the deadline is not begun; what is encoded beforehand has the patience for it."""
    service.replies = [(503, {"Retry-After": "20"}, b"busy")]
    with pytest.raises(EncoderError, match="status 503"):
        connect().encode(["a"] * 8)
    assert len(service.asked) == 1
    service.replies = [(503, {"Retry-After": "1"}, b"busy")]
    assert connect(timeout=1.0).encode(["a"] * 9).shape == (9, 2)
    assert len(service.asked) == 3


def test_an_answer_that_comes_bit_by_bit_has_an_end_too(service: Service, connect: Connect) -> None:
    service.drips = True
    with pytest.raises(EncoderError, match="cannot be reached: ReadTimeout"):
        connect(timeout=0.2).encode(["a"])


@pytest.mark.parametrize(("status", "advice"), [(401, "Check the key"), (404, "model's name"), (301, "later")])
def test_what_will_not_pass_is_not(service: Service, connect: Connect, status: int, advice: str) -> None:
    service.replies = [(status, {"Location": "http://192.0.2.1/"}, {"error": f"wrong key {KEY} for 'my text'"})]
    encoder = connect()
    with pytest.raises(EncoderError, match=f"status {status}") as raised:
        encoder.encode(["my text"])
    assert advice in raised.value.fix
    assert len(service.asked) == 1
    for said in (str(raised.value), repr(raised.value), repr(encoder), encoder.fingerprint, str(vars(encoder))):
        assert KEY not in said
        assert "my text" not in said


ANSWERS: dict[str, Any] = {
    "no JSON": b"<html>",
    "no data": {"embeddings": []},
    "a list": [1],
    "too few": {"data": []},
    "another index": {"data": [{"index": 1, "embedding": [1, 2]}]},
    "not finite": b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
    "text": {"data": [{"index": 0, "embedding": "AAAA"}]},
    "no numbers": {"data": [{"index": 0, "embedding": []}]},
    "an endless index": b'{"data": [{"index": Infinity, "embedding": [1, 2]}]}',
    "nested too deep": b"[" * 200_000,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_another_answer_is_an_error(service: Service, connect: Connect, answer: Any) -> None:
    service.replies = [(200, {}, answer)]
    with pytest.raises(EncoderError):
        connect().encode(["a"])


def test_an_answer_that_cannot_be_unpacked_is_an_error(service: Service, connect: Connect) -> None:
    service.replies = [(200, {"Content-Encoding": "gzip"}, b"not packed")]
    with pytest.raises(EncoderError, match="cannot be read: DecodingError"):
        connect().encode(["a"])


def test_any_text_can_be_sent(service: Service, connect: Connect) -> None:
    connect().encode(["a \ud800"])
    assert service.asked[-1][2]["input"] == ["a ?"]


def test_a_service_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    encoder = EndpointEncoder(f"http://127.0.0.1:{port}/v1", "small-1")
    with pytest.raises(EncoderError, match="cannot be reached: ConnectError"):
        encoder.encode(["a"])
    encoder.close()


def test_what_a_url_hides_is_not_shown() -> None:
    encoder = EndpointEncoder("https://user:password@example.org:8443/v1/?api-key=hidden", "m")
    assert repr(encoder) == "EndpointEncoder('https://example.org:8443/v1', 'm')"
    assert encoder.fingerprint == "https://example.org:8443/v1:m:8000"
    encoder.close()


URLS = [
    "",
    "example.org/v1",
    "ftp://example.org",
    "http://",
    "http://h:99999/v1",
    "http://h:port/",
    "http://[::1",
    "http://\x00/",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_must_be_one(url: str) -> None:
    with pytest.raises(EncoderError, match="no http or https URL"):
        EndpointEncoder(url, "m")


@pytest.mark.parametrize("key", ["", "secret\n", "sécret", "a\x00b"])
def test_a_key_that_is_no_header_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(EncoderError, match="no header value") as raised:
        EndpointEncoder("http://localhost/v1", "m", key=key)
    assert "cret" not in str(raised.value)


def test_pauses() -> None:
    assert [pause(None, attempt) for attempt in (1, 2, 3, 9)] == [0.25, 0.5, 1.0, 20.0]
    assert [pause(asked, 1) for asked in ("3", "0", "86400", "soon", "-1", "nan")] == [3.0, 0.0, 20.0, 0.25, 0.25, 0.25]
    assert 0 <= pause(formatdate(time.time() + 5, usegmt=True), 1) <= 5
    assert pause(formatdate(time.time() - 50, usegmt=True), 1) == 0
