"""Routes of reports on decisions."""

from typing import Annotated

from fastapi import Query

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router
from turnwise.gateway.api.parameters import Limit, Time
from turnwise.gateway.front import TheServices
from turnwise.wire.decisions import DecisionReportShown, EvaluationList, EvaluationShown

router = api_router("decisions")


@router.get(
    "/decision-report",
    summary="Report on decisions",
    response_model=DecisionReportShown,
    response_description="The report.",
    responses=problems(),
)
async def report_decisions(
    services: TheServices,
    since: Annotated[
        Time | None, Query(description="Only decisions made at this time or later. A time without a zone is UTC.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100_000, description="How many decisions are read, the newest ones.")] = 10_000,
    sample: Annotated[
        int, Query(ge=1, le=5_000, description="How many texts are grouped by meaning, drawn at random.")
    ] = 1_000,
    seed: Annotated[int, Query(ge=0, le=2**31, description="The seed of the draw.")] = 0,
) -> DecisionReportShown:
    """Reports misroutes, agents that take each other's messages, what falls to nobody, conflicts of patterns, and drift.

    The report is that of `turnwise decisions report`, and at most a minute old. Accuracy is estimated from randomly picked
    labels. Needs the permission `decisions:label` for all users.
    """
    found = await services.reports.decisions(since=since, limit=limit, sample=sample, seed=seed)
    return DecisionReportShown.model_validate(found.data())


@router.get(
    "/evaluations",
    summary="List evaluations",
    response_model=EvaluationList,
    response_description="The evaluations, newest first.",
    responses=problems(),
)
async def list_evaluations(services: TheServices, limit: Limit = 20) -> EvaluationList:
    """Lists what `turnwise eval --store` measured, newest first. Needs the permission `decisions:label`."""
    kept = await services.reports.evaluations(limit=limit)
    shown = [
        EvaluationShown.model_validate({"id": str(each.id), "at": each.at, "actor": each.actor, **each.figures})
        for each in kept
    ]
    return EvaluationList(evaluations=shown)
