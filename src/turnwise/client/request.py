"""One request to a gateway, as a value."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from turnwise.facts.errors import RequestInvalid
from turnwise.facts.fact import Fact

NOTHING: Mapping[str, Any] = {}


class Asked(NamedTuple):
    """path: below the API's prefix. query: what is None is left out. body: JSON, facts among it, or `content`: bytes as they
    are.
    """

    method: str
    path: str
    query: Mapping[str, Any] = NOTHING
    body: Mapping[str, Any] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = NOTHING

    def written(self) -> bytes | None:
        """The body's bytes. RequestInvalid for what is no JSON."""
        if self.body is None:
            return self.content
        try:
            return json.dumps(self.body, default=_plain, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestInvalid(f"It cannot be sent as JSON: {error}.", fix="Send what JSON can write.") from None


def _plain(value: object) -> Any:
    if isinstance(value, Fact):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")


def get(path: str, **query: Any) -> Asked:
    return Asked("GET", path, query)


def post(path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Asked:
    return Asked("POST", path, query, body)


def if_revision(asked: Asked, revision: int | None) -> Asked:
    """The same, to be refused (PreconditionFailed) unless the session has that revision; None = whichever it has."""
    return asked if revision is None else asked._replace(headers={**asked.headers, "If-Match": f'"{revision}"'})


def at_session(session: str, *more: str) -> str:
    """The path of a session, or of what is in it; `more` is escaped already. RequestInvalid for what can be no session's id."""
    if "/" in session or session in {"", ".", ".."}:
        raise RequestInvalid(
            f"A session's id is one word of a URL, and {session[:200]!r} is not.", fix="Use letters, digits and dashes."
        )
    return "/".join(["/sessions", escaped(session), *more])


def escaped(name: str) -> str:
    """The name as part of a path: slashes stay, what clients would take for a place does not. RequestInvalid."""
    try:
        return "/".join(_DOTS.get(part, quote(part, safe="")) for part in name.split("/"))
    except UnicodeEncodeError:
        raise RequestInvalid("A name in the URL cannot be written in UTF-8.", fix="Correct it.") from None


_DOTS = {".": "%2E", "..": "%2E%2E"}
