"""Decisions: searched, explained and labelled."""

from typing import Annotated

from fastapi import Query, Request, Response

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router, link
from turnwise.gateway.api.parameters import After, Limit, Sequence, SessionId, User
from turnwise.gateway.api.representations import decision_details
from turnwise.gateway.front import TheCaller, TheFront, redactor_of
from turnwise.wire.bounds import MOST_CHARACTERS, PLAIN, SEGMENT
from turnwise.wire.resources import DecisionPage, DecisionShown, LabelDecision

router = api_router("decisions")
_FIRST = {"session_id": "$response.body#/decisions/0/session_id", "sequence": "$response.body#/decisions/0/sequence"}


@router.get(
    "/decisions",
    summary="Search decisions",
    response_model=DecisionPage,
    response_description="A page of decisions, oldest first.",
    responses={**problems(), 200: {"links": {"explain": link("explain_decision", "The first.", _FIRST)}}},
)
async def search_decisions(
    request: Request,
    front: TheFront,
    caller: TheCaller,
    user: User = None,
    session_id: Annotated[
        str | None, Query(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="Of one session only.")
    ] = None,
    agent: Annotated[str | None, Query(max_length=64, pattern=PLAIN, description="Who was chosen.")] = None,
    method: Annotated[
        str | None, Query(max_length=64, pattern=PLAIN, description="By what.", examples=["strong_intent_match"])
    ] = None,
    after: After = None,
    limit: Limit = 50,
) -> DecisionPage:
    """Who was chosen for which message, and why: in the caller's sessions; in everybody's for operators, who name no `user`."""
    page = await front.decisions.search(
        caller, user=user, session=session_id, agent=agent, method=method, after=after, limit=limit
    )
    view = redactor_of(request)
    return DecisionPage(decisions=[decision_details(each, view) for each in page.items], next=page.next)


@router.get(
    "/sessions/{session_id}/decisions/{sequence}",
    summary="Explain a decision",
    response_model=DecisionShown,
    response_description="The decision, with every verdict on the way.",
    responses=problems(404),
)
async def explain_decision(
    session_id: SessionId, sequence: Sequence, request: Request, front: TheFront, caller: TheCaller, user: User = None
) -> DecisionShown:
    """Why that agent answered: every selector's verdict in the order they were asked, and whom the rules passed over."""
    return decision_details(await front.decisions.find(caller, session_id, sequence, user), redactor_of(request))


@router.put(
    "/sessions/{session_id}/decisions/{sequence}/label",
    summary="Label a decision",
    status_code=204,
    response_class=Response,
    response_description="It is labelled.",
    responses=problems(404, body=True),
)
async def label_decision(
    session_id: SessionId, sequence: Sequence, body: LabelDecision, front: TheFront, caller: TheCaller, user: User = None
) -> None:
    """Say who should have been chosen: operators' word, by which policies are measured. The log stays as it is."""
    await front.decisions.label(caller, session_id, sequence, body.agent, user)
