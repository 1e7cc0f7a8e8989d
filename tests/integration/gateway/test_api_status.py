"""Whether the process is alive and can serve, and its metrics."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from gateway_play import Served, key_for, served
from runner_play import Fails, Holds, InFront, soon

from turnwise import Limits, RunConfig, Runner, agent
from turnwise.facts.content import Content
from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.telemetry.metrics import Metrics

MakeRunner = Callable[..., Runner]
LOCKED = GatewayConfig(auth=AuthConfig())
API = "/api/v1"


@agent
def desk(message: str) -> str:
    return message


async def test_nobody_needs_a_credential_to_ask(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk), LOCKED) as client:
        assert (await client.get(f"{API}/health")).json() == {"status": "alive"}
        assert (await client.get(f"{API}/ready")).json() == {"status": "ready", "guardrail_threads_stuck": 0}
        assert set((await client.get(f"{API}/version")).json()) == {"version"}


async def test_it_is_not_ready_before_the_policy_is_prepared(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk), ready=False) as client:
        answer = await client.get(f"{API}/ready")
        assert (answer.status_code, answer.json()["code"]) == (503, "request.not_ready")
        assert answer.headers["retry-after"] == "1"
        assert (await client.get(f"{API}/health")).status_code == 200
        client.front.ready.set()
        assert (await client.get(f"{API}/ready")).status_code == 200


async def test_it_is_not_ready_without_its_store_and_does_not_say_where_that_is(make_runner: MakeRunner) -> None:
    away = StoreUnavailable("The database at db.example cannot be reached: password=x.")
    inner = make_runner(desk).store
    store = InFront(inner, maintenance=Fails(inner.maintenance, "check_writable", away, times=1))
    async with served(make_runner(desk, store=store)) as client:
        answer = await client.get(f"{API}/ready")
        assert (answer.status_code, answer.json()["title"]) == (503, "The session store is not writable.")
        assert "db.example" not in answer.text
        assert (await client.get(f"{API}/ready")).status_code == 200


class Stuck:
    """A guardrail whose check hangs until it is released."""

    name = "stuck"

    def __init__(self) -> None:
        self.release = threading.Event()

    def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
        self.release.wait()
        return ALLOW


async def _stuck_falls_to_zero(client: Served) -> bool:
    while (await client.get(f"{API}/ready")).json()["guardrail_threads_stuck"]:
        pass
    return True


async def test_it_is_ready_with_stuck_guardrails_and_says_how_many(make_runner: MakeRunner) -> None:
    guardrail, config = Stuck(), RunConfig(limits=Limits(guardrail_seconds=0.05))
    async with served(make_runner(desk, guardrails=[guardrail], config=config)) as client:
        try:
            for number in (1, 2):
                assert not (await client.send_message("hi")).is_success
                answer = await client.get(f"{API}/ready")
                assert (answer.status_code, answer.json()["guardrail_threads_stuck"]) == (200, number)
        finally:
            guardrail.release.set()
        assert await soon(_stuck_falls_to_zero(client))


async def test_those_who_ask_at_once_look_once(make_runner: MakeRunner) -> None:
    inner = make_runner(desk).store
    writable = Holds(inner.maintenance, "check_writable")
    store = InFront(inner, maintenance=writable)
    async with served(make_runner(desk, store=store)) as client:
        asked = [asyncio.create_task(client.get(f"{API}/ready")) for _ in range(3)]
        await writable.reached.wait()
        assert (await client.get(f"{API}/health")).status_code == 200
        writable.go.set()
        assert [(await soon(each)).status_code for each in asked] == [200, 200, 200]


async def test_it_is_not_ready_while_it_is_being_stopped(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        client.front.closing.set()
        answer = await client.get(f"{API}/ready")
        assert (answer.status_code, answer.json()["code"]) == (503, "request.closing")


async def test_metrics_are_at_the_top_for_whoever_may_read_them(make_runner: MakeRunner) -> None:
    metrics = Metrics()
    runner = make_runner(desk, hooks=[metrics])
    metrics.attach(runner)
    async with served(runner, LOCKED, metrics=metrics) as client:
        ann, olga = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="olga")
        await client.send_message("hi", headers=ann)
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=ann)).status_code == 403
        told = await client.get("/metrics", headers=olga)
        assert told.headers["content-type"].startswith("text/plain; version=")
        assert "turnwise_" in told.text


async def test_operations_name_the_agents_that_rest(make_runner: MakeRunner) -> None:
    """C20: an agent rests after failures of its surroundings for three users."""

    @agent(patterns=["rain"])
    def weather() -> str:
        raise ConnectionRefusedError("no route")

    @agent(children=[weather])
    def house(message: str) -> str:
        return message

    async with served(make_runner(house)) as client:
        assert (await client.get(f"{API}/operations")).json()["resting"] == []
        for user in ("ada", "bob", "eve"):
            await client.send_message("does it rain?", params={"user": user})
        (resting,) = (await client.get(f"{API}/operations")).json()["resting"]
        assert resting.pop("until") > f"{datetime.now(UTC):%Y-%m-%d}"
        assert resting == {"agent": "weather", "rests": 1, "probing": False}


async def test_without_auth_metrics_are_open_on_this_machine(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk), metrics=Metrics()) as client:
        assert (await client.get("/metrics")).status_code == 200


async def test_where_nothing_is_counted_there_are_no_metrics(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        assert (await client.get("/metrics")).json()["code"] == "request.nothing_here"
