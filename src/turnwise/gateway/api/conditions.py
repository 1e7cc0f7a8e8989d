"""The headers `Idempotency-Key`, `If-Match` and `ETag` of the REST API."""

import json
import re
from hashlib import sha256
from typing import Annotated, Any

from fastapi import Depends, Header, Response
from starlette.requests import HTTPConnection

from turnwise.facts.errors import PreconditionRequired, RequestInvalid
from turnwise.facts.sessions import Session
from turnwise.gateway.front import caller_of
from turnwise.gateway.services.session_admission import Expected
from turnwise.wire.messages import MOST_CHARACTERS, PLAIN, SendMessage

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
