"""What is being done here, for log lines and spans: it goes along with every task that is begun."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from turnwise.facts.sessions import SessionKey


class LogContext(NamedTuple):
    """request: the id of the request that is being served. app, session, invocation: the message that is being answered.
    Each is empty where there is none. sent_here: False when that message did not come from here, but out of an inbox, or
    from a process that died: then what this task did before has nothing to do with it.
    """

    request: str = ""
    app: str = ""
    session: str = ""
    invocation: str = ""
    sent_here: bool = True


_EMPTY = LogContext()
_CONTEXT: ContextVar[LogContext] = ContextVar("turnwise_about", default=_EMPTY)


def log_context() -> LogContext:
    """What is being done by whoever asks."""
    return _CONTEXT.get()


@contextmanager
def request_context(request: str) -> Iterator[None]:
    """In the block, that request is served."""
    with _with_context(LogContext(request=request)):
        yield


@contextmanager
def message_context(key: SessionKey, invocation: str = "", *, sent_here: bool = True) -> Iterator[None]:
    """In the block, a message of that session is answered."""
    request = _CONTEXT.get().request if sent_here else ""
    with _with_context(LogContext(request, key.app, key.id, invocation, sent_here)):
        yield


@contextmanager
def _with_context(what: LogContext) -> Iterator[None]:
    token = _CONTEXT.set(what)
    try:
        yield
    finally:
        _CONTEXT.reset(token)
