"""Flows: tasks that depend on each other, strategies that choose the next agent, and conditions that end a run."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.flows.flow import Flow as Flow, Task as Task
    from turnwise.flows.planned import PlannedFlow as PlannedFlow, Several as Several
    from turnwise.flows.record import FlowRecord as FlowRecord, TaskRecord as TaskRecord, TurnRecord as TurnRecord
    from turnwise.flows.strategies import (
        Moderated as Moderated,
        MostBusy as MostBusy,
        Popcorn as Popcorn,
        Random as Random,
        RoundRobin as RoundRobin,
        Single as Single,
    )
    from turnwise.flows.tasks import Status as Status
    from turnwise.flows.until import (
        AllComplete as AllComplete,
        AnyComplete as AnyComplete,
        AnyFailed as AnyFailed,
        MaxModelCalls as MaxModelCalls,
        MaxTurns as MaxTurns,
        Until as Until,
    )

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.flows.flow": "Flow Task",
        "turnwise.flows.planned": "PlannedFlow Several",
        "turnwise.flows.record": "FlowRecord TaskRecord TurnRecord",
        "turnwise.flows.strategies": "Moderated MostBusy Popcorn Random RoundRobin Single",
        "turnwise.flows.tasks": "Status",
        "turnwise.flows.until": "AllComplete AnyComplete AnyFailed MaxModelCalls MaxTurns Until",
    },
)
