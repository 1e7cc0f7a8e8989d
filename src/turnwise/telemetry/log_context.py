"""The context of log lines and spans: the current request and message. New tasks inherit it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from turnwise.facts.sessions import SessionKey


class LogContext(NamedTuple):
    """The request and the message that the current task serves. Fields without a value are empty."""

    request: str = ""
    """The id of the HTTP request."""
    app: str = ""
    """The app of the message that is being answered."""
    session: str = ""
    """The session of that message."""
    invocation: str = ""
    """The invocation of that message."""
    is_local: bool = True
    """False when the message came from an inbox or from a dead process. Then the current trace has nothing to do with it."""


_EMPTY = LogContext()
_CONTEXT: ContextVar[LogContext] = ContextVar("turnwise_about", default=_EMPTY)


def log_context() -> LogContext:
    """Returns the context of the current task."""
    return _CONTEXT.get()


@contextmanager
def request_context(request: str) -> Iterator[None]:
    """Sets the request id for the duration of the block."""
    with _with_context(LogContext(request=request)):
        yield


@contextmanager
def message_context(key: SessionKey, invocation: str = "", *, is_local: bool = True) -> Iterator[None]:
    """Sets the message for the duration of the block. With `is_local` the request id is kept, else it is cleared."""
    request = _CONTEXT.get().request if is_local else ""
    with _with_context(LogContext(request, key.app, key.id, invocation, is_local)):
        yield


@contextmanager
def _with_context(context: LogContext) -> Iterator[None]:
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)
