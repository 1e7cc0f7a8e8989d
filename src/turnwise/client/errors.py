"""The gateway's error responses as the exceptions that the runner raises in process, and which of them are retried."""

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from turnwise.facts import errors
from turnwise.facts.errors import (
    Closing,
    DefinitionConflict,
    DefinitionInvalid,
    Forbidden,
    LimitReached,
    ModelUnavailable,
    NotAuthenticated,
    NothingHere,
    RequestError,
    RequestInvalid,
    RequestTooLarge,
    StoreUnavailable,
    TooMany,
    TurnwiseError,
)

if TYPE_CHECKING:
    import httpx

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
FIRST_CONTACT_SECONDS = 2.0
"""How many seconds an address is retried that has never responded: it may be wrong."""


class Unreached(StoreUnavailable):
    """The gateway could not be reached, or the connection broke.

    Args:
        problem: The error.
        fix: How to solve it.
        sent: Whether the gateway may have received the request.
        quiet: True if the connection was open and no byte came.
        retry_after: Seconds to wait, as an intermediary requests; None if it does not.
    """

    def __init__(
        self, problem: str, *, fix: str = "", sent: bool = True, quiet: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(problem, fix=fix)
        self.sent, self.quiet, self.retry_after = sent, quiet, retry_after


TEMPORARY = (StoreUnavailable, Closing, TooMany)
"""Temporary errors."""


def was_refused(error: TurnwiseError) -> bool:
    """Returns whether the request certainly had no effect, so that any request is safe to retry."""
    return isinstance(error, TooMany) or (isinstance(error, Unreached) and not error.sent)


class Contact(Protocol):
    """Tells whether the gateway has ever responded."""

    heard: bool


class RetryBudget:
    """The retry budget of one operation: this many seconds from the first failure of a series."""

    def __init__(self, seconds: float, contact: Contact) -> None:
        self._seconds, self._contact = seconds, contact
        self._failures, self._since, self._last = 0, 0.0, 0.0

    def restart(self) -> None:
        """Ends the series of failures, because the gateway responded."""
        self._failures = 0

    async def wait_for_retry(self, error: TurnwiseError) -> bool:
        """Waits until the next attempt and returns True; returns False at once if the budget does not suffice."""
        now = asyncio.get_running_loop().time()
        if now - self._last > LONGEST_WAIT and not getattr(error, "quiet", False):
            self.restart()  # the connection worked in between
        if not self._failures:
            self._since = now
        wait = self._wait(error)
        self._failures += 1
        if now + wait - self._since >= self._limit(error):
            return False
        await asyncio.sleep(wait * random.uniform(1.0, 1.2))  # jitter
        self._last = asyncio.get_running_loop().time()
        return True

    def _wait(self, error: TurnwiseError) -> float:
        asked: float | None = getattr(error, "retry_after", None)
        return max(asked or 0.0, min(FIRST_WAIT * 2.0**self._failures, LONGEST_WAIT))

    def _limit(self, error: TurnwiseError) -> float:
        stranger = isinstance(error, Unreached) and not error.sent and not self._contact.heard
        return min(self._seconds, FIRST_CONTACT_SECONDS) if stranger else self._seconds


PROBLEM = "application/problem+json"


def problem_in(response: "httpx.Response") -> TurnwiseError | None:
    """Returns the exception for a response with its body read; None if it is successful."""
    if response.is_success:
        return None
    after = _seconds(response.headers.get("retry-after"))
    if media_type(response) == PROBLEM:
        told = _object(response.content)
        if told is not None:
            return error_of(told, after)
    return _of_status(response, after)


def error_of(told: Mapping[str, Any], retry_after: float | None = None) -> TurnwiseError:
    """Returns the exception for problem details. An unknown code maps to its nearest known parent."""
    code, problem, fix = (str(told.get(name) or "") for name in ("code", "title", "fix"))
    kind = _class_of(code)
    error = LimitReached("", problem, fix=fix) if issubclass(kind, LimitReached) else kind(problem, fix=fix)
    if isinstance(error, DefinitionInvalid) and isinstance(mistakes := told.get("mistakes"), list):
        error.problems = tuple(error_of(each) for each in mistakes if isinstance(each, dict)) or error.problems
    if isinstance(error, RequestError):
        error.where = _where(told.get("where"))
    if retry_after is not None:
        vars(error)["retry_after"] = retry_after  # also for classes without this attribute in process
    if code and code != kind.code:
        vars(error)["code"] = code  # from a newer gateway, or an internal error; callers may know it
    if told.get("request_id"):
        error.add_note(f"The gateway's log has the cause under the request's id {told['request_id']}.")
    return error


def error_in(text: str, retry_after: float | None = None) -> TurnwiseError:
    """Returns the exception for problem details in a stream."""
    told = _object(text.encode())
    return not_a_gateway_stream() if told is None else error_of(told, retry_after)


def not_a_gateway_stream() -> TurnwiseError:
    """Returns the error for a stream that does not come from a gateway."""
    return NothingHere("The stream does not come from a gateway.", fix="Check the URL, and the gateway's version.")


def not_a_gateway(response: "httpx.Response") -> TurnwiseError:
    """Returns the error for a successful response that does not come from a gateway."""
    kind = media_type(response) or "nothing"
    return NothingHere(
        f"{_place(response)} answers with {kind}, which is not a gateway's response.",
        fix="Check the URL: it does not lead to a gateway of Turnwise, or to one of another version.",
    )


def media_type(response: "httpx.Response") -> str:
    """Returns the response's media type without parameters."""
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _of_status(response: "httpx.Response", after: float | None) -> TurnwiseError:
    """Returns the error for a response that is not from a gateway, such as a proxy's."""
    status = response.status_code
    problem = f"{_place(response)} answers {status} {response.reason_phrase}".rstrip() + ", without a reason."
    if status >= 500:
        fix = "Check that the gateway runs, and the proxy in front of it."
        return Unreached(problem, fix=fix, quiet=status == 504, retry_after=after)
    if status == 429:
        return TooMany(problem, fix="Send less at once.", retry_after=1.0 if after is None else after)
    if status in _OTHERS:
        kind, fix = _OTHERS[status]
        return kind(problem, fix=fix)
    if response.has_redirect_location:
        return NothingHere(problem, fix="It redirects: use the target address.")
    return RequestInvalid(problem, fix=_NO_GATEWAY)


_NO_GATEWAY = "Check the URL: it does not seem to be a gateway of Turnwise."
_OTHERS: Mapping[int, tuple[type[TurnwiseError], str]] = MappingProxyType(
    {
        401: (NotAuthenticated, "A proxy in front of the gateway needs a credential, or this is not a Turnwise gateway."),
        403: (Forbidden, "A proxy in front of the gateway denies access, or this is not a Turnwise gateway."),
        404: (NothingHere, _NO_GATEWAY),
        405: (NothingHere, _NO_GATEWAY),
        413: (RequestTooLarge, "Send less, or raise the limit of the proxy in front of the gateway."),
    }
)


def _place(response: "httpx.Response") -> str:
    url = response.request.url
    return f"{url.scheme}://{url.netloc.decode()}"


def _class_of(code: str) -> type[TurnwiseError]:
    while code:
        if code in _BY_CODE:
            return _BY_CODE[code]
        code = code.rpartition(".")[0]
    return TurnwiseError


def _subclasses(kind: type[TurnwiseError]) -> Iterator[type[TurnwiseError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _subclasses(child)


_MADE_HERE = (TooMany, ModelUnavailable, RequestError, LimitReached, DefinitionInvalid, DefinitionConflict)
# Classes with other parameters are never sent: they are raised inside an agent, or before the gateway serves requests.
_BY_CODE: Mapping[str, type[TurnwiseError]] = {
    kind.code: kind
    for kind in _subclasses(TurnwiseError)
    if issubclass(kind, _MADE_HERE) or kind.__init__ is TurnwiseError.__init__
}


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _where(given: object) -> tuple[str | int, ...]:
    return tuple(each for each in given if isinstance(each, str | int)) if isinstance(given, list) else ()


def _seconds(text: str | None) -> float | None:
    """Returns the seconds of Retry-After; None for a date, which would need synchronized clocks."""
    return float(text) if text and text.isascii() and text.isdigit() else None
