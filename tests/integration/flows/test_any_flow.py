"""Whatever the tasks are, and whatever their agents do, a flow ends, and its log tells how (D1 to D4, D10, D11, D13)."""

import asyncio
from collections.abc import Sequence

from flow_play import closings, ended
from hypothesis import HealthCheck, given, settings
from random_flow_play import UNTIL, Plan, build, plans
from runner_play import ask, direct, reason, soon

from turnwise import Limits, RunConfig, Runner, SqlSessionStore
from turnwise.facts.events import Event
from turnwise.flows.flow import Flow
from turnwise.flows.logged import task_end_of
from turnwise.flows.tasks import Status, initial_progress, with_task_ended
from turnwise.runner import Result

CODES = {"failed": "agent.flow_failed", "limit:turns": "limit", "limit:model_calls": "limit"}


async def run(flow: Flow) -> Result:
    config = RunConfig(limits=Limits(events=3_000))
    runner = Runner(flow, store=SqlSessionStore("sqlite://"), config=config)
    try:
        return await soon(ask(runner, "go", context=direct("flow")))
    finally:
        await runner.close()


def told_in_order(flow: Flow, events: Sequence[Event]) -> dict[str, Status]:
    """Reads the log once, as the flow went: who was chosen for which tasks, and what became of these."""
    progress = initial_progress(flow.graph)
    turns = 0
    for event in events:
        chosen = event.actions.selection
        if event.author == "flow" and chosen is not None:
            turns += 1
            assert chosen.reason, "a choice without a reason"
            assert chosen.verdicts[0].outcome == "chosen"
            tasks = [label.removeprefix("flow/") for label in event.scope]
            assert tasks
            for task in tasks:
                assert task in progress.ready
                assert chosen.agent in flow.graph.tasks[task].agent_names
                assert all(need in progress.task_ends for need in flow.graph.needs[task]), (
                    "it ran before what it needs was done"
                )
        closing = task_end_of(event)
        if closing is not None:
            assert progress.statuses[closing.task] is Status.PENDING, "it ended twice"
            assert closing.turn <= turns
            progress = with_task_ended(flow.graph, progress, closing)
    assert ended(events)["turns"] == turns
    return dict(progress.statuses)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_it_ends_and_its_log_tells_how(plan: Plan) -> None:
    flow = build(plan)
    result = asyncio.run(run(flow))
    told = ended(result.events)
    if told["reason"] == "complete":
        assert reason(result) == "completed"
    else:
        assert (reason(result), result.error and result.error.code) == (told["reason"], CODES[told["reason"]])
    if UNTIL[plan.until]() is None and not told["reason"].startswith("limit"):
        assert all(Status(task["status"]).is_complete for task in told["tasks"].values())
    read = told_in_order(flow, result.events)
    assert {name: task["status"] for name, task in told["tasks"].items()} == read, "the log tells something else"
    for name, task in flow.graph.tasks.items():
        lost = [need for need in flow.graph.needs[name] if read[need] in (Status.FAILED, Status.SKIPPED)]
        if lost and task.run_if == "success":
            assert (read[name], name in closings(result.events)) == (Status.SKIPPED, False), f"{name} ran after {lost}"
