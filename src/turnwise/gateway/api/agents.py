"""Routes that show the agents that the caller may use, the plans of flows, and the weaknesses of agents' cards."""

from typing import Annotated

from fastapi import Query, Request

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import AgentId, Limit
from turnwise.gateway.api.representations import agent_details
from turnwise.gateway.front import TheServices, redactor_of
from turnwise.gateway.openapi import api_router, link
from turnwise.gateway.services.agents import TaskPlace
from turnwise.wire.definitions import FlowPlanShown, LintReportShown, PlannedTaskShown
from turnwise.wire.messages import PLAIN
from turnwise.wire.resources import AgentPage, AgentShown

router = api_router("agents")


@router.get(
    "/agents",
    summary="List agents",
    response_model=AgentPage,
    response_description="A page of agents, in the tree's order.",
    responses={
        **problems(),
        200: {
            "links": {
                "agent": link("get_agent", "The first agent of the page.", {"agent_name": "$response.body#/agents/0/name"})
            }
        },
    },
)
async def list_agents(
    request: Request,
    services: TheServices,
    after: Annotated[str | None, Query(max_length=64, pattern=PLAIN, description="The `next` of the previous page.")] = None,
    limit: Limit = 50,
) -> AgentPage:
    """Lists the agents that the caller may use, in the tree's order.

    Agents that the caller may not use are left out. Only operators and admins see an agent's matching data (patterns
    and examples).
    """
    page, next_ = services.agents.page(after=after, limit=limit)
    view = redactor_of(request)
    return AgentPage(agents=[agent_details(known, view) for known in page], next=next_)


@router.get(
    "/agents/{agent_name:agent}",
    summary="Get an agent",
    response_model=AgentShown,
    response_description="The agent.",
    responses=problems(404),
)
async def get_agent(agent_name: AgentId, request: Request, services: TheServices) -> AgentShown:
    """Returns one agent with its parent and children. Answers 404 for an agent that the caller may not use."""
    return agent_details(services.agents.get(agent_name), redactor_of(request))


inspection_router = api_router("agents")


@inspection_router.get(
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


@inspection_router.get(
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
