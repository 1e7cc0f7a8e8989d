"""Requests about somebody's things."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import httpx

from turnwise.facts.callers import Permission

Route = tuple[str, str]
"""A method and a path's template."""
Routes = Mapping[Route, "tuple[Asked, ...]"]
STREAM = {"Accept": "text/event-stream"}
FILE, OF_USER = "a.txt", "user:b.txt"
"""What is kept in every session, and for every user."""


class Things(NamedTuple):
    """What somebody has: a session in which agent `asker` waits for a reply, its ids, and a response."""

    user: str
    session: str
    message: str
    invocation: str
    call: str
    response: str
    new: str
    sequence: int = 1


Made = Callable[[Things], Any]


def _nothing(_: Things) -> None:
    return None


def _status(answer: httpx.Response) -> int:
    return answer.status_code


class Asked(NamedTuple):
    """A request about somebody's things. permission: what it takes; None = no credential.

    names: where it says whose they are: in the query, in the body, in the path, or nowhere. ok: its status when all is well.
    everybody: without a name it is about everybody's, for who reaches all. status: that of an answer, as a number of HTTP's,
    where a protocol says it elsewhere. endless: it may be a stream that goes on, of which only the first event is read.
    any_right: any credential that counts will do.
    """

    permission: Permission | None
    body: Made = _nothing
    query: Mapping[str, Any] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    names: Literal["query", "body", "path", ""] = "query"
    ok: int = 200
    everybody: bool = False
    status: Callable[[httpx.Response], int] = _status
    endless: bool = False
    any_right: bool = False
