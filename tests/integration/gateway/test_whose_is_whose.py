"""Who may do what with whose things: every route there is, with every kind of credential, over real sockets.

Nobody reaches what is another's, and nobody learns whether it is there.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import httpx
import pytest
from access_play import SECRET, token
from fastapi.routing import iter_route_contexts
from gateway_play import Served, key_for
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from whose_asked import Asked, Route, Things
from whose_play import (
    Key,
    Seen,
    ask,
    made_up,
    seen,
    state_of,
    things_of,
    two_users,
    words_of,
)
from whose_routes import ROUTES

from turnwise import Runner
from turnwise.access.rights import RIGHTS
from turnwise.facts.callers import Role
from turnwise.gateway.app import gateway


class Column(NamedTuple):
    """A credential that counts. named: whether each request names ann. hers: it is hers, or speaks for her."""

    role: Role = "user"
    named: bool = False
    hers: bool = True


COLUMNS: Mapping[str, Column] = {
    "her key": Column(),
    "her key, named": Column(named=True),
    "her token": Column(),
    "a server's key": Column(named=True),
    "an operator's key": Column("operator", named=True, hers=False),
    "an operator's token": Column("operator", named=True, hers=False),
    "an admin's key": Column("admin", named=True, hers=False),
}


async def good_keys(runner: Runner) -> dict[str, Key]:
    """The credentials of these columns."""
    ann = await key_for(runner, user="ann")
    operator = token(sub="otto", turnwise_role="operator")
    return {
        "her key": ann,
        "her key, named": {"X-API-Key": ann["Authorization"].removeprefix("Bearer ")},
        "her token": {"Authorization": f"bearer {token()}"},
        "a server's key": await key_for(runner, acts_for_users=True),
        "an operator's key": await key_for(runner, role="operator", user="olga"),
        "an operator's token": {"Authorization": f"Bearer {operator}"},
        "an admin's key": await key_for(runner, role="admin", user="adam"),
    }


BAD = (
    "a revoked key",
    "an expired key",
    "a token as a key",
    "a wrong key",
    "an unknown key",
    "a key as a password",
    "an expired token",
    "a token for ever",
    "a token of another key",
    "a token of another kind",
    "a token that nobody signed",
)


async def bad_keys(runner: Runner) -> dict[str, Key]:
    """Credentials that do not count."""
    ann = (await key_for(runner, user="ann"))["Authorization"]
    old = await key_for(runner, user="ann", lifetime=timedelta(microseconds=1))
    revoked = await key_for(runner, user="ann")
    store: Any = runner.store
    await store.keys.expire(runner.app, revoked["Authorization"].split("_")[1], datetime.now(UTC))
    bearers = (
        ann[:-8] + "AAAAAAAA",
        "Bearer tw_0123456789ab_" + "A" * 43,
        ann.replace("Bearer", "Basic"),
        f"Bearer {token(exp=1)}",
        f"Bearer {token(exp=None)}",
        f"Bearer {token(SECRET[::-1])}",
        f"Bearer {token(SECRET, 'HS512')}",
        f"Bearer {token('', 'none')}",
    )
    keys = (revoked, old, {"X-API-Key": token()}, *({"Authorization": text} for text in bearers))
    return dict(zip(BAD, keys, strict=True))


async def narrow_key(runner: Runner, asked: Asked) -> Key:
    """A key of ann's that may do all but that."""
    role: Role = "user" if asked.permission is None or asked.permission in RIGHTS["user"] else "operator"
    scopes = [each for each in RIGHTS[role] if each != asked.permission]
    return await key_for(runner, user="ann", role=role, scopes=scopes)


def expected(asked: Asked, column: Column) -> int:
    """The status for a credential that counts."""
    if asked.permission is None:
        return asked.ok
    reach = RIGHTS[column.role].get(asked.permission)
    for_another = not column.hers and asked.names in ("query", "path")
    return 403 if reach is None or (for_another and reach == "own") else asked.ok


class Outcome(NamedTuple):
    """How a request was answered: about what there is, and about what there is not."""

    there: Seen
    missing: Seen


Which = tuple[Route, int]
"""A route, and which of the requests for it."""
EVERY: list[Which] = [(route, place) for route, asked in ROUTES.items() for place in range(len(asked))]


class Outcomes(NamedTuple):
    """By request and credential. refused: with credentials that do not count, about what there is."""

    refused: dict[tuple[Which, str], Seen]
    looked: dict[tuple[Which, str], Outcome]


def shown(which: Which) -> str:
    (method, path), place = which
    return f"{method} {path} {place}"


pytestmark = pytest.mark.timeout(480)
"""The first test waits for all requests with all credentials: thousands."""


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Each request with each credential, about things of ann's and about what there is not."""
    return asyncio.run(_played())


async def _played() -> Outcomes:
    refused, found = dict[tuple[Which, str], Seen](), dict[tuple[Which, str], Outcome]()
    async with two_users() as (client, runner, _, bob):

        async def look(which: Which, name: str, key: Key, things: Things, *, named: bool) -> None:
            there = seen(await ask(client, which[0], asked_of(which), things, key, named=named), things, asked_of(which))
            other = made_up("ann")
            missing = await ask(client, which[0], asked_of(which), other, key, named=named)
            found[which, name] = Outcome(there, seen(missing, other, asked_of(which)))

        bad, good = await bad_keys(runner), await good_keys(runner)
        server = await key_for(runner, acts_for_users=True)
        hers = {which: await things_of(runner, "ann") for which in EVERY}
        before = await state_of(runner, "ann")
        for which, things in hers.items():
            await look(which, "nothing", {}, things, named=True)
            for name, key in bad.items():
                refused[which, name] = seen(await ask(client, which[0], asked_of(which), things, key), things, asked_of(which))
            await look(which, "a narrow key", await narrow_key(runner, asked_of(which)), things, named=True)
            if asked_of(which).names in ("query", "body"):
                await look(which, "a server's key, unnamed", server, things, named=False)
            await look(which, "bob's key, naming ann", bob, things, named=True)
            await look(which, "bob's key", bob, things, named=False)
            for name, column in COLUMNS.items():
                if expected(asked_of(which), column) == 403:
                    await look(which, name, good[name], things, named=column.named)
        assert await state_of(runner, "ann") == before
        for which in sorted(EVERY, key=lambda which: which[0][0] not in ("GET", "HEAD")):
            for name, column in COLUMNS.items():
                if (which, name) not in found:
                    if which[0][0] not in ("GET", "HEAD"):  # what another column has changed is not there any more
                        hers[which] = await things_of(runner, "ann")
                        good = await good_keys(runner)  # the erasure of ann deletes her keys
                    await look(which, name, good[name], hers[which], named=column.named)
    return Outcomes(refused, found)


def asked_of(which: Which) -> Asked:
    return ROUTES[which[0]][which[1]]


async def test_every_route_is_among_them() -> None:
    """A new one needs an entry in `whose_routes`; of another way in than HTTP, a test here."""
    async with two_users() as (client, *_):
        routes = [each for each in iter_route_contexts(gateway(client.front).routes) if each.path_format]
    known = {(method, str(each.path_format)) for each in routes for method in each.methods or ()}
    # A framework's own pages answer HEAD as GET.
    assert {route for route in known if route[0] != "HEAD" or ("GET", route[1]) not in known} | {*ROUTES} == {*ROUTES}
    assert {*ROUTES} <= known
    assert {each.path_format for each in routes if each.methods is None} == {"/v1/responses"}


@pytest.mark.parametrize("which", EVERY, ids=shown)
def test_with_no_credential_that_counts_nobody_comes_in(which: Which, outcomes: Outcomes) -> None:
    asked, nothing = asked_of(which), outcomes.looked[which, "nothing"]
    refused = {name: seen for (each, name), seen in outcomes.refused.items() if each == which}
    assert nothing.there.status == (asked.ok if asked.permission is None else 401)
    assert nothing.there == nothing.missing
    assert refused == dict.fromkeys(BAD, nothing.there)


@pytest.mark.parametrize("which", EVERY, ids=shown)
def test_what_is_anothers_is_as_if_it_did_not_exist(which: Which, outcomes: Outcomes) -> None:
    for name in ("bob's key", "bob's key, naming ann"):
        outcome = outcomes.looked[which, name]
        assert outcome.there == outcome.missing
        assert words_of("ann") not in outcome.there.body
    if asked_of(which).names in ("query", "path"):
        assert outcome.there.status == 403


@pytest.mark.parametrize("which", EVERY, ids=shown)
def test_a_key_that_lacks_the_scope(which: Which, outcomes: Outcomes) -> None:
    asked, outcome = asked_of(which), outcomes.looked[which, "a narrow key"]
    assert outcome.there.status == (asked.ok if asked.permission is None or asked.any_right else 403)
    assert outcome.there == outcome.missing


@pytest.mark.parametrize("which", EVERY, ids=shown)
def test_who_acts_for_users_has_to_name_one(which: Which, outcomes: Outcomes) -> None:
    asked, outcome = asked_of(which), outcomes.looked.get((which, "a server's key, unnamed"))
    if outcome is not None and not asked.everybody:
        assert outcome.there.status == (422 if asked.permission in RIGHTS["user"] else 403)
        assert outcome.there == outcome.missing


@pytest.mark.parametrize("which", EVERY, ids=shown)
def test_a_credential_does_what_it_may_and_nothing_else(which: Which, outcomes: Outcomes) -> None:
    for name, column in COLUMNS.items():
        there, missing = outcomes.looked[which, name]
        assert (there.status, name) == (expected(asked_of(which), column), name), there.body
        assert there.status != 403 or there == missing


async def said_on_socket(client: Served, key: Key, things: Things, *, named: bool, **more: Any) -> Seen:
    """What a web socket tells of one message; status 0 = it was not even opened."""
    at = client.address.replace("http", "ws") + "/v1/responses" + ("?user=ann" if named else "")
    try:
        async with connect(at, additional_headers=dict(key)) as socket:
            await socket.send(json.dumps({"type": "response.create", "input": "hi", **more}))
            async for event in socket:
                told = json.loads(event)
                if told["type"] in ("response.completed", "error"):
                    return seen(httpx.Response(told.get("status", 200), text=str(event)), things)
    except InvalidStatus as refused:
        return seen(httpx.Response(refused.response.status_code, content=bytes(refused.response.body or b"")), things)
    raise AssertionError("It was closed without a word.")


async def test_whose_is_whose_on_a_web_socket() -> None:
    async with two_users() as (client, runner, _, bob):
        things, other = await things_of(runner, "ann"), made_up("ann")
        before = await state_of(runner, "ann")

        async def both(key: Key, *, named: bool) -> set[Seen]:
            """What is told of a conversation of ann's, and of one that there is not."""
            asked = [{"previous_response_id": each.response} for each in (things, other)]
            asked += [{"conversation": each.session} for each in (things, other)]
            whose = (things, other) * 2
            told = [await said_on_socket(client, key, of, named=named, **more) for of, more in zip(whose, asked, strict=True)]
            assert told[0] == told[1]
            assert told[2] == told[3]
            return {*told}

        for key in ({}, *(await bad_keys(runner)).values()):
            assert {(each.status, "hi" in each.body) for each in await both(key, named=False)} == {(401, False)}
        narrow = await narrow_key(runner, Asked("messages:write"))
        operator, admin = [await key_for(runner, role=role, user="olga") for role in ("operator", "admin")]
        server = await key_for(runner, acts_for_users=True)
        for key, named, status in (
            (bob, False, 404),
            (bob, True, 403),
            (narrow, False, 403),
            (narrow, True, 403),
            (operator, True, 403),
            (admin, True, 403),
            (server, False, 422),
        ):
            assert {each.status for each in await both(key, named=named)} == {status}
        assert await state_of(runner, "ann") == before
        for key, named in ((await key_for(runner, user="ann"), False), (server, True)):
            told = await said_on_socket(client, key, things, named=named, conversation=things.session)
            assert told.status == 200
