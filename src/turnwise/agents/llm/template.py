"""Instructions with places for what the state holds."""

import json
import re

from turnwise.facts.errors import AgentFailed
from turnwise.ports.context import State

_KEY = r"(?:app:|user:|temp:)?[A-Za-z_][\w.-]*"
_PLACE = re.compile(rf"\{{\{{({_KEY}\??)\}}\}}|\{{({_KEY})(\??)\}}")


def filled(template: str, state: State, agent: str) -> str:
    """The template with the state's values in place of `{key}`; texts as they are, everything else as JSON.

    `{key?}` is empty when there is no such key, `{{key}}` stands for `{key}` itself; any other brace is left alone. What is
    filled in is not looked at again. AgentFailed names a key that is missing.
    """

    def fill(match: re.Match[str]) -> str:
        escaped, key, optional = match.groups()
        if escaped is not None:
            return f"{{{escaped}}}"
        value = state.get(key)
        if value is None and not optional:
            raise AgentFailed(
                f"The instructions of agent {agent!r} name the state key {key!r}, which is not set.",
                fix=f"Set it, write {{{key}?}} if it may be missing, or {{{{{key}}}}} if these braces are meant.",
            )
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PLACE.sub(fill, template)
