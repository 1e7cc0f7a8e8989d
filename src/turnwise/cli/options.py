"""What several commands share: options with their shell completion, and the opening of an app or its records.

Shell completion reads only the configuration file, because it must be fast: it imports no modules and opens no store.
"""

import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from turnwise.facts.errors import MissingExtra

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.config.definition_editor import DefinitionEditor
    from turnwise.facts.messages import MessageContext
    from turnwise.ports.definitions import DefinitionKind
    from turnwise.ports.hooks import Hooks
    from turnwise.ports.records import RecordStore


def flow_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the configured flows."""
    return _with_prefix(incomplete, _names_from_file(context, _flows))


def agent_names(context: typer.Context, incomplete: str) -> list[str]:
    """The names of agents in the configuration file."""
    return _with_prefix(incomplete, _names_from_file(context, lambda agent: [agent.get("name")]))


def agent_roles(context: typer.Context, incomplete: str) -> list[str]:
    """Roles that configured agents require."""
    return _with_prefix(incomplete, _names_from_file(context, _roles))


def policy_names(incomplete: str) -> list[str]:
    """Names of the built-in policies."""
    from turnwise.selection.named import NAMED

    return _with_prefix(incomplete, NAMED)


def scopes(incomplete: str) -> list[str]:
    """The permissions that a key may have."""
    from typing import get_args

    from turnwise.facts.callers import Permission

    return _with_prefix(incomplete, get_args(Permission))


def _with_prefix(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names_from_file(context: typer.Context, names: "Callable[[dict[str, Any]], Iterable[Any]]") -> list[str]:
    """Reads names from the configured agents. Returns none if the file cannot be read: completion cannot show errors."""
    from turnwise.config.document import read_document
    from turnwise.config.settings import find_file
    from turnwise.facts.errors import TurnwiseError

    config = context.params.get("config")
    try:
        document = read_document(find_file(Path(config) if config else None))
    except TurnwiseError:
        return []
    found = (name for agent in _agents(document.data.get("agents")) for name in names(agent))
    return sorted({name for name in found if isinstance(name, str)})


def _agents(written: Any) -> "Iterator[dict[str, Any]]":
    """The agents of a list, and those nested in them."""
    for agent in written if isinstance(written, list) else ():
        if isinstance(agent, dict):
            yield agent
            yield from _agents(agent.get("children"))


def _flows(agent: "dict[str, Any]") -> Iterable[Any]:
    return [agent.get("name")] if agent.get("kind") == "flow" else []


def _roles(agent: "dict[str, Any]") -> Iterable[Any]:
    roles = agent.get("roles")
    return roles if isinstance(roles, list) else []


DEFAULT_USER = "local"
ACTOR = "cli"
"""The actor of commands in the audit log."""

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
DefinitionArgument = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")]
VersionArgument = Annotated[int | None, typer.Argument(metavar="VERSION", min=1, help="By default the newest one.")]
IsPolicyOption = Annotated[bool, typer.Option("--policy", help="A policy is meant, not an agent.")]
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


class AppRecords(NamedTuple):
    """The records of an app."""

    app: str
    store: "RecordStore"


@asynccontextmanager
async def open_records(config: "Path | None") -> AsyncIterator[AppRecords]:
    """Opens the records of that configuration's app, without its agents.

    Raises:
        ConfigError: if the session store keeps no records.
    """
    from turnwise.assemble import load_store
    from turnwise.ports.records import record_store_of

    loaded = load_store(config)
    try:
        yield AppRecords(loaded.app, record_store_of(loaded.store))
    finally:
        await loaded.store.close()


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
