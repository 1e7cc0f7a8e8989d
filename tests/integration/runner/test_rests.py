"""An agent whose surroundings fail rests, is tried with one message, and that message does not suffer (behaviour C20)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from runner_play import direct, key, reason

from turnwise import ProcessConfig, Runner, agent
from turnwise.facts.ids import SystemIssuer
from turnwise.runner import Result
from turnwise.selection.policy import PolicySpec, StageSpec

Process = Callable[..., Runner]
POLICY = PolicySpec(
    name="p", stages=(StageSpec(selector="direct"), StageSpec(selector="patterns"), StageSpec(selector="default"))
)


class Hours(SystemIssuer):
    """Ids of the system, and a clock that the test sets."""

    time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


class Service:
    """What the agent `weather` depends on."""

    def __init__(self) -> None:
        self.problem: Exception | None = ConnectionRefusedError("no route")
        self.calls = 0

        @agent(name="weather", patterns=[{"regex": "rain", "confidence": 0.9}])
        async def weather(message: str) -> str:
            self.calls += 1
            if self.problem is not None:
                raise self.problem
            return "it stays dry"

        @agent(name="desk", children=[weather])
        async def desk(message: str) -> str:
            return "ask me later"

        self.root: Any = desk


async def ask(runner: Runner, user: str, text: str = "does it rain?", **options: Any) -> Result:
    return await (await runner.start(text, user=user, session="s", **options)).result()


def make(new: Process, service: Service, issuer: SystemIssuer, **options: Any) -> Runner:
    return new(service.root, issuer=issuer, policy=POLICY, **options)


async def test_three_users_begin_a_rest_in_all_processes_and_one_probe_ends_it(process: Process) -> None:
    """C20"""
    service, issuer = Service(), Hours()
    here, there = make(process, service, issuer), make(process, service, issuer)
    for user in ("ada", "bob", "eve"):
        assert reason(await ask(here, user)) == "failed"
    resting = await ask(here, "zoe")
    assert (resting.text, service.calls) == ("ask me later", 3)
    assert resting.selection is not None
    page = await here.store.decisions.search("app", key=key("s")._replace(user="zoe"))
    (excluded,) = page.items[0].selection.excluded
    assert (excluded.agent, excluded.rule) == ("weather", "resting")
    assert excluded.detail.startswith("resting until 2030-01-01T00:00:30")
    await there.recover()
    await there.rests.refresh()
    assert (await ask(there, "max")).text == "ask me later"
    issuer.time += timedelta(seconds=31)
    probe = await ask(here, "ada")
    assert (probe.text, reason(probe), service.calls) == ("ask me later", "completed", 4)
    events = await here.store.events(key())
    assert [event.error.code for event in events if event.error][-1] == "agent.failed"
    assert [event.actions.transfer_to for event in events if event.actions.transfer_to] == ["desk"]
    assert (await ask(here, "bob")).text == "ask me later", "it rests again, for longer"
    issuer.time += timedelta(seconds=61)
    service.problem = None
    assert (await ask(here, "bob")).text == "it stays dry"
    await there.rests.refresh()
    assert (await ask(there, "max")).text == "it stays dry"


async def test_an_agents_own_exceptions_and_the_root_do_not_rest(process: Process) -> None:
    """C20"""
    service, issuer = Service(), Hours()
    service.problem = ValueError("its own mistake")
    runner = make(process, service, issuer)
    for user in ("ada", "bob", "eve", "zoe", "max"):
        assert reason(await ask(runner, user)) == "failed"
    assert service.calls == 5

    @agent(name="desk")
    async def desk(message: str) -> str:
        raise ConnectionRefusedError("no route")

    alone = process(desk, issuer=issuer)
    for user in ("amy", "ben", "cat", "dan"):
        assert reason(await ask(alone, user)) == "failed"
    assert alone.rests.resting() == {}


async def test_rests_can_be_switched_off_and_a_named_agent_rests_too(process: Process) -> None:
    """C20, C1"""
    service, issuer = Service(), Hours()
    off = make(process, service, issuer, process=ProcessConfig(rest_seconds=0))
    for user in ("ada", "bob", "eve", "zoe"):
        assert reason(await ask(off, user, context=direct("weather"))) == "failed"
    assert service.calls == 4
    on = make(process, service, issuer)
    for user in ("ada", "bob", "eve", "zoe"):
        await ask(on, user, context=direct("weather"))
    assert service.calls == 7
