"""What a request says beside its messages: for whom among the agents it is, and what is known. Pure."""

from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.errors import RequestInvalid
from turnwise.facts.messages import OfferedTool
from turnwise.gateway.ag_ui.body import RunBody
from turnwise.gateway.speech.calls import offered

TEXTS = ("agent", "channel", "user_kind")
QUESTIONS = "questions"
INTERRUPT, MESSAGE = "interrupt", "message"
"""How a question of an agent's is put: as an interrupt, or as an answer to which the next message replies."""


class Props(NamedTuple):
    """What stands in `forwardedProps` for us; attributes: the rest of it, and the context, for agents.

    questions: whether an agent's question is an interrupt; None = as the gateway is configured.
    """

    agent: str | None
    channel: str | None
    user_kind: str | None
    questions: bool | None
    attributes: dict[str, JsonValue]


def props_of(body: RunBody) -> Props:
    """RequestInvalid for a field of ours that holds something else."""
    given = body.forwarded_props
    rest: dict[str, JsonValue] = dict(given) if isinstance(given, dict) else {}
    if given is not None and not isinstance(given, dict):
        rest = {"forwardedProps": given}
    named = {name: _text(rest.pop(name, None), name) for name in TEXTS}
    questions = rest.pop(QUESTIONS, None)
    if questions not in (None, INTERRUPT, MESSAGE):
        raise _wrong(QUESTIONS, f"Send {INTERRUPT!r} or {MESSAGE!r}.")
    if body.context:
        rest["context"] = [{"description": each.description, "value": each.value} for each in body.context]
    agent, channel, user_kind = map(named.get, TEXTS)
    return Props(agent, channel, user_kind, None if questions is None else questions == INTERRUPT, rest)


def offers_in(body: RunBody) -> tuple[OfferedTool, ...]:
    """The application's tools. RequestInvalid for parameters that are no schema of an object."""
    made = []
    for place, tool in enumerate(body.tools or ()):
        parameters: Any = tool.parameters or None
        if parameters is not None and not isinstance(parameters, dict):
            where = ("body", "tools", place, "parameters")
            raise RequestInvalid("The parameters of a tool are no JSON schema.", fix="Send an object.", where=where)
        made.append(offered(tool.name, tool.description, parameters))
    return tuple(made)


def _text(given: JsonValue, name: str) -> str | None:
    if not isinstance(given, str | None):
        raise _wrong(name, "Send a text.")
    return given


def _wrong(name: str, fix: str) -> RequestInvalid:
    return RequestInvalid(f"forwardedProps.{name} cannot be read.", fix=fix, where=("body", "forwardedProps", name))
