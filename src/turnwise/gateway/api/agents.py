"""Routes that list and show the agents that the caller may use."""

from typing import Annotated

from fastapi import Query, Request

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router, link
from turnwise.gateway.api.parameters import AgentId, Limit
from turnwise.gateway.api.representations import agent_details
from turnwise.gateway.front import TheServices, redactor_of
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
