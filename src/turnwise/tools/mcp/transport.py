"""Transports to an MCP server: a program started here, or a URL."""

import os
from asyncio import to_thread
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePath
from threading import Thread
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from turnwise.facts.errors import ConfigError

Streams = tuple[Any, Any]
"""The library's streams: messages from the server, and messages to it."""

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
LINES_KEPT = 5
LINE_CHARACTERS = 300
SECRET_CHARACTERS = 6


class ServerSignals:
    """Signals of a server outside the protocol, for error messages.

    Args:
        on_forgotten: Called when the server has forgotten the session.

    Attributes:
        lines: The last lines of its standard error.
        status: The status of its last HTTP response, if that was an error.
        forgotten: True if the server has forgotten the session.
    """

    def __init__(self, on_forgotten: Callable[[], None]) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.status: int | None = None
        self.forgotten = False
        self._on_forgotten = on_forgotten

    def answer(self, status: int, *, in_session: bool) -> None:
        """Records the status of an HTTP response."""
        self.status = status if status >= 400 else None
        if status == 404 and in_session:
            self.forgotten = True
            self._on_forgotten()

    def details(self) -> str:
        """Returns the details for the end of an error message; may be empty."""
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{status}; the last that it wrote was: {self.lines[-1]}" if self.lines else status


class Transport(Protocol):
    """A transport to an MCP server."""

    @property
    def name(self) -> str:
        """The server's default name."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show."""
        ...

    def open(self, signals: ServerSignals) -> AbstractAsyncContextManager[Streams]:
        """Opens the streams; they must be closed in the same task."""
        ...


class Program(NamedTuple):
    """A program that is started here and talks over standard input and output."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None

    @property
    def name(self) -> str:
        return PurePath(self.command).name

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.env.values())

    @asynccontextmanager
    async def open(self, signals: ServerSignals) -> AsyncIterator[Streams]:
        """Starts the program and yields its streams. Its error output goes to the log."""
        import anyio
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd)
        read_end, write_end = os.pipe()
        listener = Thread(target=_read_lines, args=(read_end, signals.lines), daemon=True)
        listener.start()
        try:
            with open(write_end, "w") as errors:  # noqa: ASYNC230 - a pipe that only the program writes to
                async with stdio_client(parameters, errors) as streams:
                    errors.close()
                    yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread(listener.join, 0.5)


class Address(NamedTuple):
    """A running server at a URL, over streamable HTTP."""

    url: str
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        parts = urlsplit(self.url)
        return *(word for value in self.headers.values() for word in value.split()), parts.password or "", parts.query

    @asynccontextmanager
    async def open(self, signals: ServerSignals) -> AsyncIterator[Streams]:
        """Connects to the URL and yields its streams."""
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async def record(response: httpx2.Response) -> None:
            signals.answer(response.status_code, in_session="mcp-session-id" in response.request.headers)

        timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout, event_hooks={"response": [record]}) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams


def transport_for(
    command: str | None,
    args: tuple[str, ...],
    env: Mapping[str, str],
    cwd: Path | None,
    url: str | None,
    headers: Mapping[str, str],
) -> Transport:
    """Returns the transport that the settings describe.

    Raises:
        ConfigError: There is neither a command nor a URL, or both, or a value is not valid.
    """
    if (command is None) == (url is None):
        raise ConfigError("An MCP server has either a command or a URL.", fix="Pass command=… or url=….")
    if url is None:
        if headers:
            raise ConfigError("An MCP server with a command has no headers.", fix="Pass env=… instead.")
        if not command:
            raise ConfigError("An MCP server's command is empty.", fix="Name the program.")
        return Program(command, args, env, cwd)
    if args or env or cwd is not None:
        raise ConfigError("An MCP server with a URL has no args, env or cwd.", fix="Leave them out, or pass command=….")
    _check_url(url)
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable() and value == value.strip()):
            raise ConfigError(
                f"The header {name!r} of an MCP server has an invalid value.", fix="Look for space or line breaks."
            )
    return Address(url, headers)


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """Replaces each secret in the text with a dash. Secrets of fewer than 6 characters stay."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_CHARACTERS:
            text = text.replace(secret, "—")
    return text


def _check_url(url: str) -> None:
    """Raises ConfigError for anything but an http or https URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # the error's text shows the URL, which may contain a key
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("An MCP server has no http or https URL.", fix="Give one such as https://host/mcp.")


def _read_lines(descriptor: int, lines: deque[str]) -> None:
    """Reads a program's standard error and keeps the last lines, so they do not appear on the terminal."""
    with open(descriptor, encoding="utf-8", errors="replace") as errors:
        while line := errors.readline(LINE_CHARACTERS):
            if line.strip():
                lines.append(line.strip())
