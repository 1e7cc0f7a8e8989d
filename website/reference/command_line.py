"""The commands with their arguments and options, from the command line itself."""

from collections.abc import Iterator
from typing import Any

import typer.main

from reference import plain, table
from turnwise.cli.app import app


def page() -> str:
    """Returns a section for each command, in the order of `turnwise --help`."""
    return "\n".join(_command(typer.main.get_command(app), ["turnwise"]))


def _command(command: Any, words: list[str]) -> Iterator[str]:
    nested = getattr(command, "commands", {})
    yield f"\n## {' '.join(words)}\n" if len(words) < 3 else f"\n### {' '.join(words)}\n"
    yield plain(_paragraphs(command.help or ""))
    parameters = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    yield table(("argument", ""), ((f"`{each.name.upper()}`", plain(_about(each))) for each in arguments))
    options = [each for each in parameters if each.param_type_name == "option"]
    yield table(("option", ""), ((f"`{_option(each)}`", plain(_about(each))) for each in options))
    for name, each in nested.items():
        yield from _command(each, [*words, name])


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\f", "").split("\n\n"))


def _option(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.metavar or option.name.upper()}"


def _about(parameter: Any) -> str:
    default = parameter.default
    is_told = default not in (None, False, True, ()) and not callable(default) and not str(default).startswith("Sentinel")
    required = " Required." if parameter.required else ""
    return f"{parameter.help or ''}{f' Default: {default}.' if is_told else ''}{required}".strip()
