"""What is the same in every adapter when it is made: the library that has to be there, and the card."""

import importlib.util
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from turnwise.agents.function import make_card
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import (
    AgentDefinitionError,
    AgentFailed,
    ConfigError,
    LimitReached,
    MissingExtra,
    ModelRefused,
    ModelUnavailable,
    TurnwiseError,
)


def require_library(module: str, package: str, extra: str, minimum: tuple[int, ...]) -> None:
    """MissingExtra when the module is not there, ConfigError when its package is older than `minimum`.

    pip does not refuse an old version that was there before, and an old one fails somewhere inside of a turn.
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it stands in is not there either
        found = False
    if not found:
        raise MissingExtra(f"An agent of {package}", extra)
    try:
        installed = version(package)
    except PackageNotFoundError:  # a checkout on the path, of a version that nobody says
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[: len(minimum)])
    if numbers < minimum:
        wanted = ".".join(map(str, minimum))
        raise ConfigError(
            f"{package} {installed} is installed; its agents need {wanted} or newer.",
            fix=f"Install it with: pip install 'turnwise[{extra}]'",
        )


def card_of(wrapped: object, name: str | None, description: str | None, fields: Mapping[str, Any]) -> AgentCard:
    """The card of an adapter: name and description are those of what it wraps, unless others are given.

    AgentDefinitionError when there is no name at all.
    """
    own = name or getattr(wrapped, "name", None)
    if not isinstance(own, str) or not own:
        raise AgentDefinitionError(f"The {type(wrapped).__name__} has no name.", fix="Give the adapter a name.")
    about = getattr(wrapped, "description", None) if description is None else description
    return make_card({"kind": "llm", "name": own, "description": about if isinstance(about, str) else "", **fields})


def not_an_agent(wrapped: object, wanted: str) -> AgentDefinitionError:
    """The error for something that cannot be wrapped."""
    return AgentDefinitionError(f"A {type(wrapped).__name__} cannot be wrapped here.", fix=f"Give {wanted}.")


CHARACTERS = 500

_MAY_PASS = frozenset({408, 409, 425, 429})
_UNREACHED = frozenset({"APIConnectionError", "APITimeoutError", "TransportError", "ServiceUnavailable", "ModelTimeoutError"})
"""Classes, by name, of errors of clients that got no answer; httpx's, and those of the models' own libraries."""


def model_error(agent: str, error: Exception) -> TurnwiseError:
    """ModelUnavailable or ModelRefused when the error says by its class or its HTTP status that it is one of a model's
    service; AgentFailed for everything else.

    What a service says may repeat the conversation, so of it only the kind and the status are told.
    """
    found = _first(error)
    kind = type(found).__name__
    status = _status(found)
    if _is_unreached(found) or (status is not None and (status in _MAY_PASS or status >= 500)):
        return ModelUnavailable(f"Agent {agent!r}: a model is not available: {_told(kind, status)}.", fix="Try again later.")
    if status is not None and status >= 400:
        return ModelRefused(
            f"Agent {agent!r}: a model refused the request: {_told(kind, status)}.", fix="The cause of this error says why."
        )
    return AgentFailed(f"Agent {agent!r} raised {kind}: {error_text(found)}")


def too_many_steps(agent: str, error: Exception, raise_what: str) -> LimitReached:
    """For a library's own limit of how often models are asked; `raise_what` names where it is set."""
    return LimitReached("steps", f"Agent {agent!r} did not come to an end: {error_text(error)}", fix=f"Raise {raise_what}.")


def error_text(error: BaseException) -> str:
    """The error's own words, cut, as they can be stored."""
    try:
        text = str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        text = "it cannot say what went wrong"
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…"


def _told(kind: str, status: int | None) -> str:
    return kind if status is None else f"{kind}, status {status}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_unreached(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(base.__name__ in _UNREACHED for base in type(error).__mro__)


def _status(error: BaseException) -> int | None:
    """The HTTP status under the names by which clients of models carry it."""
    response = getattr(error, "response", None)
    for value in (getattr(error, "status_code", None), getattr(error, "code", None), getattr(response, "status_code", None)):
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
            return value
    return None
