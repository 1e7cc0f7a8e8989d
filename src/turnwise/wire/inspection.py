"""The bodies of the native API about the plan of a flow and the weaknesses of agents' cards."""

from typing import Literal

from pydantic import BaseModel


class PlannedTaskShown(BaseModel):
    """A task of a flow. `needs` must be complete before it; `agents` may do it."""

    name: str
    objective: str
    agents: list[str]
    needs: list[str]
    parent: str | None = None
    run_if: Literal["success", "always"]
    interactive: bool


class FlowPlanShown(BaseModel):
    """The plan of a flow. `tasks` is null for a flow that plans each run; `drawing` is null if there is nothing to draw."""

    flow: str
    tasks: list[PlannedTaskShown] | None
    drawing: str | None


class LintFindingShown(BaseModel):
    """A weakness of agents' cards."""

    code: str
    severity: Literal["error", "warning", "note"]
    agents: list[str]
    problem: str
    evidence: list[str]
    fix: str


class LintReportShown(BaseModel):
    """Lint's findings in the agents that serve, errors first. `by_meaning` tells whether examples were compared by meaning."""

    agents: int
    findings: list[LintFindingShown]
    by_meaning: bool
