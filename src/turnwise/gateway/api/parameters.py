"""Path and query parameters of the REST API with their bounds, the check for unknown ones, and the Accept header."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import BeforeValidator, WithJsonSchema
from starlette.convertors import StringConvertor, register_url_convertor

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.front import TheServices
from turnwise.gateway.services import Services
from turnwise.wire.messages import MOST_CHARACTERS, MOST_CURSOR, MOST_ROWS, MOST_SEQUENCE, PLAIN, SEGMENT


# Ids of agents and users may contain slashes. They end before the resources below them, so a path has one meaning.
class _AgentConvertor(StringConvertor):
    regex = r"(?:(?!/(?:versions(?:/[^/]+)?|activate|rollback|examples|patterns|plan|try)$).)+"


class _UserConvertor(StringConvertor):
    regex = r"(?:(?!/(?:memories(?:/[^/]+)?|export)$).)+"


class _MemoryConvertor(StringConvertor):
    regex = r"(?!search$)[^/]+"


register_url_convertor("agent", _AgentConvertor())
register_url_convertor("user", _UserConvertor())
register_url_convertor("memory", _MemoryConvertor())

SessionId = Annotated[
    str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="The session's id.", examples=["s-1"])
]
InvocationId = Annotated[
    str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="The invocation's id.")
]
MessageId = Annotated[
    str,
    Path(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN, description="The message's id.", examples=["m-1"]),
]
UserId = Annotated[str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN, description="The user's id.")]
AgentId = Annotated[str, Path(min_length=1, max_length=64, pattern=PLAIN, description="The agent's name.")]
ArtifactId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=300,
        pattern=PLAIN,
        description="The artifact's name; may contain slashes. The prefix `user:` shares it between the user's sessions.",
        examples=["report.pdf", "user:letters/2026.txt"],
    ),
]
Sequence = Annotated[int, Path(ge=1, le=MOST_SEQUENCE, description="The sequence number of the event that holds the decision.")]

User = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=MOST_CHARACTERS,
        pattern=PLAIN,
        description="The user's id; the caller if omitted. Another user needs a credential that permits it.",
    ),
]


async def _for_user(services: TheServices, user: User = None) -> Services:
    return services.for_user(user)


UserServices = Annotated[Services, Depends(_for_user)]
"""The services for the caller, for the user that the request names."""
Name = Annotated[str | None, Query(min_length=1, max_length=300, pattern=PLAIN)]
Wait = Annotated[bool, Query(description="Whether to respond only when the message is answered or the invocation waits.")]
After = Annotated[
    str | None, Query(max_length=MOST_CURSOR, pattern=r"^[^\x00]*$", description="The `next` of the previous page.")
]
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")
_MOST_TIME = 40


def _iso_time(value: object) -> object:
    """Returns a time as it was written. A number is no time, although the parser would take it for seconds."""
    if isinstance(value, str) and len(value) <= _MOST_TIME and _TIME.match(value):
        return value
    raise ValueError("should be a time in ISO 8601, such as 2026-11-24T10:00:00Z")


Time = Annotated[
    datetime,
    BeforeValidator(_iso_time),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": _MOST_TIME, "examples": ["2026-11-24T10:00:00Z"]}),
]
"""A time in ISO 8601. Without a zone it is UTC."""
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="The maximum number of items.")]


SHOWN = 64
"""How many characters of an unknown parameter's name the error message repeats."""


async def check_parameters(request: Request) -> None:
    """Rejects query parameters that the route does not define.

    Without this check, a misspelled filter would be ignored and the route would return unfiltered results.

    Raises:
        RequestInvalid: The query contains an unknown parameter.
    """
    if not request.query_params:
        return
    known = sorted(set(_names(request.scope["route"].dependant)))
    for name in request.query_params:
        if name not in known:
            fix = f"Known here: {', '.join(known)}." if known else "Leave it out: this route has no query parameters."
            raise RequestInvalid(f"There is no query parameter {name[:SHOWN]!r} here.", fix=fix, where=("query", name[:SHOWN]))


def _names(dependant: Any) -> Iterator[str]:
    """Yields the names of the query parameters of a route, including those of its dependencies."""
    for field in dependant.query_params:
        yield field.alias
    for needed in dependant.dependencies:
        yield from _names(needed)


def wants_stream(request: Request) -> bool:
    """Returns whether the client accepts server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")
