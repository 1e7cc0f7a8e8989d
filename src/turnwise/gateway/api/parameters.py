"""Parameters of the REST API with their bounds: in paths, queries and the headers for repeated and conditional requests."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Response
from pydantic import BeforeValidator, WithJsonSchema
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import HTTPConnection

from turnwise.facts.errors import PreconditionRequired, RequestInvalid
from turnwise.facts.sessions import Session
from turnwise.gateway.front import TheServices, caller_of
from turnwise.gateway.services import Services
from turnwise.gateway.services.session_admission import Expected
from turnwise.wire.messages import MOST_CHARACTERS, MOST_CURSOR, MOST_ROWS, MOST_SEQUENCE, PLAIN, SEGMENT, SendMessage


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


ETAG: dict[str, Any] = {"ETag": {"description": "The session's revision, for `If-Match`.", "schema": {"type": "string"}}}
"""The OpenAPI description of the header."""

_TAG = re.compile(r"(?:W/)?\"([^\"]*)\"")

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MOST_CHARACTERS,
        pattern=PLAIN,
        description="The message's `id`, as a header. The same key with a different body is refused (422).",
    ),
]
_IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1_000,
        description="One or several `ETag`s of the resource, or `*`. Refused (412) if the resource has another revision.",
    ),
]


async def _expected(if_match: _IfMatch = None) -> Expected | None:
    """Parses the header If-Match; None without it. Raises RequestInvalid."""
    if if_match is None:
        return None
    if if_match.strip() == "*":
        return Expected()
    # A proxy that compresses marks tags as weak (`W/`). The revision is exact nevertheless.
    tags = [_TAG.fullmatch(each.strip()) for each in if_match.split(",")]
    if not all(tags):
        raise RequestInvalid(
            "If-Match is not an ETag.", fix='Send the ETag as received, in quotes: "5".', where=("header", "If-Match")
        )
    texts = [tag[1] for tag in tags if tag]
    return Expected(frozenset(int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 19))


async def _required(connection: HTTPConnection, if_match: _IfMatch = None) -> Expected:
    """Parses the header If-Match, and raises PreconditionRequired without it."""
    await caller_of(connection)  # a request without a credential learns nothing else
    expected = await _expected(if_match)
    if expected is None:
        raise PreconditionRequired(
            "The header If-Match is missing.",
            fix='Send the ETag of the version that you change; "0" if there is none yet.',
            where=("header", "If-Match"),
        )
    return expected


RequiredIfMatch = Annotated[Expected, Depends(_required)]
IfMatch = Annotated[Expected | None, Depends(_expected)]


def mark(response: Response, session: Session) -> None:
    """Sets the `ETag` header to the session's revision."""
    response.headers["ETag"] = f'"{session.revision}"'


def mark_version(response: Response, version: int) -> None:
    """Sets the `ETag` header to a definition's version."""
    response.headers["ETag"] = f'"{version}"'


def id_of(body: SendMessage, key: str | None) -> str | None:
    """Returns the message id from the body or from the `Idempotency-Key`; None if neither is given.

    Raises:
        RequestInvalid: The body and the header give different ids.
    """
    if key is not None and body.id not in (None, key):
        raise RequestInvalid(
            "Idempotency-Key and the body's id differ.", fix="Send one of them.", where=("header", "Idempotency-Key")
        )
    return body.id if key is None else key


def digest_of(body: SendMessage) -> str:
    """Returns a digest of the message without its id."""
    # As ASCII: a text with half of a surrogate pair is refused later, with its place.
    values = json.dumps(body.model_dump(mode="json", exclude={"id"}, warnings="none"), sort_keys=True)
    return sha256(values.encode("ascii")).hexdigest()[:32]
