"""The command line: API keys."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_play import turnwise, written

from turnwise.access.authenticator import Authenticator
from turnwise.facts.callers import Caller
from turnwise.facts.errors import NotAuthenticated
from turnwise.facts.gateway import AuthConfig, CallerLimits
from turnwise.stores.sql import SqlSessionStore


async def entering(project: Path, *keys: str) -> list[Caller | None]:
    """Whom a gateway over the project's store takes them for."""
    store = SqlSessionStore(f"sqlite:///{project}/turnwise.db")
    gatekeeper = Authenticator("test", AuthConfig(), CallerLimits(), store.keys)
    found: list[Caller | None] = []
    try:
        for key in keys:
            try:
                found.append(await gatekeeper.caller(f"Bearer {key}", None, "127.0.0.1"))
            except NotAuthenticated:
                found.append(None)
    finally:
        await store.close()
    return found


def listed(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(turnwise("keys", "list", "--json", cwd=project).stdout)["keys"]
    return found


async def test_keys_from_create_to_revoke(project: Path) -> None:
    nothing = turnwise("keys", "list", cwd=project)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no keys of test" in nothing.stderr

    made = turnwise("keys", "create", "Ann's laptop", "--user", "ann", "--agent-role", "staff", cwd=project)
    (key,) = made.stdout.splitlines()
    assert "(Ann's laptop) · of user ann · never expires" in made.stderr
    assert key not in made.stderr
    (id_,) = [each["id"] for each in listed(project)]
    ann = Caller(id=f"key:{id_}", user="ann", agent_roles=("staff",))
    assert await entering(project, key, key[:-1]) == [ann, None]

    shown = turnwise("keys", "list", cwd=project).stdout
    fields = shown.splitlines()[1].split()
    assert fields[:5] + fields[-3:] == [id_, "Ann's", "laptop", "user", "ann", "never", "staff", "all"]
    for secret in (key, key[16:]):
        assert secret not in shown + turnwise("keys", "list", "--json", cwd=project).stdout

    rotated = turnwise("keys", "rotate", id_, cwd=project)
    new = rotated.stdout.strip()
    assert f"It replaces key {id_}" in rotated.stderr
    old_caller, new_caller = await entering(project, key, new)
    assert old_caller == ann
    assert new_caller is not None
    assert new_caller.replace(id=ann.id) == ann

    assert f"Key {id_} (Ann's laptop) is revoked." in turnwise("keys", "revoke", key, cwd=project).stdout
    again = turnwise("keys", "revoke", id_, cwd=project)
    assert (again.returncode, again.stdout) == (0, "")
    assert "has been invalid since" in again.stderr
    assert await entering(project, key, new) == [None, new_caller]
    assert "(over)" in turnwise("keys", "list", cwd=project).stdout


def test_a_long_name_leaves_room_for_the_rest_of_the_line(project: Path) -> None:
    name = "The key of the web shop's back end, the blue one"
    assert turnwise("keys", "create", name, "--user", "ann", cwd=project).returncode == 0
    (line,) = turnwise("keys", "list", cwd=project).stdout.splitlines()[1:]
    assert "  The key of the web shop…  user  ann  " in line
    assert [key["name"] for key in listed(project)] == [name]


def test_a_key_for_programs(project: Path) -> None:
    arguments = ("--for-users", "--scope", "messages:write", "--scope", "sessions:read", "--days", "90", "--json")
    made = turnwise("keys", "create", "shop", *arguments, cwd=project)
    told = json.loads(made.stdout)
    key = told.pop("key")
    assert key.startswith(f"tw_{told['id']}_")
    assert listed(project) == [told]
    assert "hash" not in told
    assert (told["acts_for_users"], told["user"], told["scopes"]) == (True, None, ["messages:write", "sessions:read"])
    made_at, ends_at = (datetime.fromisoformat(told[name]) for name in ("created_at", "expires_at"))
    assert ends_at - made_at == timedelta(days=90)

    new = json.loads(turnwise("keys", "rotate", told["id"], "--overlap", "0", "--json", cwd=project).stdout)
    old, kept = listed(project)
    assert datetime.fromisoformat(old["expires_at"]) <= datetime.now(UTC)
    new.pop("key")
    assert kept == new
    rights = ("name", "role", "user", "acts_for_users", "agent_roles", "scopes")
    assert [kept[name] for name in rights] == [told[name] for name in rights]
    assert datetime.fromisoformat(kept["expires_at"]) - datetime.fromisoformat(kept["created_at"]) == timedelta(days=90)
    gone = turnwise("keys", "rotate", told["id"], cwd=project)
    assert gone.returncode == 2
    assert "invalid since" in gone.stderr
    assert len(listed(project)) == 2


def test_a_key_that_is_rotated_again_lasts_as_long_as_the_first(project: Path) -> None:
    """Not as long as the overlap, which is all that is left of the old one."""
    made = json.loads(turnwise("keys", "create", "shop", "--user", "ann", "--json", cwd=project).stdout)
    for _ in range(2):
        turnwise("keys", "rotate", made["id"], cwd=project)
    assert [key["expires_at"] is None for key in listed(project)] == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["create", "x"], 2, "An API key needs a user.\n  Name its user, or let it act for all users. (--user, --for-users)"),
        (["create", "x", "--user", "ann", "--for-users"], 2, "belongs to one user"),
        (["create", "x", "--for-users", "--role", "admin"], 2, "not what an admin may"),
        (["create", "x", "--role", "boss"], 2, "no role 'boss'"),
        (["create", "x", "--user", "ann", "--scope", "metrics:read"], 2, "operator, admin. (--scope)"),
        (["create", "x", "--user", ""], 2, "id of the user"),
        (["create", "", "--user", "ann"], 2, "name of the key"),
        (["create", b"\xff", "--user", "ann"], 2, "name of the key"),
        (["create", "x", "--user", "ann", "--days", "99999999999999999999"], 2, "The lifetime of a key must be positive"),
        (["create", "x", "--user", "ann", "--days", "0"], 2, "--days"),
        (["revoke", "000000000000"], 1, "test has no key 000000000000."),
        (["revoke", "tw_what-was-to-be-secret"], 1, "test has no such key."),
        (["rotate", "nope"], 1, "test has no such key."),
        (["rotate", "nope", "--overlap", "-1"], 2, "--overlap"),
    ],
)
def test_what_makes_no_sense_is_told(project: Path, arguments: list[Any], code: int, problem: str) -> None:
    said = turnwise("keys", *arguments, cwd=project)
    assert (said.returncode, said.stdout) == (code, "")
    assert problem in said.stderr
    assert "secret" not in said.stderr
    assert listed(project) == []


@pytest.mark.parametrize("store", ["sqlite://", "sqlite:///:memory:"])
def test_a_key_is_not_made_where_it_would_be_lost(project: Path, store: str) -> None:
    written(project, (project / "turnwise.yaml").read_text() + f"store: '{store}'\n")
    said = turnwise("keys", "create", "x", "--user", "ann", cwd=project)
    assert (said.returncode, said.stdout) == (2, "")
    assert "in memory" in said.stderr


def test_a_store_that_keeps_no_keys_is_told(project: Path) -> None:
    class_ = (
        "from turnwise.stores.sql import SqlSessionStore\n"
        "class Plain:\n"
        "    def __init__(self):\n"
        "        store = SqlSessionStore('sqlite://')\n"
        "        for name in dir(store):\n"
        "            if name[0] != '_' and name not in ('keys', 'counters'):\n"
        "                setattr(self, name, getattr(store, name))\n"
    )
    written(project, (project / "turnwise.yaml").read_text() + "store: {import: plain:Plain}\n", plain=class_)
    said = turnwise("keys", "list", cwd=project)
    assert said.returncode == 2
    assert "A Plain keeps no API keys." in said.stderr


def test_who_is_asked_for_no_key_is_told(project: Path) -> None:
    hint = "The gateway does not ask for keys yet"
    assert hint in turnwise("keys", "create", "x", "--user", "ann", cwd=project).stderr
    written(project, (project / "turnwise.yaml").read_text() + "gateway: {auth: {keys: true}}\n")
    assert hint not in turnwise("keys", "create", "x", "--user", "ann", cwd=project).stderr


def test_a_key_is_revoked_though_an_agent_is_broken(project: Path) -> None:
    made = turnwise("keys", "create", "x", "--user", "ann", "--json", cwd=project)
    key = json.loads(made.stdout)["id"]
    written(project, (project / "turnwise.yaml").read_text() + "policy: nonsense\n", agents="import not_there\n")
    assert turnwise("agents", cwd=project).returncode != 0
    assert turnwise("keys", "revoke", key, cwd=project).stdout == f"Key {key} (x) is revoked.\n"


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("store: 5\n", "'store' should be"),
        ("gateway: {auth: 5}\n", "'auth' should be"),
        ("store: {import: nowhere:X}\n", "nowhere"),
    ],
)
def test_what_is_wrong_with_where_keys_are_kept_is_told(project: Path, broken: str, problem: str) -> None:
    written(project, (project / "turnwise.yaml").read_text() + broken)
    said = turnwise("keys", "list", cwd=project)
    assert (said.returncode, said.stdout) == (2, "")
    assert problem in said.stderr
