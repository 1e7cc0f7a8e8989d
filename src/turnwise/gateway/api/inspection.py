"""Routes that show the plan of a flow and the weaknesses of agents' cards."""

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router
from turnwise.gateway.api.parameters import AgentId
from turnwise.gateway.front import TheServices
from turnwise.gateway.services.agents import TaskPlace
from turnwise.wire.inspection import FlowPlanShown, LintReportShown, PlannedTaskShown

router = api_router("agents")


@router.get(
    "/agents/{agent_name:agent}/plan",
    summary="Get the plan of a flow",
    response_model=FlowPlanShown,
    response_description="The plan.",
    responses=problems(404),
)
async def get_flow_plan(agent_name: AgentId, services: TheServices) -> FlowPlanShown:
    """Returns the tasks of a flow in an order in which they can be done, and an SVG drawing.

    The drawing is left out if it names agents that the caller may not use. Answers 404 for an agent that is no flow.
    """
    plan = services.plans.get(agent_name)
    tasks = None if plan.tasks is None else [_task(each) for each in plan.tasks]
    return FlowPlanShown(flow=agent_name, tasks=tasks, drawing=plan.drawing)


def _task(place: TaskPlace) -> PlannedTaskShown:
    """Returns a planned task as the API shows it."""
    task = place.task
    return PlannedTaskShown(
        name=task.name,
        objective=task.objective,
        agents=list(place.agents),
        needs=list(place.needs),
        parent=task.parent,
        run_if=task.run_if,
        interactive=task.interactive,
    )


@router.get(
    "/definitions/lint",
    summary="Lint the agents",
    response_model=LintReportShown,
    response_description="The findings.",
    responses=problems(),
)
async def lint_agents(services: TheServices) -> LintReportShown:
    """Finds what makes the agents that serve hard to tell apart, as `turnwise lint` does. No agent runs. Needs the
    permission `definitions:read`.
    """
    report = await services.linting.report()
    findings = [each.data() for each in report.findings]
    return LintReportShown.model_validate({"agents": report.agents, "findings": findings, "by_meaning": report.by_meaning})
