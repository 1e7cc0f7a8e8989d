"""Legal holds, erasure and the audit log over our own API."""

import io
import zipfile
from collections.abc import Callable

from gateway_play import key_for, served

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig

MakeRunner = Callable[..., Runner]
API = "/api/v1"
LOCKED = GatewayConfig(auth=AuthConfig())


@agent(description="Answers.")
def desk(message: str) -> str:
    return "hello"


async def test_a_hold_beats_the_erasure_that_a_user_asks_for(make_runner: MakeRunner) -> None:
    """A44"""
    runner = make_runner(desk)
    ann, operator, admin = (
        await key_for(runner),
        await key_for(runner, role="operator"),
        await key_for(runner, role="admin", user="root"),
    )
    async with served(runner, LOCKED) as client:
        assert (await client.send_message("hi", headers=ann)).status_code == 200
        made = await client.post(f"{API}/holds", json={"user": "ann", "reason": "a lawsuit"}, headers=admin)
        assert made.status_code == 201
        hold = made.json()
        for path in ("users/ann", "sessions/s"):
            refused = await client.delete(f"{API}/{path}", headers=ann)
            assert (refused.status_code, refused.json()["code"]) == (409, "session.user_on_hold")
            assert hold["id"] in refused.text
            assert "lawsuit" not in refused.text
        assert (await client.get(f"{API}/holds", headers=operator)).json() == {"holds": [hold]}
        assert (await client.get(f"{API}/holds", params={"user": "bo"}, headers=operator)).json() == {"holds": []}
        for headers in (ann, operator):
            assert (await client.delete(f"{API}/holds/{hold['id']}", headers=headers)).status_code == 403
        for path in ("holds", "audit"):
            assert (await client.get(f"{API}/{path}", headers=ann)).status_code == 403
        assert (await client.delete(f"{API}/holds/{hold['id']}", headers=admin)).status_code == 204
        assert (await client.delete(f"{API}/holds/{hold['id']}", headers=admin)).status_code == 404
        assert (await client.delete(f"{API}/users/ann", headers=ann)).status_code == 204
        entries = (await client.get(f"{API}/audit", headers=operator)).json()["entries"]
        assert [each["action"] for each in entries] == ["user.erased", "hold.removed", "hold.added"]
        assert {each["user"] for each in entries} == {None}
        assert (await client.get(f"{API}/audit?action=hold.added&limit=1", headers=operator)).json()["next"] is None


async def test_a_user_is_exported_to_those_who_may_read_it(make_runner: MakeRunner) -> None:
    """A44: a user's archive has no labels; operators and admins get all."""
    runner = make_runner(desk)
    ann, server = await key_for(runner), await key_for(runner, acts_for_users=True)
    operator, admin = await key_for(runner, role="operator"), await key_for(runner, role="admin", user="root")
    bob, weak = await key_for(runner, user="bob"), await key_for(runner, user="ann", scopes=("sessions:read", "decisions:read"))
    path = f"{API}/users/ann/export"
    async with served(runner, LOCKED) as client:
        assert (await client.send_message("hi", headers=ann)).status_code == 200
        for headers, labels in ((ann, False), (server, False), (operator, True), (admin, True)):
            answer = await client.get(path, headers=headers)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
            archive = zipfile.ZipFile(io.BytesIO(answer.content))
            assert archive.testzip() is None
            assert b'"hi"' in archive.read("sessions/000001/events.jsonl")
            assert ("labels.jsonl" in archive.namelist()) is labels
        for headers in (bob, weak):
            assert (await client.get(path, headers=headers)).status_code == 403
        assert (await client.get(path)).status_code == 401
        entries = (await client.get(f"{API}/audit?action=user.exported", headers=operator)).json()["entries"]
        assert len(entries) == 4, "a refused export is not one"
