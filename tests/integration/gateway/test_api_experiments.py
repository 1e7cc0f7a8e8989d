"""Experiments, the review queue, signals and the report over our own API and by the client (behaviours H2, H7)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gateway_play import key_for, served

from turnwise import Runner, agent
from turnwise.client import Client
from turnwise.facts.errors import Forbidden, InvocationMissing, NothingHere, RequestInvalid, StaleWriter
from turnwise.facts.experiments import Arm, Experiment, ExperimentRecord
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.facts.selections import Selection
from turnwise.learning.experiments import start
from turnwise.ports.experiments import ExperimentStore
from turnwise.selection.policy import PolicySpec, StageSpec

MakeRunner = Callable[..., Runner]
LOCKED = GatewayConfig(auth=AuthConfig())


@agent(patterns=["order"])
def orders(message: str) -> str:
    return "on its way"


@agent(patterns=["bill"])
def billing(message: str) -> str:
    return "paid"


@agent(children=[orders, billing])
def desk(message: str) -> str:
    return "hello"


FRESH = PolicySpec(name="fresh", stages=(StageSpec(selector="direct"), StageSpec(selector="default")))
TRIAL = Experiment(name="trial", arms=(Arm(name="today"), Arm(name="fresh", policy="fresh")))
OPTIONS: dict[str, Any] = {"policy": "staples", "policies": {"fresh": FRESH}, "app": "shop"}


async def in_new_session(runner: Runner) -> Selection:
    """The decision on the first message of a new session."""
    selection = (await (await runner.start("my order", user="new", session="new")).result()).selection
    assert selection is not None
    return selection


def client_of(address: str, headers: dict[str, str]) -> Client:
    return Client(address, key=headers["Authorization"].removeprefix("Bearer "))


async def test_operators_see_an_experiment_and_admins_end_it(make_runner: MakeRunner) -> None:
    """H7"""
    runner = make_runner(desk, experiment=TRIAL, **OPTIONS)
    async with served(runner, LOCKED) as http:
        user, operator, admin = [await key_for(runner, user="ann", role=role) for role in ("user", "operator", "admin")]
        async with client_of(http.address, operator) as client:
            assert await client.experiments.list() == []
            assert (await http.get("/api/v1/experiments", headers=operator)).json()["configured"] == "trial"
            with pytest.raises(NothingHere, match="one starts with the first message"):
                await client.experiments.show("trial")
            for number in range(4):
                await http.send_message("my order", f"s{number}", headers=user)
            (row,) = await client.experiments.list()
            assert (row.name, row.state, [arm.name for arm in row.arms]) == ("trial", "running", ["today", "fresh"])
            shown = await client.experiments.show("trial")
            assert (sum(arm.units for arm in shown.arms), shown.winner, shown.broken) == (4, None, False)
            assert [each.metric for each in shown.comparisons] == ["uncorrected", "answered", "unclarified"]
            assert shown.paired is not None
            assert shown.paired.decisions <= 4
            assert (await client.experiments.shadow()).decisions == 0
            with pytest.raises(Forbidden):
                await client.experiments.stop("trial")
        async with client_of(http.address, user) as client:
            with pytest.raises(Forbidden):
                await client.experiments.list()
        async with client_of(http.address, admin) as client:
            with pytest.raises(NothingHere, match="no arm 'x'"):
                await client.experiments.promote("trial", "x")
            promoted = await client.experiments.promote("trial", "fresh")
            assert (promoted.state, promoted.promoted) == ("promoted", "fresh")
            assert (await client.experiments.show("trial")).state == "promoted"
            back = await client.experiments.roll_back("trial", "it was wrong")
            assert (back.state, back.reason) == ("rolled_back", "it was wrong")
            with pytest.raises(StaleWriter, match="rolled back already"):
                await client.experiments.stop("trial")
        acts = (await http.get("/api/v1/audit", headers=operator)).json()["entries"]
        assert [each["action"] for each in acts] == ["experiment.rolled_back", "experiment.promoted"]


async def test_admins_start_an_experiment_that_the_configuration_does_not_have(make_runner: MakeRunner) -> None:
    """H7: audited, one at a time, and new sessions are in it."""
    runner = make_runner(desk, **OPTIONS)
    async with served(runner, LOCKED) as http:
        user, operator, admin = [await key_for(runner, user="ann", role=role) for role in ("user", "operator", "admin")]
        await http.send_message("my order", "before", headers=user)
        async with client_of(http.address, operator) as client:
            with pytest.raises(Forbidden):
                await client.experiments.start(TRIAL)
        async with client_of(http.address, admin) as client:
            for arms, wrong in (("other", "no policy 'other'"), (None, "No arm names a policy")):
                given = Experiment(name="trial", arms=(Arm(name="today"), Arm(name="b", policy=arms)))
                with pytest.raises(RequestInvalid, match=wrong):
                    await client.experiments.start(given)
            begun = await client.experiments.start(TRIAL.replace(least_units=20))
            assert (begun.name, begun.state, begun.actor) == ("trial", "running", "")
            assert begun.started_by
            for again, wrong in ((TRIAL, "an experiment 'trial' already"), (TRIAL.replace(name="b"), "'trial' is running")):
                with pytest.raises(StaleWriter, match=wrong):
                    await client.experiments.start(again)
            runner.experiments._read_at = None  # instead of waiting for a second
            for session in ("before", "s1", "s2", "s3", "s4", "s5"):
                await http.send_message("my order", session, headers=user)
            shown = await client.experiments.show("trial")
            assert sum(arm.units for arm in shown.arms) == 5
            await client.experiments.promote("trial", "fresh")
            other = await client.experiments.start(TRIAL.replace(name="b"))
            assert other.state == "running"
        acts = (await http.get("/api/v1/audit", headers=operator)).json()["entries"]
        assert [each["action"] for each in acts] == ["experiment.started", "experiment.promoted", "experiment.started"]
        twice = {"name": "c", "arms": [{"name": "a"}, {"name": "a", "policy": "fresh"}]}
        refused = await http.post("/api/v1/experiments", json=twice, headers=admin)
        assert refused.status_code == 422
        assert "same name" in refused.text


async def test_an_experiment_of_the_configuration_takes_precedence(make_runner: MakeRunner) -> None:
    """H7"""
    runner = make_runner(desk, experiment=TRIAL, **OPTIONS)
    async with served(runner, LOCKED) as http, client_of(http.address, await key_for(runner, role="admin", user="a")) as client:
        with pytest.raises(StaleWriter, match="configuration has the experiment 'trial'"):
            await client.experiments.start(TRIAL.replace(name="other"))


async def test_of_two_that_are_started_at_once_the_first_stays(make_runner: MakeRunner) -> None:
    """H7"""
    runner = make_runner(desk, **OPTIONS)
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert isinstance(runner.store, ExperimentStore)
    store = runner.store.experiments
    first = await store.replace("shop", ExperimentRecord(experiment=TRIAL, started_at=now, started_by="x"))
    assert first is not None

    class Late:
        """The first look sees no other experiment."""

        def __init__(self) -> None:
            self.looks = 0

        async def all(self, app: str) -> Any:
            self.looks += 1
            return [] if self.looks == 1 else await store.all(app)

        replace = store.replace

    with pytest.raises(StaleWriter, match="'trial' is running"):
        await start(Late(), "shop", TRIAL.replace(name="zz"), now, actor="y")  # type: ignore[arg-type]
    assert {each.name: each.state for each in await store.all("shop")} == {"trial": "running", "zz": "stopped"}
    assert (await in_new_session(runner)).experiment == "trial"


async def test_of_two_the_first_stays_also_when_it_is_stored_last(make_runner: MakeRunner) -> None:
    """H7"""
    runner = make_runner(desk, **OPTIONS)
    assert isinstance(runner.store, ExperimentStore)
    store, now = runner.store.experiments, datetime(2026, 1, 2, tzinfo=UTC)
    later = ExperimentRecord(experiment=TRIAL.replace(name="later"), started_at=now + timedelta(seconds=1), started_by="x")

    class Slow:
        """Another experiment is stored after the first look."""

        def __init__(self) -> None:
            self.looks = 0

        async def all(self, app: str) -> Any:
            self.looks += 1
            if self.looks == 1:
                await store.replace(app, later)
                return []
            return await store.all(app)

        replace = store.replace

    await start(Slow(), "shop", TRIAL, now, actor="y")  # type: ignore[arg-type]
    assert {each.name: each.state for each in await store.all("shop")} == {"trial": "running", "later": "stopped"}
    assert (await in_new_session(runner)).experiment == "trial"


async def test_the_review_queue_hands_over_how_each_decision_was_picked(make_runner: MakeRunner) -> None:
    """H2"""
    runner = make_runner(desk, **OPTIONS)
    async with served(runner, LOCKED) as http:
        user, operator = await key_for(runner, user="ann"), await key_for(runner, user="op", role="operator")
        for number in range(10):
            await http.send_message("my order" if number % 2 else "hello there", f"s{number}", headers=user)
        await http.post("/api/v1/sessions/s3/decisions/1/feedback", json={"rating": "down", "agent": "billing"}, headers=user)
        async with client_of(http.address, operator) as client:
            queue = await client.review.queue(10, random=0.2, seed=7)
            assert [each.picked for each in queue].count("random") == 2
            assert {each.probability for each in queue if each.picked == "random"} == {0.2}
            assert [each.decision.session_id for each in queue if each.picked == "complaint"] in ([], ["s3"])
            assert [each.decision for each in queue] == [
                each.decision for each in await client.review.queue(10, random=0.2, seed=7)
            ]
            drawn = next(each for each in queue if each.picked == "random")
            await client.review.label([drawn], "billing", note="it is a bill")
            left = await client.review.queue(10, random=0.0)
            assert len(left) == 9
            assert drawn.decision not in [each.decision for each in left]
            every = await client.review.queue(5, random=1.0)
            assert [each.picked for each in every] == ["random"] * 5
            path = f"/api/v1/sessions/{drawn.decision.session_id}/decisions/{drawn.decision.sequence}/labels"
            labels = (await http.get(path, params={"user": "ann"}, headers=operator)).json()["labels"]
            given = next(each for each in labels if each["source"] == "operator")
            assert (given["agent"], given["picked"], given["probability"]) == ("billing", "random", 0.2)


async def test_signals_and_the_report_say_what_the_traffic_shows(make_runner: MakeRunner) -> None:
    """H2"""
    runner = make_runner(desk, **OPTIONS)
    async with served(runner, LOCKED) as http:
        user, operator = await key_for(runner, user="ann"), await key_for(runner, user="ann", role="operator")
        await http.send_message("where is my order now", "s", headers=user)
        await http.send_message("no, I meant the bill", "s", headers=user)
        async with client_of(http.address, operator) as client:
            (signal,) = await client.review.signals("s", 1)
            assert (signal.signal, signal.says, signal.agent) == ("meant_another", "another", "billing")
            with pytest.raises(InvocationMissing):
                await client.review.signals("s", 2)
            await client.decisions.label("s", 1, "billing")
            report = await client.review.report(limit=100)
            assert (report.decisions, report.labels, report.accuracy) == (2, 1, None)
            assert [(each.expected, each.chosen, each.count) for each in report.misroutes] == [("billing", "orders", 1)]
            assert sum(each.wrong for each in report.weeks) == 1
        async with client_of(http.address, user) as client:
            for refused in (client.review.queue(), client.review.report(), client.review.signals("s", 1)):
                with pytest.raises(Forbidden):
                    await refused
