"""`turnwise select`: shows which agent would answer a message, and why."""

from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from turnwise.facts.messages import MessageContext
    from turnwise.facts.selections import Selection


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
    from turnwise.cli.decision_output import ranking_table
    from turnwise.cli.terminal import replace_undecodable

    given = message_context(context, role)
    selection, options = asyncio.run(_select(config, replace_undecodable(message), session, user, given))
    if as_json:
        terminal.print_json(selection.model_dump(mode="json"))
        return
    from turnwise.cli import rendering
    from turnwise.cli.rendering import wrap

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
    """Returns the selection for the message, and the options of the stages that decided."""
    from turnwise.cli.options import open_app
    from turnwise.cli.progress_bars import prepare

    async with open_app(config) as app:
        await prepare(app.runner)
        selection = await app.runner.select(message, user=user, session=session, context=context)
        return selection, app.runner.cascade.options(selection.segment)
