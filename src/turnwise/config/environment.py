"""`${NAME}` and `${NAME:-default}` in the strings of a configuration file."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{(?P<bad>[^}\n]{0,40})\}?")


class Filled(NamedTuple):
    """The text with its references replaced; the variables that are not set; the references that are none."""

    text: str
    missing: tuple[str, ...]
    malformed: tuple[str, ...]


def fill(text: str, variables: Mapping[str, str]) -> Filled:
    """Replaces every reference; `$${` stands for `${` itself. An empty variable takes the default, as in a shell."""
    if "${" not in text:
        return Filled(text, (), ())
    missing: list[str] = []
    malformed: list[str] = []

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match[0] == "$${":
            return "${"
        if name is None:
            malformed.append(match[0])
            return ""
        if default is not None:
            return variables.get(name) or default
        if name not in variables:
            missing.append(name)
        return variables.get(name, "")

    return Filled(_REFERENCE.sub(value, text), tuple(missing), tuple(malformed))
