"""Routes of the review: claims, labels of several decisions at once, and the log of a decision's labels."""

import secrets
from typing import Annotated

from fastapi import Query, Request, Response

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router
from turnwise.gateway.api.parameters import Sequence, SessionId, UserServices
from turnwise.gateway.api.representations import decision_row
from turnwise.gateway.front import TheServices, redactor_of
from turnwise.gateway.services.decisions import DecisionPlace
from turnwise.learning.label_signals import SIGNALS
from turnwise.learning.review import RANDOM_SHARE
from turnwise.wire.labels import (
    ClaimShown,
    DecisionLabels,
    DecisionSignals,
    LabelChangeShown,
    LabelDecisions,
    LabelShown,
    QueuedDecision,
    ReviewQueue,
    SignalShown,
)
from turnwise.wire.messages import MOST_ROWS

router = api_router("decisions")
_AT = "/sessions/{session_id}/decisions/{sequence}"


@router.put(
    f"{_AT}/claim",
    summary="Claim a decision",
    response_model=ClaimShown,
    response_description="The claim that holds.",
    responses=problems(404),
)
async def claim_decision(session_id: SessionId, sequence: Sequence, request: Request, services: UserServices) -> ClaimShown:
    """Claims the review of a decision for two minutes; claiming it again extends the claim. Needs the permission
    `decisions:label`.

    If another reviewer has it, nothing changes, and the response is that reviewer's claim.
    """
    claim = await services.reviews.claim(session_id, sequence)
    mine = claim.reviewer == request.state.caller.id
    return ClaimShown(reviewer=claim.reviewer, seconds=claim.seconds, mine=mine)


@router.delete(
    f"{_AT}/claim",
    summary="Release a claim",
    status_code=204,
    response_class=Response,
    response_description="The caller has no claim.",
    responses=problems(),
)
async def unclaim_decision(session_id: SessionId, sequence: Sequence, services: UserServices) -> None:
    """Releases the caller's claim of a decision. Idempotent."""
    await services.reviews.unclaim(session_id, sequence)


@router.get(
    f"{_AT}/labels",
    summary="List a decision's labels",
    response_model=DecisionLabels,
    response_description="The labels and their changes.",
    responses=problems(),
)
async def list_labels(session_id: SessionId, sequence: Sequence, services: UserServices) -> DecisionLabels:
    """Lists who labelled a decision and how, and all changes, oldest first. Needs the permission `decisions:label`."""
    labels, changes = await services.reviews.labels(session_id, sequence)
    return DecisionLabels(
        labels=[LabelShown.of(each.label) for each in labels],
        changes=[
            LabelChangeShown(
                at=each.at,
                actor=each.actor,
                before=LabelShown.of(each.before) if each.before else None,
                after=LabelShown.of(each.after) if each.after else None,
            )
            for each in changes
        ],
    )


@router.get(
    f"{_AT}/signals",
    summary="List a decision's signals",
    response_model=DecisionSignals,
    response_description="The signals.",
    responses=problems(404),
)
async def list_signals(session_id: SessionId, sequence: Sequence, services: UserServices) -> DecisionSignals:
    """Lists what followed a decision in its conversation, such as a correction or thanks: what `turnwise decisions signals`
    labels it by. Needs the permission `decisions:label`.

    Reads 200 events before the decision and 1,000 after it.
    """
    found = await services.reviews.signals(session_id, sequence)
    effects = [(each, SIGNALS[each.signal]) for each in found]
    shown = [
        SignalShown(signal=each.signal, says=effect.says, agent=each.agent, weight=effect.weight, about=effect.about)
        for each, effect in effects
    ]
    return DecisionSignals(signals=shown)


@router.get(
    "/review-queue",
    summary="List decisions to review",
    response_model=ReviewQueue,
    response_description="The decisions, in the order of review.",
    responses=problems(),
)
async def list_review_queue(
    request: Request,
    services: TheServices,
    size: Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many decisions.")] = 50,
    random: Annotated[
        float, Query(ge=0, le=1, allow_inf_nan=False, description="The share of decisions that are drawn at random.")
    ] = RANDOM_SHARE,
    seed: Annotated[
        int | None, Query(ge=0, le=2**31, description="The seed of the draw. Without it, each request draws anew.")
    ] = None,
    of: Annotated[int, Query(ge=1, le=10_000, description="How many decisions are read, the newest ones.")] = 2_000,
) -> ReviewQueue:
    """Lists the decisions to label next: the most contradicted, then the most doubtful, and some at random among them.

    Accuracy is estimated from the random ones, so hand `picked` and `probability` over with their labels. Decisions that an
    operator labelled are left out. Needs the permission `decisions:label` for all users.
    """
    drawn = secrets.randbelow(2**31) if seed is None else seed
    found, view = await services.reviews.queue(size=size, share=random, seed=drawn, limit=of), redactor_of(request)
    queue = [
        QueuedDecision(
            decision=decision_row(each.decision, view), picked=each.picked, doubt=each.doubt, probability=each.probability
        )
        for each in found
    ]
    return ReviewQueue(queue=queue)


@router.post(
    "/decision-labels",
    summary="Label decisions",
    status_code=204,
    response_class=Response,
    response_description="The labels are stored.",
    responses=problems(404, body=True),
)
async def label_decisions(body: LabelDecisions, services: TheServices) -> None:
    """Gives several decisions the same label, such as those for equal messages. Needs the permission `decisions:label`.

    A label of `null` removes the labels of all operators. The request is idempotent.
    """
    places = [
        DecisionPlace(each.user, each.session_id, each.sequence, each.picked, each.probability) for each in body.decisions
    ]
    await services.reviews.label(places, body.agent, note=body.note, unsure=body.unsure)
