"""`turnwise policy show` and `turnwise tree show`: draw what decides, and who may be chosen."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from turnwise.facts.tree import AgentTree
    from turnwise.selection.diagram import Format
    from turnwise.selection.policy import PolicySpec

policy_app = typer.Typer(help="Show the policy.", rich_markup_mode=None, no_args_is_help=True)
tree_app = typer.Typer(help="Show the agent tree.", rich_markup_mode=None, no_args_is_help=True)

FormatOption = Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or mermaid.")]


@policy_app.command("show", short_help="Draw the stages of a policy in order.")
def show_policy(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A named policy, such as adk. By default the policy of the app.")
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = "text",
) -> None:
    """Draw the stages of a policy in the order in which they are asked. The first one that chooses an agent decides."""
    from turnwise.cli import terminal
    from turnwise.selection.diagram import draw_policy
    from turnwise.selection.named import named_policy

    checked = _format(form)
    policy = asyncio.run(_loaded(config))[0] if name is None else named_policy(name)
    terminal.write(draw_policy(policy, checked) + "\n")


@tree_app.command("show", short_help="Draw the agents below their parents.")
def show_tree(config: ConfigOption = None, form: FormatOption = "text") -> None:
    """Draw the agents below their parents. Runs no agent."""
    from turnwise.cli import terminal
    from turnwise.selection.diagram import draw_tree

    checked = _format(form)
    terminal.write(draw_tree(asyncio.run(_loaded(config))[1], checked) + "\n")


async def _loaded(config: Path | None) -> "tuple[PolicySpec, AgentTree]":
    from turnwise.cli.options import open_app

    async with open_app(config) as app:
        return app.runner.cascade.spec, app.runner.tree


def _format(given: str) -> "Format":
    if given == "text":
        return "text"
    if given == "mermaid":
        return "mermaid"
    raise typer.BadParameter("There are two formats: text and mermaid.", param_hint="'--format'")
