"""Metrics of messages that are really answered."""

import asyncio
from collections.abc import Callable

from runner_play import Gate, ask, soon
from telemetry_play import TO_FRONT, helpdesk, numbers

from turnwise import (
    AgentContext,
    Event,
    Limits,
    RunConfig,
    Runner,
    agent,
)
from turnwise.facts.sessions import SessionKey
from turnwise.telemetry.metrics import Metrics
from turnwise.testing.fakes import RecordingHooks

Make = Callable[..., Runner]


class Told(RecordingHooks):
    """Knows when the first piece of an answer was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.shows = asyncio.Event()

    async def shown(self, key: SessionKey, event: Event) -> None:
        self.pieces.append(event.text)
        self.shows.set()


async def test_the_numbers_of_a_conversation(make_runner: Make) -> None:
    """C15: selections by agent, method and confidence, how messages ended, and what models took."""
    metrics = Metrics()
    runner = make_runner(helpdesk(), hooks=[metrics])
    metrics.attach(runner)
    await ask(runner, "hi", **TO_FRONT)
    told = await numbers(metrics)
    assert told['turnwise_selections_total{agent="front",method="direct_routing",outcome="chosen"}'] == 1
    assert told['turnwise_selection_confidence_bucket{le="0.9",method="direct_routing"}'] == 0
    assert told['turnwise_selection_confidence_bucket{le="1.0",method="direct_routing"}'] == 1
    assert told["turnwise_selection_seconds_count"] == 1
    assert told['turnwise_selector_seconds_count{selector="direct"}'] == 1
    assert told['turnwise_invocations_total{end="completed"}'] == 1
    assert told['turnwise_invocation_seconds_count{end="completed"}'] == 1
    assert told["turnwise_first_words_seconds_count"] == 1
    assert told['turnwise_model_calls_total{model="scripted:model"}'] == 2
    assert told['turnwise_model_tokens_total{kind="input",model="openai:gpt-5"}'] == 100
    assert told['turnwise_model_tokens_total{kind="cached_input",model="openai:gpt-5"}'] == 40
    assert told['turnwise_model_tokens_total{kind="output",model="openai:gpt-5"}'] == 20
    assert told['turnwise_model_cost_dollars_total{model="openai:gpt-5"}'] == 0.25
    assert told['turnwise_model_call_seconds_sum{model="openai:gpt-5"}'] == 2
    assert told["turnwise_invocations_running"] == 0
    (build,) = (name for name in told if name.startswith("turnwise_build_info"))
    assert 'app="app"' in build


async def test_what_runs_and_what_waits_is_counted(make_runner: Make) -> None:
    """A32"""
    gate, metrics = Gate(), Metrics()
    runner = make_runner(gate.agent, hooks=[metrics])
    metrics.attach(runner)
    running = [await runner.start(str(n), user="ada", session="s") for n in range(3)]
    await gate.began.wait()
    told = await numbers(metrics)
    waiting = ("turnwise_inbox_messages", "turnwise_inbox_sessions", "turnwise_inbox_longest")
    assert told["turnwise_invocations_running"] == 1
    assert [told[name] for name in waiting] == [2, 1, 2]
    gate.go.set()
    for invocation in running:
        await invocation.result()
    told = await numbers(metrics)
    assert [told[name] for name in waiting] == [0, 0, 0]


async def test_errors_and_ends_are_counted_by_their_codes(make_runner: Make) -> None:
    metrics = Metrics()

    @agent
    async def bad() -> str:
        raise ValueError("no")

    @agent
    async def endless() -> str:
        await asyncio.Event().wait()
        return ""

    await ask(make_runner(bad, hooks=[metrics]), "hi")
    config = RunConfig(deadline_seconds=0.01, limits=Limits(grace_seconds=0))
    await ask(make_runner(endless, hooks=[metrics]), "hi", config=config)
    told = await numbers(metrics)
    assert told['turnwise_errors_total{code="agent.failed"}'] == 1
    assert told['turnwise_invocations_total{end="failed"}'] == 1
    assert told['turnwise_invocations_total{end="limit:invocation_seconds"}'] == 1


async def test_the_first_words_are_those_that_are_shown(make_runner: Make) -> None:
    """A19: a piece counts before the whole is stored; where no pieces are wanted, the whole does."""
    seconds = iter(range(100))
    metrics, told, go_on = Metrics(clock=lambda: next(seconds)), Told(), asyncio.Event()

    @agent
    async def slow(context: AgentContext) -> None:
        async with context.stream() as stream:
            await stream.write("first ")
            await go_on.wait()
            await stream.write("words")

    invocation = await make_runner(slow, hooks=[metrics, told]).start("hi", user="ada", session="s")
    await soon(told.shows.wait())
    assert (await numbers(metrics))["turnwise_first_words_seconds_sum"] == 1
    go_on.set()
    await invocation.result()
    found = await numbers(metrics)
    assert (found["turnwise_first_words_seconds_count"], found["turnwise_first_words_seconds_sum"]) == (1, 1)
    assert found['turnwise_invocation_seconds_sum{end="completed"}'] == 2
    assert told.pieces == ["first "], "the others are nobody's business"
