"""What a request says of the caller's tools, as chat completions and responses have it alike."""

from pydantic import JsonValue

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.refusing import Where, refused


def check_choice(*, tools: bool, choice: JsonValue, parallel: bool | None) -> None:
    """RequestInvalid for who would decide on calls in the agents' place. tools: whether there are any of the caller's."""
    if choice not in (None, "auto", "none"):
        raise refused("tool_choice", "Agents choose their tools themselves: only 'auto' and 'none' are supported.")
    if tools and parallel is False:
        problem = "Agents may make several calls at once: this cannot be switched off with a request."
        raise refused("parallel_tool_calls", problem)


def not_a_function(where: Where, kind: str) -> RequestInvalid:
    """The error for tools of other types."""
    return refused(where, f"Tools of the type {kind[:64]!r} are not supported, only functions.", fix="Use a function.")
