"""uvicorn's HTTP connection, with limits for header size, slow clients and stalled responses."""

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""The maximum size of a request's URL and headers together."""


class Connection(HttpToolsProtocol):
    """Rejects oversized request heads with 431, and closes slow or stalled connections."""

    head_seconds, linger_seconds, stalled_seconds = 30.0, 5.0, 60.0
    """Timeouts in seconds.

    `head_seconds`: for the first byte on a new connection, and for a request's head. `linger_seconds`: for the rest
    of a rejected body, which is read so that a client that is still sending can see the response. `stalled_seconds`:
    after this time without any byte of a pending response being read, the connection is cut; a stream can be resumed
    later.
    """
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._set_timeout(None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body:
            self._set_timeout(self.linger_seconds)

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes <= HEAD_BYTES:
            super().send_400_response(msg)
            return
        self.transport.write(STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

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
        """Cuts the connection if none of the `left` bytes are read within `stalled_seconds`. None stops watching."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self._stall_timer = None if left is None else self.loop.call_later(self.stalled_seconds, self._check_progress, left)

    def _check_progress(self, left: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now < left:
            self._watch_progress(now)
        else:
            self.transport.abort()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
