"""`turnwise console`: serves the console from a process of its own, for a gateway elsewhere."""

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import OK

if TYPE_CHECKING:
    import socket


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Serve the console for a gateway elsewhere.")(console)


def console(
    gateway: Annotated[str, typer.Argument(metavar="URL", help="The gateway's URL, such as https://agents.example.com.")],
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="0 = any free port.")] = 8001,
) -> None:
    """Serve the console for a gateway elsewhere. The page is the one that a gateway serves at /console/.

    The browser calls the gateway itself, so the gateway has to name the console's origin in gateway.origins. This process
    sees no key and no message.
    """
    from turnwise.cli import terminal
    from turnwise.cli.options import require_server
    from turnwise.client.connection import check_url

    require_server("turnwise console")
    from turnwise.gateway.server import bound_socket, url_of

    url, listening = check_url(gateway), bound_socket(host, port)
    address = url_of(*listening.getsockname()[:2])
    terminal.print_line(f"Console of {url} at {address}/console/")
    terminal.print_line(f"  the gateway has to allow this page: gateway: {{origins: ['{address}']}}")
    asyncio.run(_serve(url, listening))
    raise typer.Exit(OK)


async def _serve(gateway: str, listening: "socket.socket") -> None:
    """Serves the page until Ctrl-C or SIGTERM."""
    import uvicorn

    from turnwise.cli.shutdown import Interrupts
    from turnwise.gateway.console import console_app
    from turnwise.gateway.server import UvicornServer

    config = uvicorn.Config(console_app(gateway), log_config=None, access_log=False, server_header=False, lifespan="off")
    server = UvicornServer(config)

    def stop() -> None:
        server.should_exit = True

    with Interrupts(stop, (signal.SIGINT, signal.SIGTERM), hints=False):
        await server.serve(sockets=[listening])
