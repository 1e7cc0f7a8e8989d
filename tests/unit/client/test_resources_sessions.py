"""Sessions are made once, also when the answer to that is lost. (The rest: tests/integration/gateway.)"""

import json

import httpx
import pytest
from client_play import Script, problem

from turnwise.client.connection import Gateway
from turnwise.client.errors import Unreached
from turnwise.client.resources import Sessions
from turnwise.facts.errors import SessionExists
from turnwise.testing.fakes import CountingIssuer

LOST = httpx.ReadError("")
SHOWN = httpx.Response(
    200,
    json={
        "id": "session-1",
        "user": "ann",
        "revision": 0,
        "last_sequence": 0,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "busy": False,
        "queued": 0,
        "turns": 0,
    },
)


def sessions(script: Script) -> Sessions:
    return Sessions(Gateway("http://gateway.test", None, script.http, timeout=5, patience=60), CountingIssuer())


@pytest.mark.parametrize("how", ["create", "fork"])
async def test_without_an_id_it_is_made_once(how: str) -> None:
    """The id is made here, so that a second try finds what the first one made."""
    script = Script(LOST, problem(409, "session.exists"), SHOWN)
    parts = sessions(script)
    made = await (parts.create(state={"a": 1}) if how == "create" else parts.fork("s"))
    first, second, third = script.asked
    assert json.loads(first.content)["id"] == json.loads(second.content)["id"]
    assert third.url.path == f"/api/v1/sessions/{json.loads(first.content)['id']}"
    assert made.id == "session-1"


@pytest.mark.parametrize("how", ["create", "fork"])
async def test_with_an_id_of_ones_own_it_may_be_somebody_elses(how: str) -> None:
    script = Script(LOST)
    parts = sessions(script)
    with pytest.raises(Unreached):
        await (parts.create("mine") if how == "create" else parts.fork("s", "mine"))
    assert len(script.asked) == 1
    with pytest.raises(SessionExists):
        await sessions(Script(problem(409, "session.exists"))).create("mine")


async def test_what_may_have_been_taken_back_is_not_taken_back_again() -> None:
    script = Script(LOST)
    with pytest.raises(Unreached):
        await sessions(script).rewind("s", "i-1")
    assert len(script.asked) == 1
