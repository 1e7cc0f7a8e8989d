"""A request to the gateway as a value, and helpers that build paths."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from turnwise.facts.errors import RequestInvalid
from turnwise.facts.fact import Fact

NOTHING: Mapping[str, Any] = {}


class ApiRequest(NamedTuple):
    """A request to the gateway."""

    method: str
    path: str
    """The path below the API's prefix."""
    query: Mapping[str, Any] = NOTHING
    """Query parameters; None values are omitted."""
    body: Mapping[str, Any] | None = None
    """The JSON body, which may contain facts."""
    content: bytes | None = None
    """A raw body, instead of `body`."""
    headers: Mapping[str, str] = NOTHING

    def written(self) -> bytes | None:
        """Returns the body's bytes. Raises RequestInvalid if it is not JSON."""
        if self.body is None:
            return self.content
        try:
            return json.dumps(self.body, default=_plain, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestInvalid(f"The request cannot be sent as JSON: {error}.", fix="Send JSON values only.") from None


def _plain(value: object) -> Any:
    if isinstance(value, Fact):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")


def get(path: str, **query: Any) -> ApiRequest:
    return ApiRequest("GET", path, query)


def post(path: str, body: Mapping[str, Any] | None = None, **query: Any) -> ApiRequest:
    return ApiRequest("POST", path, query, body)


def with_revision(asked: ApiRequest, revision: int | None) -> ApiRequest:
    """Returns the request with the condition that the session has this revision; unchanged if it is None."""
    return asked if revision is None else asked._replace(headers={**asked.headers, "If-Match": f'"{revision}"'})


def session_path(session: str, *more: str) -> str:
    """Returns the path of a session or of a resource in it; `more` is escaped already. Raises RequestInvalid for an
    invalid id.
    """
    if "/" in session or session in {"", ".", ".."}:
        raise RequestInvalid(
            f"The session id {session[:200]!r} cannot be part of a URL.", fix="Use letters, digits and dashes."
        )
    return "/".join(["/sessions", escape_path(session), *more])


def escape_path(name: str) -> str:
    """Returns the name escaped for a path. Slashes are kept; `.` and `..` are encoded so that clients do not resolve
    them.

    Raises:
        RequestInvalid: The name cannot be encoded in UTF-8.
    """
    try:
        return "/".join(_DOTS.get(part, quote(part, safe="")) for part in name.split("/"))
    except UnicodeEncodeError:
        raise RequestInvalid("A name in the URL cannot be encoded in UTF-8.", fix="Correct it.") from None


_DOTS = {".": "%2E", "..": "%2E%2E"}
