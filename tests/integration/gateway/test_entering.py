"""Over real sockets: who is let in by name and origin, and what browsers are told."""

from collections.abc import Callable

import pytest
from gateway_play import answered_raw, key_for, served
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig

MakeRunner = Callable[..., Runner]
PAGE = "https://app.example"


@agent
def echo(message: str) -> str:
    return f"You said {message}"


async def test_without_auth_this_machine_is_let_in_by_its_own_names(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as client:
        assert (await client.send_message("hi")).json()["text"] == "You said hi"
        for host, status in (("localhost:1", 200), ("[::1]", 200), ("evil.example", 403), ("127.0.0.1.evil.example", 403)):
            refused = await client.send_message("hi", headers={"Host": host})
            assert (refused.status_code, host) == (status, host)
        assert (await client.get("/v1/models", headers={"Host": "evil.example"})).json()["error"]["code"] == "access.forbidden"


async def test_a_request_without_a_host_is_refused(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as client:
        answer = await answered_raw(client.address, b"GET /api/v1/health HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")


async def test_without_auth_no_foreign_page_is_let_in(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo), GatewayConfig(origins=(PAGE,))) as client:
        own = {"Origin": client.address}
        assert (await client.send_message("hi", headers=own)).status_code == 200
        assert (await client.send_message("hi", headers={"Origin": PAGE})).headers["access-control-allow-origin"] == PAGE
        refused = await client.send_message("hi", headers={"Origin": "https://evil.example"})
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
        # A page can send this one without asking before, and does not need to read the answer.
        plain = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
        blind = await client.post("/api/v1/sessions/s2/messages", content=b'{"content": "hi"}', headers=plain)
        assert blind.status_code == 403
        assert (await client.get("/api/v1/sessions/s2")).status_code == 404


async def test_with_auth_only_named_pages_may_read(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    ann = await key_for(runner)
    async with served(runner, GatewayConfig(auth=AuthConfig(), origins=(PAGE,))) as client:
        asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}
        allowed = await client.options("/v1/responses", headers={"Origin": PAGE, **asking})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE
        assert "x-stainless-os" in allowed.headers["access-control-allow-headers"]
        refused = await client.options("/v1/responses", headers={"Origin": "https://evil.example", **asking})
        assert "access-control-allow-origin" not in refused.headers
        answer = await client.send_message("hi", headers={"Origin": PAGE, "Host": "gateway.example", **ann})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert {"X-Request-ID", "Retry-After"} <= set(answer.headers["access-control-expose-headers"].split(", "))
        other = await client.send_message("hi", headers={"Origin": "https://evil.example", **ann})
        assert "access-control-allow-origin" not in other.headers
        for each in (allowed, answer):
            assert "access-control-allow-credentials" not in each.headers


async def test_a_web_socket_is_no_way_around(make_runner: MakeRunner) -> None:
    """Browsers let any page open one, and read all of it."""
    async with served(make_runner(echo), GatewayConfig(origins=(PAGE,))) as client:
        url = f"{client.address.replace('http', 'ws')}/v1/responses"
        for origin in (None, PAGE, client.address):
            async with connect(url, origin=Origin(origin) if origin else None) as socket:
                assert socket.response is not None
                assert socket.response.headers["x-request-id"]
        with pytest.raises(InvalidStatus, match="403"):
            await connect(url, origin=Origin("https://evil.example"))
        with pytest.raises(InvalidStatus, match="403"):
            await connect(url.replace("127.0.0.1", "localhost"), additional_headers={"Host": "evil.example"})


@pytest.mark.parametrize("origins", [(PAGE,), ("*",)])
async def test_a_page_may_read_what_went_wrong(make_runner: MakeRunner, origins: tuple[str, ...]) -> None:
    async with served(make_runner(echo), GatewayConfig(auth=AuthConfig(), origins=origins)) as client:
        refused = await client.send_message("hi", headers={"Origin": PAGE})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] in (PAGE, "*")
        assert "access-control-allow-credentials" not in refused.headers


async def test_every_answer_tells_browsers_what_not_to_do(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as client:
        answers = [
            await client.send_message("hi"),
            await client.get("/api/v1/health"),
            await client.get("/nothing"),
            await client.get("/v1/models/nothing"),
            await client.get("/api/v1/health", headers={"Host": "evil.example"}),
            await client.put("/api/v1/health"),
        ]
        for answer in answers:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert answer.headers["x-request-id"]
            assert "server" not in answer.headers


async def test_a_problem_has_the_requests_id(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as client:
        answer = await client.get("/api/v1/nothing", headers={"X-Request-ID": "mine-1"})
        assert answer.json()["request_id"] == answer.headers["x-request-id"] == "mine-1"


async def test_too_much_is_refused_before_it_is_read(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    ann = await key_for(runner)
    limits = CallerLimits(bytes=20_000, requests=3)
    async with served(runner, GatewayConfig(auth=AuthConfig(), limits=limits)) as client:
        assert (await client.send_message("x" * 1500, headers=ann)).status_code == 200
        much = await client.send_message("x" * 19_000, headers=ann)
        assert (much.status_code, much.json()["code"]) == (429, "access.too_many")
        assert int(much.headers["retry-after"]) > 0
        assert (await client.send_message("x", headers=ann)).status_code == 200
        often = await client.send_message("x", headers=ann)
        assert (often.status_code, "3 requests" in often.json()["title"]) == (429, True)


async def test_an_addresses_wrong_credentials_are_those_of_whom_the_proxy_names(make_runner: MakeRunner) -> None:
    config = GatewayConfig(auth=AuthConfig(), limits=CallerLimits(failures=1), trusted_proxies=("127.0.0.1",))
    async with served(make_runner(echo), config) as client:

        async def status(address: str) -> int:
            headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": address}
            return (await client.send_message("hi", headers=headers)).status_code

        assert [await status(address) for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2")] == [401, 429, 401]


async def test_nobody_is_believed_who_is_no_proxy(make_runner: MakeRunner) -> None:
    config = GatewayConfig(auth=AuthConfig(), limits=CallerLimits(failures=1))
    async with served(make_runner(echo), config) as client:
        headers = [{"Authorization": "Bearer wrong", "X-Forwarded-For": f"192.0.2.{number}"} for number in (1, 2)]
        assert [(await client.send_message("hi", headers=each)).status_code for each in headers] == [401, 429]
