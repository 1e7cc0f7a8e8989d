"""A flow's run from its design to its last word, and what that is: an answer, or why there is none (behaviours D10, D11)."""

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
from turnwise.flows.turns.briefs import as_words
from turnwise.ports.context import AgentContext

TOLD = 10
"""So many tasks are named in an error."""
_FAILED = "failed"


class RunResult(NamedTuple):
    """What a run came to: why it ended, in one word, its answer, and what there is to raise."""

    reason: str
    answer: str = ""
    problem: FlowFailed | FlowStuck | LimitReached | None = None


def judge_run(graph: Graph, ending: RunEnding) -> RunResult:
    """A flow's answer is the result of the tasks that no other needs: one as it is, several under their names. It has failed
    when one of these did not succeed.
    """
    unfinished = interrupted_result(graph, ending)
    if unfinished is not None:
        return unfinished
    lost = (Status.FAILED, Status.SKIPPED)
    failed = [name for name in _ends(graph, ending.progress) if ending.progress.statuses[name] in lost]
    if failed or ending.reason == _FAILED:
        return failed_result(graph, ending, failed or graph.order)
    found = results(graph, ending.progress)
    if len(found) == 1:
        return RunResult(ending.reason, next(iter(found.values())))
    return RunResult(ending.reason, "\n\n".join(f"{task}: {text}" for task, text in found.items()))


def interrupted_result(graph: Graph, ending: RunEnding) -> RunResult | None:
    """What a run came to that did not come to its end: it is stuck, or reached a limit; None when it did."""
    if ending.reason.startswith(LIMIT):
        which = ending.reason.removeprefix(LIMIT)
        problem = f"The flow {graph.flow!r} came to no end in {ending.turns} turns."
        fix = "Give the flow more of them, or see in the log what its agents did with theirs."
        return RunResult(ending.reason, problem=LimitReached(which, problem, fix=fix))
    if ending.reason == STUCK:
        ready = _several([repr(name) for name in ending.progress.ready], ", ")
        stuck = f"Nobody whom the caller may reach does what is ready in the flow {graph.flow!r}: {ready}."
        return RunResult(STUCK, problem=FlowStuck(stuck, fix="Enable one of its agents, or give the caller a role for one."))
    return None


def failed_result(graph: Graph, ending: RunEnding, tasks: Sequence[str]) -> RunResult:
    """That it failed, because of those of these tasks, and of what is upstream of them, that failed."""
    meant, closings = graph.upstream(tasks), ending.progress.closings
    failed = [closings[name] for name in graph.order if name in meant and _has_failed(ending.progress, name)]
    why = _several([f"{each.task!r} failed{f': {each.reason}' if each.reason else ''}" for each in failed], "; ")
    return RunResult(_FAILED, problem=FlowFailed(f"The flow {graph.flow!r} did not get done{f': {why}' if why else '.'}"))


def results(graph: Graph, progress: Progress) -> Mapping[str, str]:
    """The results of the tasks that no other needs, of those that succeeded, in words."""
    done = {task: progress.closings[task] for task in _ends(graph, progress) if task in progress.closings}
    return {task: as_words(closing.result) for task, closing in done.items() if closing.status is Status.SUCCESSFUL}


def _ends(graph: Graph, progress: Progress) -> Sequence[str]:
    """The tasks that no other needs, of those that were to be done."""
    there = progress.statuses
    return [name for name in graph.order if name in there and not any(other in there for other in graph.needed_by[name])]


async def run_design(
    design: Design, context: AgentContext, judge: Callable[[Graph, RunEnding], RunResult] = judge_run
) -> AsyncIterator[Event]:
    """Runs the flow whose turn this is, with that design; gives its last word, and raises what `judge` finds there to raise."""
    ending = await Controller(design, context).run()
    judgement = judge(design.graph, ending)
    told = _told(design.graph.flow, judgement.reason, ending)
    yield context.event(flow_content(judgement.answer, told), end=None if judgement.problem else End())
    if judgement.problem is not None:
        raise judgement.problem


def _several(told: Sequence[str], between: str) -> str:
    more = f"{between}and {len(told) - TOLD} more" if len(told) > TOLD else ""
    return between.join(told[:TOLD]) + more


def _has_failed(progress: Progress, task: str) -> bool:
    return task in progress.closings and progress.closings[task].status is Status.FAILED


def _told(flow: str, reason: str, ending: RunEnding) -> dict[str, JsonValue]:
    tasks: Mapping[str, Any] = {
        name: {"status": str(status), **_detail(ending.progress, name)} for name, status in ending.progress.statuses.items()
    }
    return {"flow": flow, "reason": reason, "turns": ending.turns, "model_calls": ending.model_calls, "tasks": dict(tasks)}


def _detail(progress: Progress, task: str) -> dict[str, JsonValue]:
    closing = progress.closings.get(task)
    return {"reason": closing.reason} if closing is not None and closing.reason else {}
