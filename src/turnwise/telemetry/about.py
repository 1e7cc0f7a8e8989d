"""What is being done here, for log lines and spans: it goes along with every task that is begun."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from turnwise.facts.sessions import SessionKey


class About(NamedTuple):
    """request: the id of the request that is being served. app, session, invocation: the message that is being answered.
    Each is empty where there is none. sent_here: False when that message did not come from here, but out of an inbox, or
    from a process that died: then what this task did before has nothing to do with it.
    """

    request: str = ""
    app: str = ""
    session: str = ""
    invocation: str = ""
    sent_here: bool = True


_NOTHING = About()
_ABOUT: ContextVar[About] = ContextVar("turnwise_about", default=_NOTHING)


def about() -> About:
    """What is being done by whoever asks."""
    return _ABOUT.get()


@contextmanager
def requested(request: str) -> Iterator[None]:
    """In the block, that request is served."""
    with _being(About(request=request)):
        yield


@contextmanager
def answering(key: SessionKey, invocation: str = "", *, sent_here: bool = True) -> Iterator[None]:
    """In the block, a message of that session is answered."""
    request = _ABOUT.get().request if sent_here else ""
    with _being(About(request, key.app, key.id, invocation, sent_here)):
        yield


@contextmanager
def _being(what: About) -> Iterator[None]:
    token = _ABOUT.set(what)
    try:
        yield
    finally:
        _ABOUT.reset(token)
