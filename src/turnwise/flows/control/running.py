"""Runs a flow from its design to its final event: the answer, or the error (behaviours D10, D11)."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.errors import FlowFailed, FlowStuck, LimitReached
from turnwise.facts.events import LIMIT, End, Event
from turnwise.flows.control.controller import STUCK, Controller, RunEnding
from turnwise.flows.control.logged import flow_content
from turnwise.flows.design import Design
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.progress import Progress
from turnwise.flows.tasks.task import Status
from turnwise.flows.turns.briefs import result_text
from turnwise.ports.context import AgentContext

TASKS_SHOWN = 10
"""The most tasks that an error names."""
_FAILED = "failed"


class RunResult(NamedTuple):
    """The result of a run."""

    reason: str
    """The reason why it ended, in one word."""
    answer: str = ""
    problem: FlowFailed | FlowStuck | LimitReached | None = None
    """The error to raise; None if there is none."""


def judge_run(graph: Graph, ending: RunEnding) -> RunResult:
    """Returns the result of a run: the results of the tasks that no other task needs.

    One result is returned unchanged, several with the tasks' names. The flow has failed if one of these tasks did not
    succeed.
    """
    unfinished = interrupted_result(graph, ending)
    if unfinished is not None:
        return unfinished
    unsuccessful = (Status.FAILED, Status.SKIPPED)
    failed = [name for name in _final_tasks(graph, ending.progress) if ending.progress.statuses[name] in unsuccessful]
    if failed or ending.reason == _FAILED:
        return failed_result(graph, ending, failed or graph.order)
    texts = results(graph, ending.progress)
    if len(texts) == 1:
        return RunResult(ending.reason, next(iter(texts.values())))
    return RunResult(ending.reason, "\n\n".join(f"{task}: {text}" for task, text in texts.items()))


def interrupted_result(graph: Graph, ending: RunEnding) -> RunResult | None:
    """Returns the result of a run that is stuck or has reached a limit; None if it came to its end."""
    if ending.reason.startswith(LIMIT):
        which = ending.reason.removeprefix(LIMIT)
        problem = f"The flow {graph.flow!r} came to no end in {ending.turns} turns."
        fix = "Give the flow more of them, or see in the log what its agents did with theirs."
        return RunResult(ending.reason, problem=LimitReached(which, problem, fix=fix))
    if ending.reason == STUCK:
        ready = _joined([repr(name) for name in ending.progress.ready], ", ")
        stuck = f"No agent that the caller may reach can do the ready tasks of the flow {graph.flow!r}: {ready}."
        return RunResult(STUCK, problem=FlowStuck(stuck, fix="Enable one of its agents, or give the caller a role for one."))
    return None


def failed_result(graph: Graph, ending: RunEnding, tasks: Sequence[str]) -> RunResult:
    """Returns the failed result. It names the failed tasks among these and upstream of them."""
    relevant, task_ends = graph.upstream(tasks), ending.progress.task_ends
    failed = [task_ends[name] for name in graph.order if name in relevant and _has_failed(ending.progress, name)]
    reasons = _joined([f"{each.task!r} failed{f': {each.reason}' if each.reason else ''}" for each in failed], "; ")
    return RunResult(
        _FAILED, problem=FlowFailed(f"The flow {graph.flow!r} did not get done{f': {reasons}' if reasons else '.'}")
    )


def results(graph: Graph, progress: Progress) -> Mapping[str, str]:
    """Returns the results, as text, of the successful tasks that no other task needs."""
    done = {task: progress.task_ends[task] for task in _final_tasks(graph, progress) if task in progress.task_ends}
    return {task: result_text(task_end.result) for task, task_end in done.items() if task_end.status is Status.SUCCESSFUL}


def _final_tasks(graph: Graph, progress: Progress) -> Sequence[str]:
    """Returns the tasks to be done that no other such task needs."""
    statuses = progress.statuses
    return [name for name in graph.order if name in statuses and not any(other in statuses for other in graph.needed_by[name])]


async def run_design(
    design: Design, context: AgentContext, judge: Callable[[Graph, RunEnding], RunResult] = judge_run
) -> AsyncIterator[Event]:
    """Runs the flow with that design and yields its final event.

    Raises:
        FlowFailed, FlowStuck, LimitReached: The error in the result of `judge`.
    """
    ending = await Controller(design, context).run()
    result = judge(design.graph, ending)
    data = _flow_data(design.graph.flow, result.reason, ending)
    yield context.event(flow_content(result.answer, data), end=None if result.problem else End())
    if result.problem is not None:
        raise result.problem


def _joined(items: Sequence[str], separator: str) -> str:
    more = f"{separator}and {len(items) - TASKS_SHOWN} more" if len(items) > TASKS_SHOWN else ""
    return separator.join(items[:TASKS_SHOWN]) + more


def _has_failed(progress: Progress, task: str) -> bool:
    return task in progress.task_ends and progress.task_ends[task].status is Status.FAILED


def _flow_data(flow: str, reason: str, ending: RunEnding) -> dict[str, JsonValue]:
    tasks: Mapping[str, Any] = {
        name: {"status": str(status), **_reason_data(ending.progress, name)}
        for name, status in ending.progress.statuses.items()
    }
    return {"flow": flow, "reason": reason, "turns": ending.turns, "model_calls": ending.model_calls, "tasks": dict(tasks)}


def _reason_data(progress: Progress, task: str) -> dict[str, JsonValue]:
    task_end = progress.task_ends.get(task)
    return {"reason": task_end.reason} if task_end is not None and task_end.reason else {}
