"""An HTTP server that plays the service of a model."""

import json
import select
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from llm_servers.answers import Answer, Body, Fault, Garbage, Sayable

_LONGEST_WAIT = 30.0


class Asked(NamedTuple):
    """A request as it came. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: Body


class Refused(Exception):
    """What the service does not take, in its words."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class FakeService(ABC):
    """A service as a context manager. It gives what it was told to say, in order, to whoever asks rightly; who asks wrongly is
    refused and takes nothing from the script. `requests` are those that it answered or failed by script; `refused` holds what
    was wrong with the others. `key`: only who brings it is heard. `asked` is released once for each of `requests`; `dropped`
    is set when a reader went away before the end.
    """

    path: str

    def __init__(self, *, key: str | None = None) -> None:
        self.key = key
        self.requests: list[Asked] = []
        self.refused: list[str] = []
        self.asked = threading.Semaphore(0)
        self.dropped = threading.Event()
        self._script: deque[Sayable] = deque()
        self._numbers = iter(range(1, 1_000_000))
        self._lock = threading.Lock()

    def say(self, *said: Sayable) -> Self:
        """Adds to the script; a function gets the request's body and says what to say."""
        self._script.extend(said)
        return self

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def new_id(self, prefix: str) -> str:
        with self._lock:
            return f"{prefix}{next(self._numbers)}"

    def next_said(self, asked: Asked) -> Answer | Fault | Garbage:
        with self._lock:
            if not self._script:
                raise Refused("The script of this service is over.", 418)
            said = self._script.popleft()
            self.requests.append(asked)
            self.asked.release()
        said = said(asked.body) if callable(said) else said
        return Answer(said) if isinstance(said, str) else said

    @abstractmethod
    def check(self, asked: Asked) -> None:
        """Refused, as the real service would."""

    @abstractmethod
    def whole(self, answer: Answer, body: Body) -> Body: ...

    @abstractmethod
    def stream(self, answer: Answer, body: Body) -> Iterator[bytes]:
        """Server-sent events, one for each piece."""

    @abstractmethod
    def fault(self, fault: Fault) -> Body: ...

    @abstractmethod
    def fault_event(self, fault: Fault) -> bytes:
        """An error in the middle of a stream."""


def _handler_for(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        plays = service

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    plays: FakeService

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(raw))
            if asked.path.partition("?")[0] != self.plays.path:
                raise Refused(f"There is no {asked.path} here.", 404)
            self.plays.check(asked)
            said = self.plays.next_said(asked)
        except Refused as refused:
            self.plays.refused.append(str(refused))
            said = Fault(refused.status, message=str(refused))
        try:
            self._say(said, {} if isinstance(said, Fault) else asked.body)
        except (BrokenPipeError, ConnectionResetError):
            self.plays.dropped.set()
            self.close_connection = True

    def _say(self, said: Answer | Fault | Garbage, body: Body) -> None:
        match said:
            case Fault():
                headers = {} if said.retry_after is None else {"retry-after": said.retry_after}
                self._send(json.dumps(self.plays.fault(said)), said.status, **headers)
            case Garbage():
                self._send(said.text, 200)
            case Answer() if body.get("stream"):
                self._stream(said, body)
            case Answer():
                if said.wait is None or self._waited(said.wait):
                    self._send(json.dumps(self.plays.whole(said, body)), 200)

    def _send(self, text: str, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _stream(self, answer: Answer, body: Body) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(self.plays.stream(answer, body)):
            if number == answer.cut_after:
                if answer.cut == "broken":
                    self.close_connection = True
                    return
                if isinstance(answer.cut, Fault):
                    self._chunk(self.plays.fault_event(answer.cut))
                break
            self._chunk(event)
            if number == 2 and answer.wait is not None and not self._waited(answer.wait):
                return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _waited(self, event: threading.Event) -> bool:
        """Whether the event came before the reader went away."""
        for _ in range(int(_LONGEST_WAIT / 0.02)):
            if event.wait(0.02):
                return True
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                break
        self.plays.dropped.set()
        self.close_connection = True
        return False

    def log_message(self, *_: Any) -> None:
        """Tests say themselves what they saw."""
