"""`turnwise keys`: manages the API keys of the gateway."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from turnwise.cli.exits import UsageProblem
from turnwise.cli.options import ConfigOption, JsonOption, agent_roles, scopes

if TYPE_CHECKING:
    from pathlib import Path

    from rich.text import Text

    from turnwise.facts.callers import ApiKey
    from turnwise.ports.key_store import Keys

OVERLAP_MINUTES = 60.0
NAME_SHOWN = 24
"""Length to which the table cuts names, so that its lines fit a terminal. `--json` prints them in full."""
_IN_MEMORY = re.compile(r"sqlite(?:\+\w+)?:(?://)?/?(?::memory:)?(?:\?.*)?")
_SHOWN = ("id", "name", "role", "user", "acts_for_users", "agent_roles", "scopes", "created_at", "expires_at")
_OPTIONS = {
    "user": "(--user, --for-users)",
    "role": "(--role)",
    "agent_roles": "(--agent-role)",
    "scopes": "(--scope)",
    "expires_at": "(--days)",
}

app = typer.Typer(help="Create, list, rotate and revoke API keys.", rich_markup_mode=None, no_args_is_help=True)

KeyArgument = Annotated[str, typer.Argument(metavar="ID", help="The key's id, or the key itself.")]


class _AppKeys(NamedTuple):
    """The API keys of an app."""

    app: str
    keys: "Keys"
    asked_for: bool
    """Whether the gateway is configured to accept keys."""


@app.command(short_help="Create a key and print it.")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that tells its purpose.")],
    config: ConfigOption = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="The key's user.")] = None,
    for_users: Annotated[
        bool, typer.Option("--for-users", help="The key acts for all users; each request names one. For your own servers.")
    ] = False,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="user, operator or admin.")] = "user",
    agent_role: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-role",
            metavar="ROLE",
            help="A role that agents require. May be repeated.",
            autocompletion=agent_roles,
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help="Allow only this, such as sessions:read. May be repeated.", autocompletion=scopes
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", min=1, help="Days until it expires; by default it never does.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it on standard output. It is shown only once: the store keeps only its hash."""
    rights = {"role": role, "user": user, "acts_for_users": for_users, "agent_roles": agent_role or (), "scopes": scope}
    asyncio.run(_create(config, name, rights, days, as_json))


async def _create(config: "Path | None", name: str, rights: dict[str, Any], days: int | None, as_json: bool) -> None:
    text, key = _create_key(name, rights, None if days is None else timedelta(days=min(days, timedelta.max.days)))
    async with _open_keys(config) as ring:
        await ring.keys.add(ring.app, key)
    _print_key(text, key, as_json)
    _describe_new(ring, key)


@app.command("list")
def list_keys(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List all keys, oldest first, including expired ones."""
    asyncio.run(_list(config, as_json))


async def _list(config: "Path | None", as_json: bool) -> None:
    """Prints the keys."""
    from turnwise.cli import terminal

    async with _open_keys(config) as ring:
        found = await ring.keys.list(ring.app)
    if as_json:
        terminal.print_json({"keys": [_data(key) for key in found]})
    elif found:
        terminal.print_lines(_table(found))
    else:
        terminal.print_note(f"There are no keys of {ring.app}. Make one: turnwise keys create NAME --user USER")


@app.command(short_help="Replace a key by a new one.")
def rotate(
    key: KeyArgument,
    config: ConfigOption = None,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="MINUTES", min=0, max=1e6, help="How long the old key stays valid.")
    ] = OVERLAP_MINUTES,
    as_json: JsonOption = False,
) -> None:
    """Create a key with the same rights and lifetime, print it, and let the old key expire after the overlap."""
    asyncio.run(_rotate(config, key, overlap, as_json))


async def _rotate(config: "Path | None", named: str, overlap: float, as_json: bool) -> None:
    """Creates a key with the rights of an old one, which expires after the overlap. Prints the new key first."""
    from turnwise.access.api_keys import is_valid
    from turnwise.cli import terminal

    async with _open_keys(config) as ring:
        old, now = await _find_key(ring, named), datetime.now(UTC)
        if not is_valid(old, now):
            fix = "Make a new one: turnwise keys create"
            raise UsageProblem(
                f"Key {old.id} has been invalid since {_time(old.expires_at)} UTC; nothing was changed.", fix=fix
            )
        rights = {field: getattr(old, field) for field in ("role", "user", "acts_for_users", "agent_roles", "scopes")}
        text, key = _create_key(old.name, rights, old.lifetime)
        await ring.keys.add(ring.app, key)
        # Print the new key before the old one expires, so that a failure here locks nobody out.
        _print_key(text, key, as_json)
        await ring.keys.expire(ring.app, old.id, now + timedelta(minutes=overlap))
        old = await _find_key(ring, old.id)
    _describe_new(ring, key)
    terminal.print_note(f"It replaces key {old.id}, which stays valid until {_time(old.expires_at)} UTC.")


@app.command()
def revoke(key: KeyArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Make a key invalid, in all processes, within a second."""
    asyncio.run(_revoke(config, key, as_json))


async def _revoke(config: "Path | None", named: str, as_json: bool) -> None:
    """Ends a key's validity now."""
    from turnwise.access.api_keys import is_valid
    from turnwise.cli import terminal

    async with _open_keys(config) as ring:
        key, now = await _find_key(ring, named), datetime.now(UTC)
        was_over = not is_valid(key, now)
        if not was_over:
            await ring.keys.expire(ring.app, key.id, now)
    if as_json:
        terminal.print_json({"id": key.id, "name": key.name, "revoked": not was_over})
    elif was_over:
        terminal.print_note(f"Key {key.id} has been invalid since {_time(key.expires_at)} UTC.")
    else:
        terminal.print_line(f"Key {key.id} ({key.name}) is revoked.")


@asynccontextmanager
async def _open_keys(config: "Path | None") -> AsyncIterator[_AppKeys]:
    """Opens the keys of that configuration's app.

    Raises:
        ConfigError: if the session store keeps no keys, or only in memory.
    """
    from turnwise.access.authenticator import key_store_of
    from turnwise.assemble import load_store
    from turnwise.facts.errors import ConfigError

    # Only the store is loaded: a broken agent must not prevent the revocation of a stolen key.
    kept = load_store(config)
    try:
        if _IN_MEMORY.fullmatch(kept.place):
            fix = "Keep sessions in a file, store: sqlite:///file.db, or on PostgreSQL."
            raise ConfigError("The session store is in memory: a key would be gone with this command.", fix=fix)
        auth = kept.gateway.auth
        yield _AppKeys(kept.app, key_store_of(kept.store).keys, auth is not None and auth.keys)
    finally:
        await kept.store.close()


def _create_key(name: str, rights: dict[str, Any], lifetime: timedelta | None) -> "tuple[str, ApiKey]":
    """Returns a new key's text and record. Raises UsageProblem for invalid rights."""
    from turnwise.access.api_keys import new_key
    from turnwise.facts.errors import RequestInvalid

    try:
        return new_key(name, datetime.now(UTC), **rights, lifetime=lifetime)
    except RequestInvalid as error:
        option = _OPTIONS.get(str(error.where[0]) if error.where else "", "")
        raise UsageProblem(error.problem, fix=f"{error.fix} {option}".rstrip()) from None


async def _find_key(ring: _AppKeys, named: str) -> "ApiKey":
    """Finds a key by its id or its text. Other text is not repeated in the error, because it may be a mistyped secret.

    Raises:
        NothingHere: if there is no such key.
    """
    from turnwise.access.api_keys import is_key_id, read_key
    from turnwise.facts.errors import NothingHere

    read = read_key(named)
    id_ = read[0] if read else named
    key = await ring.keys.find(ring.app, id_) if is_key_id(id_) else None
    if key is None:
        which = f"no key {id_}" if is_key_id(id_) else "no such key"
        raise NothingHere(f"{ring.app} has {which}.", fix="`turnwise keys list` shows their ids.")
    return key


def _print_key(text: str, key: "ApiKey", as_json: bool) -> None:
    """Prints only the key on standard output, so that it can be piped to a file or a secret store."""
    from turnwise.cli import terminal

    if as_json:
        terminal.print_json({"key": text, **_data(key)})
    else:
        terminal.write(text + "\n")


def _describe_new(ring: _AppKeys, key: "ApiKey") -> None:
    """Prints a new key's rights and how to send it, on standard error."""
    from turnwise.cli import terminal

    end = "never expires" if key.expires_at is None else f"expires {_time(key.expires_at)} UTC"
    terminal.print_note(f"Key {key.id} ({key.name}) · {_rights_text(key)} · {end}")
    terminal.print_note("It is shown only once. Send it as the header Authorization: Bearer KEY")
    if not ring.asked_for:
        terminal.print_note(
            "The gateway does not ask for keys yet: the configuration needs gateway: {auth: {keys: true}}", "yellow"
        )


def _rights_text(key: "ApiKey") -> str:
    if key.acts_for_users:
        return "acts for all users"
    user = "" if key.user is None else f"of user {key.user}"
    return user if key.role == "user" else f"{key.role} {user}".rstrip()


def _data(key: "ApiKey") -> dict[str, Any]:
    """A key as JSON data, without its hash."""
    return key.model_dump(mode="json", include=set(_SHOWN))


def _table(keys: "Sequence[ApiKey]") -> "Iterator[Text]":
    """The table of keys; invalid ones are struck through."""
    from turnwise.access.api_keys import is_valid
    from turnwise.cli import rendering, terminal
    from turnwise.cli.rendering import fit_table

    now = datetime.now(UTC)
    columns = ("id", "name", "role", "user", "created (UTC)", "expires (UTC)", "agent roles", "scopes")
    rows = [[rendering.styled(cell, "" if is_valid(key, now) else "dim strike") for cell in _row(key, now)] for key in keys]
    used = [column for column in range(len(columns)) if column != 6 or any(row[column].plain for row in rows)]
    cells = [[row[column] for column in used] for row in rows]
    return fit_table([columns[column] for column in used], cells, terminal.width())


def _row(key: "ApiKey", now: datetime) -> Iterable[str]:
    """Returns a key's cells."""
    from turnwise.access.api_keys import is_valid
    from turnwise.cli.terminal import one_line

    expires = "never" if key.expires_at is None else _minute(key.expires_at) + ("" if is_valid(key, now) else " (over)")
    name = one_line(key.name)
    user = "any" if key.acts_for_users else one_line(key.user or "–")
    scopes = "all" if key.scopes is None else ", ".join(key.scopes)
    return (
        key.id,
        name if len(name) <= NAME_SHOWN else name[: NAME_SHOWN - 1] + "…",
        key.role,
        user,
        _minute(key.created_at),
        expires,
        one_line(", ".join(key.agent_roles)),
        scopes,
    )


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
