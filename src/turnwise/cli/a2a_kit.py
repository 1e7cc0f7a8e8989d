"""`turnwise a2a-kit`: serves the app that the A2A conformance kit tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import require_server
from turnwise.cli.serve import serve_app

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.ports.hooks import Hooks

HOST, PORT = "127.0.0.1", 9999
"""The kit's default address of the server under test."""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("a2a-kit", short_help="Serve agents for A2A's conformance kit.")(a2a_kit)


def a2a_kit(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = HOST,
    port: Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any free port.")] = PORT,
) -> None:
    """Serve agents that behave as the A2A conformance kit (a2a-tck) expects, over this version's A2A protocol.

    Needs no project: there is nothing to configure, and all data is lost when it ends. Run the kit in a second terminal: pass
    it the printed address with --sut-host.
    """
    require_server("turnwise a2a-kit")
    raise typer.Exit(serve_app(_load, host, port, None))


def _load(hooks: "Sequence[Hooks]") -> "App":
    from turnwise.assemble import App
    from turnwise.testing.a2a_kit import STORE, kit_app, kit_gateway

    return App(kit_app(hooks=hooks), Path(), STORE, gateway=kit_gateway())
