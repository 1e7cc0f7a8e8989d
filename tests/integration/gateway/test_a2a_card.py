"""The agent card over real sockets: what it says, to whom, and how long it may be kept."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a import types as wire
from a2a_client import HTTP, JSONRPC, a_client, spoken
from gateway_play import key_for
from google.protobuf.json_format import MessageToDict

from turnwise import agent
from turnwise.facts.gateway import A2aConfig, AuthConfig, GatewayConfig, JwtConfig, Protocols

PATH = "/.well-known/agent-card.json"
JWT = JwtConfig(algorithms=("HS256",), key="k" * 32)


@agent(examples=["Where is it?", "x" * 500], tags=["parcels"])
def orders(message: str) -> str:
    """Finds parcels."""
    return "There."


@agent(roles=["staff"])
def payroll(message: str) -> str:
    return "Paid."


@agent(routable=False)
def helper(message: str) -> str:
    return "Helped."


@agent(children=[orders, payroll, helper], description="The front desk.")
def desk(message: str) -> str:
    return "Done."


def configured(auth: AuthConfig | None = None, **options: Any) -> GatewayConfig:
    return GatewayConfig(auth=auth, protocols=Protocols(a2a=A2aConfig(**options)))


def skills(card: wire.AgentCard) -> list[str]:
    return [skill.id for skill in card.skills]


async def test_it_says_what_is_there_and_how_it_is_asked() -> None:
    async with spoken(desk, app="shop") as a2a:
        card = a2a.card
        assert (card.name, card.description, card.version) == ("shop", "The front desk.", "1")
        assert [(each.protocol_binding, each.url, each.protocol_version) for each in card.supported_interfaces] == [
            (JSONRPC, f"{a2a.gateway.address}/a2a", "1.0"),
            (HTTP, f"{a2a.gateway.address}/a2a/rest", "1.0"),
        ]
        capabilities = card.capabilities
        assert (capabilities.streaming, capabilities.push_notifications, capabilities.extended_agent_card) == (True,) * 3
        assert (dict(card.security_schemes), skills(card)) == ({}, ["desk", "orders"])
        skill = card.skills[1]
        assert (skill.description, list(skill.tags), list(skill.examples)) == ("Finds parcels.", ["parcels"], ["Where is it?"])
        assert card.default_input_modes[0] == card.default_output_modes[0] == "text/plain"


async def test_it_says_what_is_configured() -> None:
    named = configured(name="Ours", description="All we do.", version="7").replace(public_url="https://x.test/y")
    async with spoken(desk, named) as a2a:
        assert (a2a.card.name, a2a.card.description, a2a.card.version) == ("Ours", "All we do.", "7")
        assert [each.url for each in a2a.card.supported_interfaces] == ["https://x.test/y/a2a", "https://x.test/y/a2a/rest"]
        assert "vary" not in (await a2a.gateway.get(PATH)).headers


async def test_it_may_be_kept_and_is_not_sent_twice() -> None:
    async with spoken(desk, configured(card_seconds=60)) as a2a:
        answer = await a2a.gateway.get(PATH)
        headers = answer.headers
        assert (headers["cache-control"], headers["vary"]) == ("public, max-age=60", "Host")
        assert headers["content-type"] == "application/json"
        later = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
        for name, value, status in (
            ("If-None-Match", headers["etag"], 304),
            ("If-None-Match", f'"other", W/{headers["etag"]}', 304),
            ("If-None-Match", "*", 304),
            ("If-None-Match", '"other"', 200),
            ("If-Modified-Since", headers["last-modified"], 304),
            ("If-Modified-Since", later, 304),
            ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT", 200),
            ("If-Modified-Since", "yesterday", 200),
        ):
            again = await a2a.gateway.get(PATH, headers={name: value})
            assert (again.status_code, again.headers["etag"]) == (status, headers["etag"]), (name, value)
            assert bool(again.content) == (status == 200)
        both = {"If-None-Match": '"other"', "If-Modified-Since": later}
        assert (await a2a.gateway.get(PATH, headers=both)).status_code == 200
        head = await a2a.gateway.head(PATH)
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", headers["etag"])
        assert (await a2a.gateway.post(PATH)).status_code == 405


@pytest.mark.parametrize(
    ("auth", "schemes"),
    [
        (AuthConfig(), ["apiKey", "bearer"]),
        (AuthConfig(jwt=JWT), ["apiKey", "bearer"]),
        (AuthConfig(keys=False, jwt=JWT), ["bearer"]),
    ],
)
async def test_it_says_by_which_credentials_one_enters(auth: AuthConfig, schemes: list[str]) -> None:
    async with spoken(desk, configured(auth)) as a2a:
        assert sorted(a2a.card.security_schemes) == schemes
        assert [list(each.schemes) for each in a2a.card.security_requirements] == [[name] for name in schemes]
        assert a2a.card.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"


@pytest.mark.parametrize("binding", [JSONRPC, HTTP])
async def test_the_extended_one_has_the_agents_that_the_caller_reaches(binding: str) -> None:
    """C20."""
    async with spoken(desk, configured(AuthConfig())) as a2a:
        assert skills(a2a.card) == ["desk", "orders"]
        for rights, shown in (
            ({"user": "ann"}, ["desk", "orders"]),
            ({"user": "sue", "agent_roles": ["staff"]}, ["desk", "orders", "payroll"]),
            ({"role": "operator", "user": "olga"}, ["desk", "orders", "payroll"]),
        ):
            async with a_client(a2a.gateway, binding, headers=await key_for(a2a.runner, **rights)) as (client, public):
                card = await client.get_extended_agent_card(wire.GetExtendedAgentCardRequest())
                assert skills(card) == shown
                del card.skills[:], public.skills[:]
                assert card == public


async def test_a_card_of_thousands_of_agents_is_bounded() -> None:
    def one(number: int) -> Any:
        @agent(name=f"agent-{number:04}", description="d" * 5000, examples=["e" * 150] * 50)
        def named(message: str) -> str:
            return "Done."

        return named

    @agent(children=[one(number) for number in range(3000)])
    def root(message: str) -> str:
        return "Done."

    async with spoken(root, policy="adk") as a2a:
        assert len(a2a.card.skills) == 200
        assert len((await a2a.gateway.get(PATH)).content) < 400_000
        (text,) = {len(skill.description) for skill in a2a.card.skills[1:]}
        assert text == 500


async def test_switched_off_there_is_nothing() -> None:
    async with spoken(desk) as a2a:
        assert MessageToDict(a2a.card)["name"]
    config = GatewayConfig(protocols=Protocols(a2a=A2aConfig(on=False)))
    with pytest.raises(Exception, match="404"):
        async with spoken(desk, config):
            pass
