"""A service of a model on this machine that streams very much: OpenAI's chat completions over a socket."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from turnwise.models.provider import ProviderModel

_WRITTEN_BYTES = 64 * 1024
"""The least that is written to the socket at once, as a fast service does."""


@contextmanager
def flooding(piece: str, count: int, *, arguments: bool = False) -> Iterator[ProviderModel]:
    """A model whose service streams this many equal pieces, as text or as one tool call's arguments."""

    class Handler(_Handler):
        events = _events(piece, arguments=arguments)
        pieces = count

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield ProviderModel("flood", url=f"http://127.0.0.1:{server.server_address[1]}/v1", key="none")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    events: tuple[bytes, bytes, bytes]
    """The first event, each piece, and the last event."""
    pieces: int

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        first, piece, last = self.events
        together = max(1, min(self.pieces, _WRITTEN_BYTES // len(piece)))
        with suppress(OSError):  # the reader has had enough
            self.wfile.write(first)
            for _ in range(self.pieces // together):
                self.wfile.write(piece * together)
            self.wfile.write(last)

    def log_message(self, *_: object) -> None:
        pass


def _events(piece: str, *, arguments: bool) -> tuple[bytes, bytes, bytes]:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "work", "arguments": ""}}
    first = _event({"role": "assistant", **({"tool_calls": [call]} if arguments else {})})
    more = {"index": 0, "function": {"arguments": piece}}
    each = _event({"tool_calls": [more]} if arguments else {"content": piece})
    return first, each, _event({}, "tool_calls" if arguments else "stop") + b"data: [DONE]\n\n"


def _event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "f", "object": "chat.completion.chunk", "created": 1, "model": "flood", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
