"""Experiments in a runner (behaviour H7): arms decide, stick, are on record, and end when they should."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from runner_play import ask, direct, key

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.errors import ConfigError, NothingHere, PolicyError, StaleWriter, StoreUnavailable
from turnwise.facts.experiments import Arm, Experiment, ExperimentRecord
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.labels import Label
from turnwise.learning.experiments import end_if_worse, promote, read_result, roll_back, stop
from turnwise.runner import Result
from turnwise.runner.experiments import ExperimentAssignments
from turnwise.selection.alternatives import arm_of, unit_of
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.telemetry import Metrics
from turnwise.testing.fakes import RecordingHooks

MakeRunner = Callable[..., Runner]


@agent(name="old")
def old(message: str) -> str:
    return "old"


@agent(name="new")
def new(message: str) -> str:
    return "new"


@agent(name="desk", children=[old, new])
def desk(message: str) -> str:
    return "desk"


def always(name: str) -> PolicySpec:
    stages = (StageSpec(selector="direct"), StageSpec(selector="default"))
    return PolicySpec(name=f"always-{name}", stages=stages, default=name)


OPTIONS: dict[str, Any] = {"policy": always("old"), "policies": {"fresh": always("new")}}
ARMS = (Arm(name="control"), Arm(name="fresh", policy="fresh"))


def an_experiment(**fields: Any) -> Experiment:
    return Experiment(**{"name": "trial", "arms": ARMS, **fields})


class Clock(SystemIssuer):
    """Gives a time that tests move."""

    def __init__(self) -> None:
        super().__init__()
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(make_runner: MakeRunner, clock: Clock) -> Runner:
    store = SqlSessionStore("sqlite://", issuer=clock)
    return make_runner(desk, store=store, issuer=clock, experiment=an_experiment(), **OPTIONS)


def arm(result: Result) -> str | None:
    assert result.selection is not None
    return result.selection.arm


def forget(runner: Runner) -> None:
    """Lets the runner read the experiment again, as it does after a second."""
    runner.experiments._read_at = None


async def test_the_arm_of_a_session_decides_and_is_on_record(running: Runner) -> None:
    """H7: as the hash says, and the same at every message."""
    for number in range(12):
        wanted = arm_of(an_experiment(), "app", unit_of(an_experiment(), key(str(number)))).name
        for _ in range(2):
            result = await ask(running, "hi", session=str(number))
            assert result.selection is not None
            assert (arm(result), result.selection.experiment) == (wanted, "trial")
            assert result.text == ("new" if wanted == "fresh" else "old")
            assert result.selection.policy == ("always-new" if wanted == "fresh" else "always-old")
    decisions = (await running.store.decisions.search("app")).items
    assert Counter(each.selection.arm for each in decisions).keys() == {"control", "fresh"}
    (event, *_) = await running.store.events(key("0"))
    assert event.actions.selection is not None
    assert event.actions.selection.experiment == "trial"


async def test_a_user_keeps_the_arm_in_all_sessions(make_runner: MakeRunner) -> None:
    """H7"""
    runner = make_runner(desk, experiment=an_experiment(unit="user"), **OPTIONS)
    assert len({arm(await ask(runner, "hi", session=str(number))) for number in range(8)}) == 1


async def test_processes_agree(make_runner: MakeRunner, tmp_path: Any) -> None:
    runners = [
        make_runner(desk, store=SqlSessionStore(f"sqlite:///{tmp_path}/s.db"), experiment=an_experiment(), **OPTIONS)
        for _ in range(2)
    ]
    for number in range(6):
        one, other = [arm(await ask(runner, "hi", session=str(number))) for runner in runners]
        assert one == other is not None


async def test_a_session_that_began_before_goes_on_as_it_was(make_runner: MakeRunner) -> None:
    store = SqlSessionStore("sqlite://")
    before = make_runner(desk, store=store, **OPTIONS)
    for number in range(4):
        assert arm(await ask(before, "hi", session=str(number))) is None
    runner = make_runner(desk, store=store, experiment=an_experiment(), **OPTIONS)
    assert [arm(await ask(runner, "hi", session=str(number))) for number in range(4)] == [None] * 4
    assert arm(await ask(runner, "hi", session="new")) is not None


async def test_a_rollback_reaches_every_session_at_once(running: Runner, clock: Clock) -> None:
    """H7"""
    sessions = [str(number) for number in range(8)]
    assert {(await ask(running, "hi", session=each)).text for each in sessions} == {"old", "new"}
    await roll_back(running.store.experiments, "app", "trial", clock.now(), actor="me", reason="it is wrong")  # type: ignore[attr-defined]
    forget(running)
    results = [await ask(running, "hi", session=each) for each in [*sessions, "another"]]
    assert {(result.text, arm(result)) for result in results} == {("old", None)}
    with pytest.raises(StaleWriter, match="rolled back already"):
        await promote(running.store.experiments, "app", "trial", "fresh", clock.now(), actor="me")  # type: ignore[attr-defined]


async def test_a_promotion_is_for_new_sessions(running: Runner, clock: Clock) -> None:
    """H7"""
    sessions = [str(number) for number in range(8)]
    before = [arm(await ask(running, "hi", session=each)) for each in sessions]
    await promote(running.store.experiments, "app", "trial", "fresh", clock.now(), actor="me")  # type: ignore[attr-defined]
    forget(running)
    assert [arm(await ask(running, "hi", session=each)) for each in sessions] == before
    results = [await ask(running, "hi", session=f"new {number}") for number in range(4)]
    assert {(result.text, arm(result)) for result in results} == {("new", None)}
    acts = (await running.store.audit.list("app")).items  # type: ignore[attr-defined]
    assert [(act.actor, act.action, act.details["arm"]) for act in acts] == [("me", "experiment.promoted", "fresh")]


async def test_after_a_stop_no_session_comes_in(running: Runner, clock: Clock) -> None:
    before = arm(await ask(running, "hi"))
    await stop(running.store.experiments, "app", "trial", clock.now(), actor="me")  # type: ignore[attr-defined]
    again = await stop(running.store.experiments, "app", "trial", clock.now(), actor="other")  # type: ignore[attr-defined]
    assert (again.state, again.actor) == ("stopped", "me")
    forget(running)
    assert arm(await ask(running, "hi")) == before
    assert arm(await ask(running, "hi", session="new")) is None


async def test_commands_name_what_is_missing(running: Runner, clock: Clock) -> None:
    store: Any = running.store
    with pytest.raises(NothingHere, match="no experiment 'trial'"):
        await stop(store.experiments, "app", "trial", clock.now(), actor="me")
    await ask(running, "hi")
    with pytest.raises(NothingHere, match="no arm 'x'"):
        await promote(store.experiments, "app", "trial", "x", clock.now(), actor="me")


async def test_an_experiment_ends_by_itself_when_an_arm_is_worse(running: Runner, clock: Clock) -> None:
    """E8, H7: every answer of the new policy is corrected by its user."""
    store: Any = running.store
    harmful = an_experiment(name="harm", least_units=10, ripe_seconds=60.0, worse_by=0.05)
    runner = Runner(desk, store=store, issuer=clock, experiment=harmful, **OPTIONS)
    for number in range(260):
        result = await ask(runner, "hi", session=f"h{number}")
        if result.text == "new":
            await store.labels.put(key(f"h{number}"), 1, Label(source="user", author="ada", agent="old"), actor="ada")
    assert await end_if_worse(store.experiments, "app", "harm", clock.now()) is None  # no unit is ripe
    clock.time += timedelta(seconds=59)
    assert await end_if_worse(store.experiments, "app", "harm", clock.now()) is None  # another process has just looked
    clock.time += timedelta(seconds=59)
    ended = await end_if_worse(store.experiments, "app", "harm", clock.now())
    assert ended is not None
    assert (ended.state, ended.actor) == ("rolled_back", "turnwise")
    assert "'fresh' was surely worse than 'control'" in ended.reason
    assert await end_if_worse(store.experiments, "app", "harm", clock.now() + timedelta(hours=1)) is None
    analysis = await read_result(store.experiments, "app", ended, clock.now())
    assert (analysis.winner, [each.arm for each in analysis.harmful], analysis.is_broken) == ("control", ["fresh"], False)
    assert sum(arm.units for arm in analysis.arms) == 260


async def test_a_changed_experiment_goes_on_as_it_began(running: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """H7: what decides is fixed at the start."""
    first = [arm(await ask(running, "hi", session=str(number))) for number in range(6)]
    changed = an_experiment(arms=(Arm(name="control", weight=1), Arm(name="fresh", policy="fresh", weight=1_000)))
    runner = Runner(desk, store=running.store, experiment=changed, **OPTIONS)
    assert [arm(await ask(runner, "hi", session=str(number))) for number in range(6)] == first
    assert "began with other settings" in caplog.text


async def test_an_arm_without_its_policy_is_not_counted(running: Runner) -> None:
    """The experiment began with a policy that this process does not know."""
    for number in range(6):
        await ask(running, "hi", session=str(number))
    runner = Runner(
        desk, store=running.store, policy=always("old"), experiment=an_experiment(arms=(Arm(name="a"), Arm(name="b")))
    )
    results = [await ask(runner, "hi", session=str(number)) for number in range(6)]
    assert {result.text for result in results} == {"old"}
    assert {arm(result) for result in results} == {"control", None}


async def test_a_preview_decides_as_the_session_would(running: Runner) -> None:
    for number in range(6):
        result = await ask(running, "hi", session=str(number))
        previewed = await running.select("hi", user="ada", session=str(number))
        assert (previewed.agent, previewed.arm) == (result.selection.agent, arm(result))  # type: ignore[union-attr]
    assert (await running.select("hi", user="ada")).arm is None


async def test_numbers_and_hooks_know_the_arm(make_runner: MakeRunner) -> None:
    metrics, hooks = Metrics(), RecordingHooks()
    runner = make_runner(desk, experiment=an_experiment(), hooks=[metrics, hooks], **OPTIONS)
    metrics.attach(runner)
    result = await ask(runner, "hi")
    body, _ = await metrics.render()
    line = f'turnwise_experiment_decisions_total{{arm="{arm(result)}",experiment="trial",outcome="chosen"}} 1.0'
    assert line in body.decode()
    assert 'turnwise_shadow_decisions_total{result="decided"}' in body.decode()


async def test_a_direct_choice_counts_for_the_arm_too(running: Runner) -> None:
    result = await ask(running, "hi", context=direct("desk"))
    assert (result.text, arm(result) is not None) == ("desk", True)


def test_a_policy_that_is_not_there_is_named() -> None:
    with pytest.raises(PolicyError, match="no policy named 'fresh'"):
        Runner(desk, experiment=an_experiment())
    with pytest.raises(PolicyError, match="no policy named 'gone'"):
        Runner(desk, policy=PolicySpec(shadow="gone"))


def test_a_store_without_experiments_is_refused() -> None:
    class Plain:
        take = None

        def __getattr__(self, name: str) -> Any:
            if name == "experiments":
                raise AttributeError(name)
            return lambda *_, **__: None

    plain = Plain()
    plain.take = lambda: None  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="cannot store the experiment 'trial'"):
        Runner(desk, store=plain, experiment=an_experiment(), **OPTIONS)  # type: ignore[arg-type]


class Away:
    """A store of experiments that can be away."""

    def __init__(self, record: ExperimentRecord | None = None) -> None:
        self.record, self.is_away, self.reads = record, False, 0

    async def all(self, app: str) -> list[ExperimentRecord]:
        self.reads += 1
        if self.is_away:
            raise StoreUnavailable("The store is away.")
        return [self.record] if self.record is not None else []

    async def replace(self, app: str, record: ExperimentRecord, **_: object) -> ExperimentRecord | None:
        if self.record is None:
            self.record = record.replace(version=1)
            return self.record
        return None


async def test_what_was_read_last_holds_while_the_store_is_away(running: Runner) -> None:
    await ask(running, "hi")
    session = await running.sessions.get(key())
    store, clock = Away(), [0.0]
    found: Any = ExperimentAssignments(store, "app", an_experiment(), running.experiments.now, clock=lambda: clock[0])  # type: ignore[arg-type]
    assert await found.of(session, starts=False) is None
    assert store.record is None
    assert await found.of(session) is None  # the session began before
    store.record = ExperimentRecord(experiment=an_experiment(), started_at=session.created_at, version=1)
    clock[0] = 2.0
    first = await found.of(session)
    assert first is not None
    reads, store.is_away = store.reads, True
    assert await found.of(session) == first
    assert store.reads == reads
    clock[0] = 4.0
    assert await found.of(session) == first
    assert store.reads == reads + 1


async def test_without_an_experiment_a_started_one_is_looked_for_once_a_second(running: Runner) -> None:
    """H7: that of an earlier configuration does not come back."""
    await ask(running, "hi")
    session = await running.sessions.get(key())
    store, clock = Away(), [0.0]
    found: Any = ExperimentAssignments(store, "app", None, running.experiments.now, clock=lambda: clock[0])  # type: ignore[arg-type]
    earlier = ExperimentRecord(experiment=an_experiment(), started_at=session.created_at, version=1)
    store.record = earlier
    assert await found.of(session) is None
    store.record = earlier.replace(started_by="key-1")
    assert await found.of(session) is None
    assert store.reads == 1
    clock[0] = 2.0
    assigned = await found.of(session)
    assert assigned is not None
    assert assigned.experiment == earlier.name
    assert store.reads == 2
