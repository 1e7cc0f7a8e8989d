"""Legal holds, erasure and the audit log over our own API."""

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
