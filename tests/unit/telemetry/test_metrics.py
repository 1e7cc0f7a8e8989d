from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from prometheus_client.openmetrics import parser as openmetrics
from telemetry_play import numbers

from turnwise import agent
from turnwise.agents.members import collect
from turnwise.facts.content import text_content
from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.events import Actions, ErrorInfo, Event, Rewind
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import SessionKey
from turnwise.facts.usage import Usage
from turnwise.ports.hooks import PieceHooks
from turnwise.ports.stores import InboxLengths
from turnwise.telemetry.attributes import MAX_LABELS
from turnwise.telemetry.metrics import Metrics

KEY = SessionKey("app", "ada", "s")


@agent
async def help_() -> str:
    return ""


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


WAITS = InboxLengths(messages=7, sessions=3, longest=4)


def runner(lengths: Any = WAITS, stuck: int = 0) -> Any:
    """As much of a runner as is asked for numbers."""

    async def waits(app: str) -> InboxLengths:
        if isinstance(lengths, Exception):
            raise lengths
        assert app == "app"
        found: InboxLengths = lengths
        return found

    store, checks = SimpleNamespace(inbox=SimpleNamespace(lengths=waits)), SimpleNamespace(stuck=stuck)
    tree = collect(help_)[1]
    current = SimpleNamespace(tree=tree, revision=3)
    sets = SimpleNamespace(current=current, problem=None, on_swap=[].append)
    rests = SimpleNamespace(resting=lambda: {"help_": None})
    shadows = SimpleNamespace(results={"decided": 2, "dropped": 1})
    return SimpleNamespace(app="app", tree=tree, store=store, checks=checks, sets=sets, rests=rests, shadow_counts=shadows)


def chose(name: str = "help_", **more: Any) -> Selection:
    return Selection(agent=name, method="resume", confidence=0.75, reason="", **more)


def event(author: str = "help_", text: str | None = None, invocation: str = "i", **fields: Any) -> Event:
    content = text_content(text) if text is not None else None
    return Event(
        id="e", author=author, invocation_id=invocation, created_at=datetime(2026, 1, 1, tzinfo=UTC), content=content, **fields
    )


def asked(**fields: Any) -> Event:
    return event("user", "hi", actions=Actions(selection=chose()), **fields)


def test_it_wants_to_know_of_pieces() -> None:
    assert isinstance(Metrics(), PieceHooks)


async def test_agents_that_the_tree_does_not_know_are_one() -> None:
    metrics = Metrics()
    metrics.attach(runner())
    for name in ("help_", "forged", "made up"):
        await metrics.selected(KEY, chose(name))
    told = await numbers(metrics)
    assert told['turnwise_selections_total{agent="help_",method="resume",outcome="chosen"}'] == 1
    assert told['turnwise_selections_total{agent="other",method="resume",outcome="chosen"}'] == 2


async def test_labels_stay_few_whatever_comes() -> None:
    """A custom selector, an adapter, an agent's error, a model: none of them makes series without end."""
    metrics = Metrics()
    metrics.attach(runner())
    for n in range(2 * MAX_LABELS):
        verdict = Verdict(selector=f"s{n}", ms=1.0, usage=Usage(model=f"m{n}"))
        await metrics.selected(KEY, chose(verdicts=(verdict,)).replace(method=f"m{n}"))
        await metrics.stored(KEY, event(error=ErrorInfo(code=f"c{n}", message="")))
        await metrics.ended(KEY, f"i{n}", f"r{n}")
    told = await numbers(metrics)
    by_name = {name: sum(each.startswith(f"{name}{{") for each in told) for name in {each.partition("{")[0] for each in told}}
    assert by_name["turnwise_selections_total"] == by_name["turnwise_selector_seconds_count"] == MAX_LABELS + 1
    assert by_name["turnwise_model_calls_total"] == MAX_LABELS + 1
    assert by_name["turnwise_errors_total"] == by_name["turnwise_invocations_total"] == 1


async def test_what_a_model_took_that_was_asked_who_should_answer() -> None:
    metrics = Metrics()
    usage = Usage(model="openai:gpt-5", input_tokens=10, output_tokens=1, ms=500, cost=0.01)
    await metrics.selected(KEY, chose(verdicts=(Verdict(selector="model", ms=600, usage=usage),)))
    told = await numbers(metrics)
    assert told['turnwise_model_calls_total{model="openai:gpt-5"}'] == 1
    assert told['turnwise_selector_seconds_sum{selector="model"}'] == 0.6


async def test_several_calls_are_counted_and_not_timed_as_one() -> None:
    metrics = Metrics()
    await metrics.stored(KEY, event(actions=Actions(usage=Usage(calls=3, ms=900))))
    told = await numbers(metrics)
    assert told['turnwise_model_calls_total{model="several"}'] == 3
    assert 'turnwise_model_call_seconds_count{model="several"}' not in told


async def test_decisions_inside_of_turns_are_counted_and_not_timed() -> None:
    metrics = Metrics()
    await metrics.selected(KEY, chose(occasion="flow"))
    told = await numbers(metrics)
    assert told['turnwise_selections_total{agent="other",method="resume",outcome="chosen"}'] == 1
    assert told["turnwise_selection_seconds_count"] == 0


async def test_a_message_is_timed_from_where_it_began_or_was_taken_up_here() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    await metrics.stored(KEY, asked())
    clock.now = 2.0
    again = Actions(rewind=Rewind(from_sequence=1, invocation_id="i"))
    await metrics.stored(KEY, event(attempt=2, actions=again))
    clock.now = 5.0
    await metrics.stored(KEY, event(text="words"))
    clock.now = 7.0
    await metrics.stored(KEY, event(text="more words"))
    await metrics.ended(KEY, "i", "completed")
    await metrics.ended(KEY, "never seen", "completed")
    told = await numbers(metrics)
    assert told['turnwise_invocations_total{end="completed"}'] == 2
    assert told['turnwise_invocation_seconds_sum{end="completed"}'] == 5
    assert told["turnwise_first_words_seconds_sum"] == 3
    assert told["turnwise_first_words_seconds_count"] == 1


async def test_what_is_said_in_private_are_not_the_first_words() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    await metrics.stored(KEY, asked())
    clock.now = 1.0
    await metrics.stored(KEY, event(text="between us", branch="1/>other#1"))
    assert (await numbers(metrics))["turnwise_first_words_seconds_count"] == 0


async def test_sessions_with_equal_ids_of_invocations_are_told_apart() -> None:
    metrics = Metrics()
    for user in ("ada", "bob"):
        await metrics.stored(KEY._replace(user=user), asked())
    assert (await numbers(metrics))["turnwise_invocations_running"] == 2
    await metrics.ended(KEY, "i", "waiting")
    assert (await numbers(metrics))["turnwise_invocations_running"] == 1


async def test_requests_that_are_refused_are_counted_by_whoever_refuses_them() -> None:
    metrics = Metrics()
    metrics.count_error("access.forbidden")
    assert (await numbers(metrics))['turnwise_errors_total{code="access.forbidden"}'] == 1


async def test_what_waits_comes_from_the_store() -> None:
    metrics = Metrics()
    assert "turnwise_inbox_messages" not in await numbers(metrics), "nobody said whose"
    metrics.attach(runner())
    metrics.attach(runner())
    told = await numbers(metrics)
    assert [told[f"turnwise_inbox_{name}"] for name in ("messages", "sessions", "longest")] == [7, 3, 4]


async def test_stuck_threads_of_guardrails_are_counted() -> None:
    metrics = Metrics()
    assert (await numbers(metrics))["turnwise_guardrail_threads_stuck"] == 0
    metrics.attach(runner(stuck=3))
    assert (await numbers(metrics))["turnwise_guardrail_threads_stuck"] == 3


async def test_decisions_of_experiments_and_shadows_are_counted() -> None:
    """H6, H7"""
    metrics = Metrics()
    metrics.attach(runner())
    await metrics.selected(KEY, chose(experiment="trial", arm="b"))
    found = await numbers(metrics)
    assert found['turnwise_experiment_decisions_total{arm="b",experiment="trial",outcome="chosen"}'] == 1
    assert found['turnwise_shadow_decisions_total{result="decided"}'] == 2
    assert found['turnwise_shadow_decisions_total{result="dropped"}'] == 1


async def test_a_store_that_is_away_takes_only_its_own_numbers_along() -> None:
    metrics = Metrics()
    metrics.attach(runner(StoreUnavailable("away")))
    metrics.count_error("store.unavailable")
    told = await numbers(metrics)
    assert "turnwise_inbox_messages" not in told
    assert told['turnwise_errors_total{code="store.unavailable"}'] == 1


async def test_two_apps_in_a_process_do_not_meet() -> None:
    one, two = Metrics(), Metrics()
    one.count_error("store")
    assert 'turnwise_errors_total{code="store"}' not in await numbers(two)


async def test_both_formats_can_be_read() -> None:
    metrics = Metrics()
    await metrics.selected(KEY, chose())
    plain, kind = await metrics.render()
    assert kind.startswith("text/plain")
    assert b"_created" not in plain
    body, kind = await metrics.render("application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text")
    read: Any = openmetrics.text_string_to_metric_families
    families = {family.name for family in read(body.decode())}
    assert {"turnwise_selections", "turnwise_build", "process_cpu_seconds"} <= families
    for odd in ("text/plain;version=a.b", "application/openmetrics-text; version=1.x", "text/plain;version=", ";;=,"):
        assert (await metrics.render(odd))[0].startswith(b"# HELP"), "whatever somebody accepts"
