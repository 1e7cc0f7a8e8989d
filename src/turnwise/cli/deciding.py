"""`turnwise select`: who would answer, and why."""

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
    """Adds the commands of this file."""
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
    """Show who would answer a message, and why. Nothing runs and nothing is stored."""
    import asyncio

    from turnwise.cli import terminal
    from turnwise.cli.clean import whole

    given = message_context(context, role)
    selection, options = asyncio.run(_selected(config, whole(message), session, user, given))
    if as_json:
        terminal.print_json(selection.model_dump(mode="json"))
        return
    from turnwise.cli import rendering
    from turnwise.cli.ranking import ranking
    from turnwise.cli.wrapping import wrapped

    width = terminal.width()
    terminal.say_all(wrapped([rendering.decision_line(selection)], width))
    terminal.say()
    terminal.say_all(ranking(selection, width=width))
    terminal.say()
    if explain:
        terminal.say_all(wrapped(rendering.explanation(selection, options), width))
        terminal.say()
    terminal.say_all(wrapped([rendering.summary(selection)], width))


async def _selected(
    config: "Path | None", message: str, session: str | None, user: str, context: "MessageContext"
) -> "tuple[Selection, dict[str, JsonValue]]":
    from turnwise.cli.preparing import ready
    from turnwise.cli.running import running

    async with running(config) as app:
        await ready(app.runner)
        selection = await app.runner.select(message, user=user, session=session, context=context)
        return selection, app.runner.cascade.options(selection.segment)
