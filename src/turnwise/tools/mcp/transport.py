"""How an MCP server is reached: as a program started here, or at a URL."""

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
"""What the server says, and what is said to it, as the library's streams."""

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
LINES_KEPT = 5
LINE_CHARACTERS = 300
SECRET_CHARACTERS = 6


class Seen:
    """What is seen of a server beside the protocol: the last lines of its standard error, the status of its last HTTP answer
    if that was an error, and whether it has forgotten the session; then `gone` is called.
    """

    def __init__(self, gone: Callable[[], None]) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.status: int | None = None
        self.forgotten = False
        self._gone = gone

    def answer(self, status: int, *, in_session: bool) -> None:
        """Told of every answer over HTTP."""
        self.status = status if status >= 400 else None
        if status == 404 and in_session:
            self.forgotten = True
            self._gone()

    def words(self) -> str:
        """For the end of a sentence; empty when nothing was seen."""
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{status}; the last that it wrote was: {self.lines[-1]}" if self.lines else status


class Way(Protocol):
    @property
    def name(self) -> str:
        """What the server is called when nobody gave it a name."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show."""
        ...

    def open(self, seen: Seen) -> AbstractAsyncContextManager[Streams]:
        """Opens the way, and closes it, in one task."""
        ...


class Program(NamedTuple):
    """A program that is started here and spoken to through its standard input and output."""

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
    async def open(self, seen: Seen) -> AsyncIterator[Streams]:
        import anyio
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd)
        reading, writing = os.pipe()
        listener = Thread(target=_listen, args=(reading, seen.lines), daemon=True)
        listener.start()
        try:
            with open(writing, "w") as errors:  # noqa: ASYNC230 - a pipe that only the program writes to
                async with stdio_client(parameters, errors) as streams:
                    errors.close()
                    yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread(listener.join, 0.5)


class Address(NamedTuple):
    """A server that is there already, spoken to over streamable HTTP."""

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
    async def open(self, seen: Seen) -> AsyncIterator[Streams]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async def look(response: httpx2.Response) -> None:
            seen.answer(response.status_code, in_session="mcp-session-id" in response.request.headers)

        timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout, event_hooks={"response": [look]}) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams


def way_to(
    command: str | None,
    args: tuple[str, ...],
    env: Mapping[str, str],
    cwd: Path | None,
    url: str | None,
    headers: Mapping[str, str],
) -> Way:
    """The way that these settings describe; ConfigError when they describe none, or two."""
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
                f"The header {name!r} of an MCP server has no header's value.", fix="Look for space or line breaks."
            )
    return Address(url, headers)


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """The text with a dash for each secret; those that are too short to be one stay."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_CHARACTERS:
            text = text.replace(secret, "—")
    return text


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its text shows the URL, which may hold a key
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("An MCP server has no http or https URL.", fix="Give one such as https://host/mcp.")


def _listen(descriptor: int, lines: deque[str]) -> None:
    """Keeps the last lines of a program's standard error, which would be in the way on the terminal."""
    with open(descriptor, encoding="utf-8", errors="replace") as errors:
        while line := errors.readline(LINE_CHARACTERS):
            if line.strip():
                lines.append(line.strip())
