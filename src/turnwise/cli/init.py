"""`turnwise init`: creates a small working project."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from turnwise.cli.options import JsonOption

STARTER = Path(__file__).parent / "starter"
"""The files of each template. Their names end in `.txt`, so that tools do not treat them as code of this package."""
KEPT_FILE = ".gitignore"
"""The only file that may exist already: most repositories have one."""
_INSTALL = re.compile(r"@install\[([\w-]+)\]")
"""Stands in a template for the command that installs an extra."""

Template = Literal["basic", "llm", "flow", "adapter"]


class _NextSteps(NamedTuple):
    """The first commands to try in a project of a template."""

    commands: tuple[str, ...]
    needs: tuple[str, str] | None = None
    """A module, and the extra that installs it."""
    hint: str = ""


_NEXT_STEPS: Mapping[Template, _NextSteps] = {
    "basic": _NextSteps(("turnwise check", "turnwise select 'Where is my order 1001?'", "turnwise chat")),
    "llm": _NextSteps(
        ("turnwise check", "turnwise select 'Where is my order 1001?'", "turnwise chat"),
        hint="A local stand-in plays the model. For a real one, install the extra llm and set OPENAI_API_KEY.",
    ),
    "flow": _NextSteps(("turnwise check", "turnwise flow show report", "turnwise flow run report 'Write a report about bees'")),
    "adapter": _NextSteps(
        ("turnwise check", "turnwise select 'When do you open?'", "turnwise chat"),
        needs=("pydantic_ai", "pydantic-ai"),
        hint="A local stand-in plays the model. For a real one, set OPENAI_API_KEY.",
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Create a small working project.")(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder; created if it does not exist.")] = Path(),
    template: Annotated[
        Template,
        typer.Option(
            "--template",
            "-t",
            help="basic: functions as agents. llm: agents that call a model. flow: tasks that agents do together. "
            "adapter: an agent of Pydantic AI.",
        ),
    ] = "basic",
    as_json: JsonOption = False,
) -> None:
    """Create a small working project: turnwise.yaml, agents, a test, cases for `turnwise eval`, a README and a .gitignore.

    Existing files are never overwritten.
    """
    from turnwise.cli import terminal
    from turnwise.config.document import display_path

    written, kept = _write(folder, template)
    if as_json:
        told = {
            "template": template,
            "folder": str(folder),
            "written": list(map(display_path, written)),
            "kept": list(map(display_path, kept)),
        }
        terminal.print_json(told)
        return
    for path in written:
        terminal.print_line(f"  wrote {display_path(path)}", "dim")
    for path in kept:
        terminal.print_line(f"  kept {display_path(path)} as it is", "dim")
    _print_next_steps(folder, _NEXT_STEPS[template])


def _write(folder: Path, template: Template) -> tuple[list[Path], list[Path]]:
    """Writes the files of the template.

    Returns:
        The written files, and the existing files that were kept.

    Raises:
        ConfigError: if a file exists that may not, or the files cannot be written.
    """
    from turnwise.config.document import display_path
    from turnwise.facts.errors import ConfigError
    from turnwise.facts.hints import install_command

    files = {
        folder / file.name.removesuffix(".txt"): _INSTALL.sub(
            lambda found: install_command([found[1]]), file.read_text("utf-8")
        )
        for file in sorted((STARTER / template).iterdir())
        if file.suffix == ".txt"
    }
    there = [path for path in files if path.exists() or path.is_symlink()]
    kept = [path for path in there if path.name == KEPT_FILE]
    if taken := [display_path(path) for path in there if path not in kept]:
        raise ConfigError(f"There is already {', '.join(taken)}; nothing was written.", fix="Choose another folder.")
    written = [path for path in files if path not in kept]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in written:
            with path.open("x", encoding="utf-8") as file:
                file.write(files[path])
    except OSError as error:
        raise ConfigError(f"The project cannot be written: {error}.", fix="Choose another folder.") from None
    return written, kept


def _print_next_steps(folder: Path, start: _NextSteps) -> None:
    """Prints the commands to try next."""
    from importlib.util import find_spec

    from turnwise.cli import terminal
    from turnwise.config.document import display_path
    from turnwise.facts.hints import install_command

    terminal.print_line("Now try:", "bold")
    if folder.resolve() != Path.cwd():
        terminal.print_line(f"  {shlex.join(['cd', display_path(folder)])}")
    if start.needs is not None and find_spec(start.needs[0]) is None:
        terminal.print_line(f"  {install_command([start.needs[1]])}")
    for command in start.commands:
        terminal.print_line(f"  {command}")
    if start.hint:
        terminal.print_line(start.hint, "dim")
