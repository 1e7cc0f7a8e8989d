"""`turnwise select`: shows which agent would answer a message, and why."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from turnwise.cli.options import (
    DEFAULT_USER,
    ConfigOption,
    ContextOption,
    JsonOption,
    RoleOption,
    SessionOption,
    UserOption,
    message_context,
)
from turnwise.cli.rendering import decided_by, styled
from turnwise.cli.tables import fit_table
from turnwise.cli.terminal import one_line
from turnwise.facts.selections import Candidate, Selection

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from turnwise.facts.messages import MessageContext

RANKED_ROWS = 10


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Show who would answer a message, and why.")(select)


def select(
    message: Annotated[str, typer.Argument(help="The message, in quotes.", metavar="MESSAGE")],
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
    role: RoleOption = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show every verdict with its evidence and options, and who was passed over by which rule."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show which agent would answer a message, and why. Nothing runs and nothing is stored."""
    import asyncio

    from turnwise.cli import terminal
    from turnwise.cli.terminal import replace_undecodable

    given = message_context(context, role)
    selection, options = asyncio.run(_select(config, replace_undecodable(message), session, user, given))
    if as_json:
        terminal.print_json(selection.model_dump(mode="json"))
        return
    from turnwise.cli import rendering
    from turnwise.cli.tables import wrap

    width = terminal.width()
    terminal.print_lines(wrap([rendering.decision_line(selection)], width))
    terminal.print_line()
    terminal.print_lines(ranking_table(selection, width=width))
    terminal.print_line()
    if explain:
        terminal.print_lines(wrap(rendering.explanation_lines(selection, options), width))
        terminal.print_line()
    terminal.print_lines(wrap([rendering.summary_line(selection)], width))


async def _select(
    config: "Path | None", message: str, session: str | None, user: str, context: "MessageContext"
) -> "tuple[Selection, dict[str, JsonValue]]":
    from turnwise.cli.options import open_app
    from turnwise.cli.progress import prepare

    async with open_app(config) as app:
        await prepare(app.runner)
        selection = await app.runner.select(message, user=user, session=session, context=context)
        return selection, app.runner.cascade.options(selection.segment)


def ranking_table(selection: Selection, rows: int = RANKED_ROWS, *, width: int | None = None) -> Iterator[Text]:
    """A table of the chosen agent and all other candidates: those of the deciding selector come first."""
    ranked = _ranked(selection)
    lines: list[list[str | Text]] = []
    for number, (selector, candidate) in enumerate(ranked[:rows], 1):
        style = "bold" if candidate.agent == selection.agent else ""
        lines.append(
            [
                styled(str(number), "dim"),
                styled(one_line(candidate.agent), style),
                styled(f"{candidate.score:.2f}", style),
                styled(one_line(selector), "dim"),
                one_line(candidate.evidence),
            ]
        )
    yield from fit_table(("", "agent", "score", "selector", "because"), lines, width, right=("", "score"))
    if len(ranked) > rows:
        yield styled(f"   … {len(ranked) - rows} more", "dim")


def _ranked(selection: Selection) -> list[tuple[str, Candidate]]:
    decider = decided_by(selection)
    others = [verdict for verdict in selection.verdicts if verdict is not decider]
    found: dict[str, tuple[str, Candidate]] = {}
    for verdict in [decider, *others] if decider else others:
        for candidate in verdict.candidates:
            found.setdefault(candidate.agent, (verdict.selector, candidate))
    if selection.agent not in found:
        own = Candidate(agent=selection.agent, score=selection.confidence, evidence=selection.reason)
        found = {selection.agent: (decider.selector if decider else "", own), **found}
    return sorted(found.values(), key=lambda pair: pair[1].agent != selection.agent)
