"""`turnwise init` and `turnwise check`: a project is made, a project is judged."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.assemble import Report
    from turnwise.facts.tree import AgentTree

DESCRIPTION_CHARACTERS = 60
STARTER = Path(__file__).parent / "starter"
"""The files of a new project, each with `.txt` behind its name, so that nothing takes them for code of ours."""


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command(short_help="Write a small working project.")(init)
    app.command(short_help="Find every mistake in a configuration.")(check)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where; made if it does not exist.")] = Path(),
) -> None:
    """Write a small working project: turnwise.yaml, agents.py and a README. Nothing is overwritten."""
    from turnwise.cli import terminal
    from turnwise.config.places import shown
    from turnwise.facts.errors import ConfigError

    files = {folder / file.name.removesuffix(".txt"): file.read_text("utf-8") for file in sorted(STARTER.glob("*.txt"))}
    taken = [shown(path) for path in files if path.exists() or path.is_symlink()]
    if taken:
        raise ConfigError(f"There is already {', '.join(taken)}; nothing was written.", fix="Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"The project cannot be written: {error}.", fix="Choose another folder.") from None
    for path in files:
        terminal.say(f"  wrote {shown(path)}", "dim")
    first = [] if folder.resolve() == Path.cwd() else [shlex.join(["cd", shown(folder)])]
    terminal.say("Now try:", "bold")
    for command in (*first, "turnwise check", "turnwise select 'Where is my order 1001?'", "turnwise chat"):
        terminal.say(f"  {command}")


def check(config: ConfigOption = None) -> None:
    """Validate everything, without running an agent or touching a store: exit code 1, and every mistake, if there is one."""
    from turnwise.assemble import check_app
    from turnwise.cli import terminal

    report = check_app(config)
    if report.tree is not None:
        terminal.say_all(_agents(report.tree, report.models))
        terminal.say()
    if report.errors:
        for error in report.errors:
            terminal.show_error(error)
        count = len(report.errors)
        terminal.note(f"{count} mistake{'s' if count > 1 else ''} in {report.shown}", "bold red")
        raise typer.Exit(1)
    _say_ok(report)


def _agents(tree: "AgentTree", models: "Mapping[str, str]") -> "Iterator[Text]":
    from turnwise.cli import rendering, terminal
    from turnwise.cli.clean import one_line
    from turnwise.cli.tables import fitted

    rows = []
    for name, branch in _drawn(tree, tree.root, "", ""):
        card = tree.card(name)
        line = rendering.styled(branch, "dim").append(one_line(name), style="bold" if card.enabled else "dim strike")
        examples = len(card.examples) + sum(len(skill.examples) for skill in card.skills)
        about = rendering.styled(one_line(card.description, DESCRIPTION_CHARACTERS), "dim")
        model = [one_line(models.get(name, ""))] if models else []
        rows.append((line, card.kind, *model, str(len(card.patterns) or ""), str(examples or ""), about))
    columns = ("agent", "kind", *(["model"] if models else []), "patterns", "examples", "description")
    return fitted(columns, rows, terminal.width(), right=("patterns", "examples"))


def _drawn(tree: "AgentTree", root: str, first: str, rest: str) -> list[tuple[str, str]]:
    """The names below an agent in the tree's order, each with the lines drawn before it."""
    drawn = [(root, first)]
    children = tree.children(root)
    for number, child in enumerate(children, 1):
        last = number == len(children)
        drawn += _drawn(tree, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
    return drawn


def _say_ok(report: "Report") -> None:
    from turnwise.cli import rendering, terminal
    from turnwise.cli.clean import one_line
    from turnwise.cli.wrapping import wrapped

    assert report.tree is not None
    kept = f"policy {report.policy} · store {report.store} · artifacts {report.artifacts or 'none'}"
    lines = [rendering.styled(one_line(kept), "dim")]
    if report.encoder:
        lines.append(rendering.styled(one_line(f"by meaning: {report.phrases:,} phrases · encoder {report.encoder}"), "dim"))
    patterns = sum(len(card.patterns) for card in report.tree)
    stages = ", ".join(f"{stage} {milliseconds:.0f} ms" for stage, milliseconds in report.timings)
    line = rendering.styled("ok", "bold green")
    line.append(" · " + one_line(f"{report.shown} · app {report.app} · {len(report.tree)} agents, {patterns} patterns"))
    lines.append(line.append(f" · {stages}", style="dim"))
    terminal.say_all(wrapped(lines, terminal.width()))
