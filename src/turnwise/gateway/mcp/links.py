"""Resource URIs: `turnwise://sessions/{session}` and `turnwise://sessions/{session}/artifacts/{name}`. Pure."""

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from turnwise.wire.bounds import MOST_SEQUENCE

SESSION_TEMPLATE = "turnwise://sessions/{session}{?before}"
ARTIFACT_TEMPLATE = "turnwise://sessions/{session}/artifacts/{name}{?version}"
MOST_CHARACTERS = 8_000


class SessionLink(NamedTuple):
    """The URI of a session."""

    session: str
    before: int | None = None
    """Only events with lower sequence numbers; None = the newest."""

    def __str__(self) -> str:
        return f"turnwise://sessions/{quote(self.session, safe='')}" + _query("before", self.before)


class ArtifactLink(NamedTuple):
    """The URI of an artifact."""

    session: str
    name: str
    version: int | None = None
    """None = the latest."""

    def __str__(self) -> str:
        place = f"turnwise://sessions/{quote(self.session, safe='')}/artifacts/{quote(self.name, safe='')}"
        return place + _query("version", self.version)


def parse_link(uri: str) -> SessionLink | ArtifactLink | None:
    """Parses a resource URI; None for any other URI."""
    try:
        return _read(uri) if len(uri) <= MOST_CHARACTERS else None
    except ValueError:
        return None


def _read(uri: str) -> SessionLink | ArtifactLink | None:
    parts = urlsplit(uri)
    if (parts.scheme, parts.netloc, parts.fragment) != ("turnwise", "sessions", ""):
        return None
    match [unquote(step, errors="strict") for step in parts.path.split("/")[1:]]:
        case [session] if session:
            return SessionLink(session, _number(parts.query, "before"))
        case [session, "artifacts", name] if session and name:
            return ArtifactLink(session, name, _number(parts.query, "version"))
    return None


def _number(query: str, name: str) -> int | None:
    """Returns the value of the only query parameter; None without a query. Raises ValueError for any other query."""
    if not query:
        return None
    parameter, _, digits = query.partition("=")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else -1
    if parameter != name or not 0 <= number <= MOST_SEQUENCE:
        raise ValueError
    return number


def _query(name: str, value: int | None) -> str:
    return "" if value is None else f"?{name}={value}"
