"""`turnwise decisions review`: which decisions to label next."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.learning.review import Queued

_TEXT = 60


def register(app: typer.Typer) -> None:
    """Adds the command to `turnwise decisions`."""
    app.command("review", short_help="List the decisions to label next.")(review)


def review(
    size: Annotated[int, typer.Option("--size", "-n", min=1, max=1_000, help="How many decisions.")] = 20,
    share: Annotated[
        float, typer.Option("--random", min=0, max=1, metavar="0..1", help="The share of decisions that are drawn at random.")
    ] = 0.1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the draw.")] = 0,
    limit: Annotated[
        int, typer.Option("--of", min=1, max=100_000, help="Choose from this number of the newest decisions.")
    ] = 10_000,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the decisions to label next: the most contradicted, then the most doubtful, and some at random.

    Pass `picked` and `probability` on to `decisions label`: accuracy is estimated from the random ones.
    """
    from turnwise.cli import terminal
    from turnwise.cli.decision_output import decision_data

    found = asyncio.run(_review(config, size, share, seed, limit))
    if as_json:
        keys = ("picked", "doubt", "probability")
        queue = [decision_data(each.decision) | {key: getattr(each, key) for key in keys} for each in found]
        terminal.print_json({"queue": queue})
    elif found:
        terminal.print_lines(_lines(found))
    else:
        terminal.print_note("There is no decision to label.")


async def _review(config: Path | None, size: int, share: float, seed: int, limit: int) -> "list[Queued]":
    """Returns the decisions to label next."""
    from turnwise.cli.options import open_app
    from turnwise.learning.review import read_queue

    async with open_app(config) as app:
        runner = app.runner
        return await read_queue(runner.store, runner.app, runner.cascade, size=size, share=share, seed=seed, limit=limit)


def _lines(found: "list[Queued]") -> "Iterator[Text]":
    """The table of the decisions to label next."""
    from turnwise.cli.rendering import fit_table
    from turnwise.cli.terminal import one_line, width

    rows = [
        (
            each.picked if each.probability is None else f"random {each.probability:.4g}",
            f"{each.doubt:.2f}",
            one_line(each.decision.key.user),
            one_line(each.decision.key.id),
            str(each.decision.sequence),
            one_line(each.decision.selection.agent),
            one_line(each.decision.text, _TEXT),
        )
        for each in found
    ]
    return fit_table(("picked", "doubt", "user", "session", "#", "went to", "message"), rows, width(), right=("doubt", "#"))
