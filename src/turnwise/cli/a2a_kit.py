"""`turnwise a2a-kit`: the app that A2A's conformance kit is run against."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import need_server
from turnwise.cli.serve import serve_app

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.ports.hooks import Hooks

HOST, PORT = "127.0.0.1", 9999
"""Where the kit looks for who is to be tested."""


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("a2a-kit", short_help="Serve agents for A2A's conformance kit.")(a2a_kit)


def a2a_kit(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Where to listen.")] = HOST,
    port: Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any that is free.")] = PORT,
) -> None:
    """Serve agents that do what A2A's conformance kit (a2a-tck) wants to see, over the A2A of this version.

    It takes no project: nothing is configured, and nothing is kept when it ends. Run the kit beside it, with
    --sut-host and the address that is printed.
    """
    need_server("turnwise a2a-kit")
    raise typer.Exit(serve_app(_app, host, port, None))


def _app(hooks: "Sequence[Hooks]") -> "App":
    from turnwise.assemble import App
    from turnwise.testing.a2a_kit import STORE, kit_app, kit_gateway

    return App(kit_app(hooks=hooks), Path(), STORE, gateway=kit_gateway())
