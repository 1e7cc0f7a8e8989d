"""Shared helpers of the adapters: the library check, the card, and error conversion."""

import importlib.util
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from turnwise.agents.function import make_card
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
from turnwise.facts.tree import AgentCard

CHARACTERS = 500
_TRANSIENT = frozenset({408, 409, 425, 429})
_CONNECTION_ERRORS = frozenset(
    {"APIConnectionError", "APITimeoutError", "TransportError", "ServiceUnavailable", "ModelTimeoutError"}
)
"""Class names of client errors without a response: those of httpx and of the model libraries."""


def require_library(module: str, package: str, extra: str, minimum: tuple[int, ...]) -> None:
    """Checks that the library is installed in a recent version.

    pip does not refuse an older version that is installed already, and that version fails in the middle of a turn.

    Raises:
        MissingExtra: The module cannot be found.
        ConfigError: The package is older than `minimum`.
    """
    try:
        is_installed = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing too
        is_installed = False
    if not is_installed:
        raise MissingExtra(f"An agent of {package}", extra)
    try:
        installed = version(package)
    except PackageNotFoundError:  # a source checkout on the path has no version
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[: len(minimum)])
    if numbers < minimum:
        wanted = ".".join(map(str, minimum))
        raise ConfigError(
            f"{package} {installed} is installed; its agents need {wanted} or newer.",
            fix=f"Install it with: pip install '{package}>={wanted}'",
        )


def card_of(wrapped: object, name: str | None, description: str | None, fields: Mapping[str, Any]) -> AgentCard:
    """Builds the card of an adapter; name and description default to those of the wrapped object.

    Raises:
        AgentDefinitionError: There is no name.
    """
    card_name = name or getattr(wrapped, "name", None)
    if not isinstance(card_name, str) or not card_name:
        raise AgentDefinitionError(f"The {type(wrapped).__name__} has no name.", fix="Give the adapter a name.")
    about = getattr(wrapped, "description", None) if description is None else description
    return make_card({"kind": "llm", "name": card_name, "description": about if isinstance(about, str) else "", **fields})


def not_an_agent(wrapped: object, wanted: str) -> AgentDefinitionError:
    """Returns the error for an object that cannot be wrapped."""
    return AgentDefinitionError(f"A {type(wrapped).__name__} cannot be wrapped here.", fix=f"Give {wanted}.")


def model_error(agent: str, error: Exception) -> TurnwiseError:
    """Converts an error to one of ours.

    A service's message may repeat the conversation, so only the error's class and status are shown.

    Returns:
        ModelUnavailable or ModelRefused if the class or the HTTP status shows an error of a model service; AgentFailed
            otherwise.
    """
    first = _first_of_group(error)
    kind = type(first).__name__
    status = _status(first)
    if _is_connection_error(first) or (status is not None and (status in _TRANSIENT or status >= 500)):
        return ModelUnavailable(
            f"Agent {agent!r}: a model is not available: {_with_status(kind, status)}.", fix="Try again later."
        )
    if status is not None and status >= 400:
        return ModelRefused(
            f"Agent {agent!r}: a model refused the request: {_with_status(kind, status)}.",
            fix="The cause of this error says why.",
        )
    return AgentFailed(f"Agent {agent!r} raised {kind}: {error_text(first)}")


def too_many_steps(agent: str, error: Exception, raise_what: str) -> LimitReached:
    """Returns the error for a library's own limit of model calls; `raise_what` names its setting."""
    return LimitReached("steps", f"Agent {agent!r} did not come to an end: {error_text(error)}", fix=f"Raise {raise_what}.")


def error_text(error: BaseException) -> str:
    """Returns the error's message, cut to a limit, in a form that can be stored."""
    try:
        text = str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        text = "it cannot say what went wrong"
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…"


def _with_status(kind: str, status: int | None) -> str:
    return kind if status is None else f"{kind}, status {status}"


def _first_of_group(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_connection_error(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(base.__name__ in _CONNECTION_ERRORS for base in type(error).__mro__)


def _status(error: BaseException) -> int | None:
    """Returns the HTTP status of the error, under any of the attribute names that model clients use."""
    response = getattr(error, "response", None)
    for value in (getattr(error, "status_code", None), getattr(error, "code", None), getattr(response, "status_code", None)):
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
            return value
    return None
