"""What a docstring says of a function, and of each of its parameters."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class Described(NamedTuple):
    """text: what the function does, and what it returns. parameters: their descriptions, by name."""

    text: str
    parameters: dict[str, str]


def described(function: Callable[..., Any]) -> Described:
    """Reads a docstring in Google's, NumPy's or Sphinx's style; what is in none of them is all text."""
    # Takes 50 ms to import, and only who makes tools needs it.
    from docstring_parser import ParseError, parse

    written = inspect.getdoc(function) or ""
    try:
        docstring = parse(written)
    except (ParseError, IndexError):  # it does not expect a field without a name
        return Described(written, {})
    parameters = {
        name.strip().lstrip("*"): _one_line(parameter.description)
        for parameter in docstring.params
        if parameter.description
        for name in parameter.arg_name.split(",")
    }
    text = (docstring.description or "").strip()
    returned = docstring.returns.description if docstring.returns else None
    return Described(f"{text}\n\nReturns: {_one_line(returned)}".strip() if returned else text, parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())
