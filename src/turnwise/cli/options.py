"""Options and checks that several commands share."""

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from turnwise.cli.shell_completion import agent_roles
from turnwise.facts.errors import MissingExtra

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.facts.messages import MessageContext
    from turnwise.ports.hooks import Hooks

DEFAULT_USER = "local"

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration file; by default turnwise.yaml here or above."),
]
UserOption = Annotated[str, typer.Option("--user", "-u", metavar="USER", help="The session's user.")]
SessionOption = Annotated[str | None, typer.Option("--session", "-s", metavar="ID", help="The session.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"]
"""The forms of a time on the command line."""
SinceOption = Annotated[
    datetime | None,
    typer.Option("--since", metavar="TIME", formats=TIMES, help="Only decisions made then (UTC) or later."),
]
UntilOption = Annotated[
    datetime | None, typer.Option("--until", metavar="TIME", formats=TIMES, help="Only decisions made before then (UTC).")
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="JSON", help='Context of the message, such as {"channel": "web", "roles": ["staff"]}.'),
]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="A role of the caller, for agents that require one. May be repeated.",
        autocompletion=agent_roles,
    ),
]

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        envvar="TURNWISE_ENGINE",
        metavar="URL",
        help="The engine that schedules the work, such as restate://HOST:8080; by default none.",
    ),
]


def utc(time: datetime | None) -> datetime | None:
    """Returns the time of an option in UTC."""
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=UTC)


def message_context(given: str | None, roles: Sequence[str] | None = None) -> "MessageContext":
    """Parses the message context and adds the roles to its own.

    Raises:
        typer.BadParameter: if it is invalid.
    """
    from pydantic import ValidationError

    from turnwise.config.validation import mistakes
    from turnwise.facts.messages import MessageContext

    try:
        context = MessageContext.model_validate_json("{}" if given is None else given, strict=True, extra="forbid")
        return context.replace(roles=tuple(dict.fromkeys((*context.roles, *(roles or ())))))
    except ValidationError as error:
        first = mistakes(error, MessageContext)[0]
        raise typer.BadParameter(f"{first.problem} {first.fix}".rstrip(), param_hint="'--context'") from None


SERVER_MODULES = ("fastapi", "uvicorn", "websockets", "jwt", "prometheus_client", "ag_ui", "fastapi_offline")
"""The modules that the gateway needs."""


def require_server(command: str) -> None:
    """Checks that the gateway's libraries are installed.

    Raises:
        MissingExtra: if one is not.
    """
    if any(find_spec(module) is None for module in SERVER_MODULES):
        raise MissingExtra(command, "serve")


def require_mcp(command: str) -> None:
    """Checks that the MCP library is installed.

    Raises:
        MissingExtra: if it is not.
    """
    if find_spec("mcp") is None:
        raise MissingExtra(command, "mcp")


@asynccontextmanager
async def open_app(config: Path | None, hooks: "Sequence[Hooks]" = (), *, serve: bool = True) -> AsyncIterator["App"]:
    """Loads the app of that configuration, with additional hooks and the definitions of its database.

    Closes its runner afterwards.

    Args:
        serve: False leaves out the definitions.
    """
    from turnwise.assemble import load_app

    app = load_app(config, hooks=hooks)
    try:
        # Reading a SQLite file that nobody has made would make it.
        if serve and not getattr(app.runner.store, "is_unmade", False):
            await app.serve_definitions()
        yield app
    finally:
        await app.runner.close()


class RunLocation(NamedTuple):
    """Where the runs of a flow are stored: configuration, user and session. Builds the shell commands for them."""

    config: Path | None
    """None if no file was named."""
    user: str
    session: str

    @property
    def resume(self) -> str:
        """The command that continues the open run."""
        return self._command("flow", "resume", "--session", self.session)

    @property
    def sessions(self) -> str:
        """The command that lists the user's sessions."""
        return self._command("sessions", "list")

    def run(self, flow: str) -> str:
        """The command that runs a flow in the session."""
        return self._command("flow", "run", flow, "--session", self.session)

    def _command(self, *words: str) -> str:
        whose = [] if self.user == DEFAULT_USER else ["--user", self.user]
        config = [] if self.config is None else ["--config", str(self.config)]
        return shlex.join(["turnwise", *words, *whose, *config])
