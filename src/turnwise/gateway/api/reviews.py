"""Routes of the review: claims, labels of several decisions at once, and the log of a decision's labels."""

from fastapi import Request, Response

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.openapi import api_router
from turnwise.gateway.api.parameters import Sequence, SessionId, UserServices
from turnwise.gateway.front import TheServices
from turnwise.gateway.services.reviews import DecisionPlace
from turnwise.wire.labels import ClaimShown, DecisionLabels, LabelChangeShown, LabelDecisions, LabelShown

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
    places = [DecisionPlace(each.user, each.session_id, each.sequence) for each in body.decisions]
    await services.reviews.label(places, body.agent, note=body.note, unsure=body.unsure)
