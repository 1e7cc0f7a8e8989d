"""Flows for programs: what a flow is made of, and how a run of it stands."""

from collections.abc import Sequence
from typing import Any

from turnwise.flows.record import FlowRecord, TaskRecord, TurnRecord, Unplanned
from turnwise.flows.tasks.graph import Graph


def made_data(flow: str, graph: Graph | None, agents: Sequence[str] = ()) -> dict[str, Any]:
    """A flow's tasks in the order in which they can be done; None when each run plans its own. agents: who may do those that
    name nobody.
    """
    return {"flow": flow, "tasks": None if graph is None else [_task(graph, name, agents) for name in graph.order]}


def run_data(run: FlowRecord | Unplanned) -> dict[str, Any]:
    """How a run stands: its tasks, its turns, and its end; `end` is null while it goes on or waits."""
    told: dict[str, Any] = {"flow": run.flow, "invocation_id": run.invocation_id, "end": run.end, "detail": run.detail}
    if isinstance(run, Unplanned):
        asked = [{"agent": run.asked_by, "question": run.question}] if run.question is not None else []
        return {**told, "answer": "", "tasks": None, "turns": [], "questions": asked}
    return {
        **told,
        "answer": run.answer,
        "tasks": [_done(task) for task in run.tasks.values()],
        "turns": [_turn(turn) for turn in run.turns],
        "questions": [{"agent": turn.agent, "question": turn.question} for turn in run.at_work if turn.question is not None],
    }


def _task(graph: Graph, name: str, agents: Sequence[str]) -> dict[str, Any]:
    task = graph.tasks[name]
    return {
        "name": name,
        "objective": task.objective,
        "agents": list(task.agent_names or agents),
        "needs": list(graph.needs[name]),
        "run_if": task.run_if,
        "interactive": task.interactive,
    }


def _done(task: TaskRecord) -> dict[str, Any]:
    return {**task._asdict(), "status": task.status.value, "turns": list(task.turns)}


def _turn(turn: TurnRecord) -> dict[str, Any]:
    return {**turn._asdict(), "tasks": list(turn.tasks)}
