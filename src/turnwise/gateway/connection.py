"""uvicorn's HTTP connection, with limits for header size, slow clients, stalled responses and open connections."""

import asyncio
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""The maximum size of a request's URL and headers together."""
PACE_BYTES = 64 * 1024
"""How much of a waiting response a client has to read within `stalled_seconds`, if so much waits."""


def default_most_connections() -> int | None:
    """Returns four fifths of the files that this process may open; None if it may open any number.

    The others are for the store and for outgoing calls.
    """
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows
        return None
    files = getrlimit(RLIMIT_NOFILE)[0]
    return None if files == RLIM_INFINITY else max(files * 4 // 5, 1)


class Configuration(uvicorn.Config):
    """uvicorn's configuration, with the number of connections that may be open at once; None means any number."""

    most_connections: int | None = None


class Connection(HttpToolsProtocol):
    """Rejects oversized request heads with 431, and closes slow or stalled connections.

    When as many connections are open as may be, a new one takes the place of the one that has been idle for longest. If none
    is idle, its request is answered with 503.
    """

    head_seconds, linger_seconds, stalled_seconds = 30.0, 5.0, 20.0
    """Timeouts in seconds.

    `head_seconds`: for the first byte on a new connection, and for a request's head. `linger_seconds`: for the rest
    of a rejected body, which is read so that a client that is still sending can see the response. `stalled_seconds`:
    time in which a client has to read `PACE_BYTES` of a pending response, or the rest of it; otherwise the connection is
    cut. A stream can be resumed later.
    """
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self._most = config.most_connections if isinstance(config, Configuration) else None
        self._idle_since = self.loop.time()
        self._served_app = self.app

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection. Above the limit, it closes the one that has been idle for longest."""
        super().connection_made(transport)
        if self._is_over_limit():
            idle = [other for other in self.connections if isinstance(other, Connection) and other.is_idle]
            if len(idle) > 1:
                min(idle, key=lambda other: other._idle_since).transport.abort()
        self._set_timeout(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timeout(None)
        self._watch_progress(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_progress(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._watch_progress(None)
        super().resume_writing()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._set_timeout(self.head_seconds)

    def on_url(self, url: bytes) -> None:
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._measure(len(name) + len(value))
        # The parser keeps whitespace after a value, which is not part of it (RFC 9110, 5.5).
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._set_timeout(None)
        self.app = _overloaded if self._is_over_limit() else self._served_app
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._set_timeout(None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._idle_since = self.loop.time()
        if self.cycle.response_complete and self.cycle.more_body:
            self._set_timeout(self.linger_seconds)

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes <= HEAD_BYTES:
            super().send_400_response(msg)
            return
        self.transport.write(STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or (self.cycle.response_complete and not self.pipeline)

    def _is_over_limit(self) -> bool:
        if self._most is None or len(self.connections) <= self._most:
            return False
        return sum(not other.transport.is_closing() for other in self.connections) > self._most

    def _measure(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            raise ValueError  # stops the parser, which then calls `send_400_response`

    def _set_timeout(self, seconds: float | None) -> None:
        """Closes the connection after this many seconds, unless it is called again before. None cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _watch_progress(self, left: int | None) -> None:
        """Cuts the connection if `left` bytes do not shrink by `PACE_BYTES` within `stalled_seconds`. None stops watching."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self._stall_timer = None if left is None else self.loop.call_later(self.stalled_seconds, self._check_progress, left)

    def _check_progress(self, left: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now <= max(left - PACE_BYTES, 0):
            self._watch_progress(now)
        else:
            self.transport.abort()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


async def _overloaded(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers that this process has no room for another request."""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"retry-after", b"1"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b"Too many connections are open at this process. Try again."})
