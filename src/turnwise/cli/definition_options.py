"""Options of the commands under `turnwise agents`, and the app that they work on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import open_app

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.config.definition_editor import DefinitionEditor
    from turnwise.ports.definitions import DefinitionKind

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")]
VersionArgument = Annotated[int | None, typer.Argument(metavar="VERSION", min=1, help="By default the newest one.")]
PolicyOption = Annotated[bool, typer.Option("--policy", help="A policy is meant, not an agent.")]
NoteOption = Annotated[str, typer.Option("--note", "-m", metavar="TEXT", help="Why it changes; kept with the version.")]
ExpectOption = Annotated[
    int | None, typer.Option("--expect", metavar="VERSION", min=0, help="Refuse if another version is the newest one.")
]
MinOption = Annotated[
    list[str] | None,
    typer.Option("--min", metavar="KEY=VALUE", help="Refuse if a figure of the trial is lower, such as gain=0."),
]
MaxOption = Annotated[
    list[str] | None,
    typer.Option("--max", metavar="KEY=VALUE", help="Refuse if a figure of the trial is higher, such as changed_share=0.05."),
]


def kind_of(policy: bool) -> "DefinitionKind":
    """Returns what a command is about."""
    return "policy" if policy else "agent"


@asynccontextmanager
async def open_editor(config: Path | None, *, serve: bool = False) -> "AsyncIterator[tuple[App, DefinitionEditor]]":
    """Loads the app with what changes its definitions.

    Args:
        config: The configuration file, if one was named.
        serve: Also makes the agents that serve.

    Raises:
        ConfigError: The session store keeps no definitions.
    """
    from turnwise.facts.errors import ConfigError

    async with open_app(config, serve=serve) as app:
        if app.editor is None:
            raise ConfigError("The session store of this app keeps no definitions.", fix="Use a SQL database as `store`.")
        yield app, app.editor
