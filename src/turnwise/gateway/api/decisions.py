"""Routes that search, count, follow, explain, label, rate, review and report selection decisions. Services check the rights."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response
from fastapi.sse import format_sse_event
from pydantic import JsonValue, WithJsonSchema

from turnwise.access.rights import may
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import After, Limit, Sequence, SessionId, Time, UserServices
from turnwise.gateway.api.representations import decision_details, decision_row
from turnwise.gateway.front import TheFront, TheServices, redactor_of
from turnwise.gateway.openapi import STREAM, api_router, link
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.decisions import DecisionBatch, DecisionPlace
from turnwise.gateway.sse import event_stream
from turnwise.learning.label_signals import SIGNALS
from turnwise.learning.review import RANDOM_SHARE
from turnwise.ports.decisions import DecisionCell, DecisionCounts, DecisionFilter
from turnwise.wire.decisions import (
    ClaimShown,
    DecisionLabels,
    DecisionReportShown,
    DecisionSignals,
    EvaluationList,
    EvaluationShown,
    GiveFeedback,
    LabelChangeShown,
    LabelDecision,
    LabelDecisions,
    LabelShown,
    QueuedDecision,
    ReviewQueue,
    SignalShown,
)
from turnwise.wire.messages import MOST_CHARACTERS, MOST_ROWS, PLAIN, SEGMENT
from turnwise.wire.resources import Confusion, DecisionCountsShown, DecisionPage, DecisionShown, FacetCount, TimeShown

router = api_router("decisions")
_FIRST = {"session_id": "$response.body#/decisions/0/session_id", "sequence": "$response.body#/decisions/0/sequence"}
_AT = "/sessions/{session_id}/decisions/{sequence}"
_OUTCOMES: dict[str, JsonValue] = {"type": "string", "enum": ["chosen", "clarify"], "maxLength": 7}
_ORDERS: dict[str, JsonValue] = {"type": "string", "enum": ["newest", "oldest"], "maxLength": 6}
_Order = Annotated[Literal["newest", "oldest"], WithJsonSchema(_ORDERS)]
_Outcome = Annotated[Literal["chosen", "clarify"], WithJsonSchema(_OUTCOMES)]


def _filter(
    agent: Annotated[str | None, Query(max_length=64, pattern=PLAIN, description="Only decisions for this agent.")] = None,
    method: Annotated[
        str | None,
        Query(max_length=64, pattern=PLAIN, description="Only decisions by this method.", examples=["strong_intent_match"]),
    ] = None,
    since: Annotated[
        Time | None, Query(description="Only decisions made at this time or later. A time without a zone is UTC.")
    ] = None,
    until: Annotated[Time | None, Query(description="Only decisions made before this time.")] = None,
    min_confidence: Annotated[float | None, Query(ge=0, le=1, description="The lowest confidence.")] = None,
    max_confidence: Annotated[float | None, Query(ge=0, le=1, description="The highest confidence.")] = None,
    outcome: Annotated[
        _Outcome | None,
        Query(description="`clarify`: only decisions that asked the user to choose. `chosen`: only the others."),
    ] = None,
    label: Annotated[
        str | None, Query(min_length=1, max_length=64, pattern=PLAIN, description="Only decisions with this label.")
    ] = None,
    labelled: Annotated[bool | None, Query(description="Only labelled decisions, or only unlabelled ones.")] = None,
    contradicted: Annotated[
        bool, Query(description="Only decisions whose label is another agent than the selected one.")
    ] = False,
    policy: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MOST_CHARACTERS,
            pattern=PLAIN,
            description="Only decisions by this policy: its fingerprint, or its name.",
        ),
    ] = None,
    words: Annotated[
        str,
        Query(
            max_length=MOST_CHARACTERS,
            description="Only decisions for messages with these words in their first 500 characters, in any order and case.",
        ),
    ] = "",
) -> DecisionFilter:
    """Collects the query parameters of a search into one filter."""
    return DecisionFilter(
        agent=agent,
        method=method,
        since=since,
        until=until,
        min_confidence=min_confidence,
        max_confidence=max_confidence,
        outcome=outcome,
        label=label,
        labelled=labelled,
        contradicted=contradicted,
        policy=policy,
        words=words,
    )


@router.get(
    "/decisions",
    summary="Search decisions",
    response_model=DecisionPage,
    response_description="A page of decisions.",
    responses={**problems(), 200: {"links": {"explain": link("explain_decision", "The first decision of the page.", _FIRST)}}},
)
async def search_decisions(
    request: Request,
    services: UserServices,
    filter: Annotated[DecisionFilter, Depends(_filter)],
    session_id: Annotated[
        str | None,
        Query(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="Only decisions of this session."),
    ] = None,
    slim: Annotated[bool, Query(description="Leaves out the verdicts of the selectors and the excluded agents.")] = False,
    order: Annotated[_Order, Query(description="`oldest`: the oldest decision comes first.")] = "newest",
    after: After = None,
    limit: Limit = 50,
) -> DecisionPage:
    """Lists decisions, newest first: which agent was chosen for which message, and why.

    Covers the caller's own sessions. Operators who pass neither `user` nor `session_id` get the decisions of all
    users. Filters by label need the permission `decisions:label`.

    The work for one page is bounded. With several filters a page may have fewer than `limit` decisions, or none, and a
    `next` all the same. A list ends where `next` is null.
    """
    page = await services.decisions.search(
        session=session_id, filter=filter, after=after, limit=limit, oldest_first=order == "oldest"
    )
    view, shown = redactor_of(request), decision_row if slim else decision_details
    return DecisionPage(decisions=[shown(each, view) for each in page.items], next=page.next)


@router.get(
    "/decision-counts",
    summary="Count decisions",
    response_model=DecisionCountsShown,
    response_description="The numbers of the newest decisions.",
    responses=problems(),
)
async def count_decisions(
    request: Request, services: UserServices, filter: Annotated[DecisionFilter, Depends(_filter)]
) -> DecisionCountsShown:
    """Counts decisions by agent, method, outcome, confidence, policy and time; for the same users as the search.

    Examines the newest 10,000 decisions: those of `agent` or `method` if one is given, else all. `words` does not apply.
    """
    counted = await services.decisions.count(filter)
    return _counts(counted, redactor_of(request), labels=may(request.state.caller, "decisions:label"))


@router.get(
    "/decision-stream",
    summary="Follow decisions",
    response_class=Response,
    response_description="Server-sent events: `following`, then a `decision` for each new one.",
    responses={**problems(), 200: {"content": STREAM}},
)
async def follow_decisions(request: Request, front: TheFront, services: UserServices) -> Response:
    """Streams the decisions that are made from now on, in any process, for the same users as the search.

    The first event, `following`, says that the stream has begun. Each other one is a decision as in the search with
    `slim=true`. A reader that falls behind misses decisions.
    """
    view, user = redactor_of(request), services.decisions.followed_user()

    def write(batch: DecisionBatch | None) -> bytes:
        if batch is None:
            return format_sse_event(event="following", data_str="{}")
        return batch.written(view.sees, lambda each: _written(decision_row(each, view)))

    followed, ping = front.state.decision_feed.follow(user), front.config.stream_ping_seconds
    return event_stream(followed, write, ping=ping, closing=front.closing, hint=b"event: closing\ndata: {}\n\n")


def _written(shown: DecisionShown) -> bytes:
    return format_sse_event(event="decision", data_str=shown.model_dump_json())


@router.get(
    _AT,
    summary="Explain a decision",
    response_model=DecisionShown,
    response_description="The decision with the verdict of every selector.",
    responses=problems(404),
)
async def explain_decision(
    session_id: SessionId, sequence: Sequence, request: Request, services: UserServices
) -> DecisionShown:
    """Returns why an agent was chosen: the verdict of every selector in call order, and the agents that rules excluded."""
    return decision_details(await services.decisions.find(session_id, sequence), redactor_of(request))


@router.put(
    f"{_AT}/label",
    summary="Label a decision",
    status_code=204,
    response_class=Response,
    response_description="The label is stored.",
    responses=problems(404, body=True),
)
async def label_decision(session_id: SessionId, sequence: Sequence, body: LabelDecision, services: UserServices) -> None:
    """Stores which agent should have been chosen, for evaluating selection policies. Needs the permission
    `decisions:label`.

    A label of `null` removes the label. The session's log does not change.
    """
    await services.decisions.label(session_id, sequence, body.agent)


@router.post(
    f"{_AT}/feedback",
    summary="Rate a decision",
    status_code=204,
    response_class=Response,
    response_description="The rating is stored.",
    responses=problems(404, body=True),
)
async def rate_decision(session_id: SessionId, sequence: Sequence, body: GiveFeedback, services: UserServices) -> None:
    """Stores whether the right agent answered, as the session's user says. Needs the permission `messages:write`, so nobody
    rates the decisions of another user's session.

    One credential has one rating for each decision; a new one replaces it, and `null` takes it back. Operators' labels come
    before ratings, and no user, session or credential gives more than a tenth of all labels that count (or five).
    """
    await services.decisions.rate(session_id, sequence, body.rating, body.agent)


def _counts(counted: DecisionCounts, view: Redactor, *, labels: bool) -> DecisionCountsShown:
    """Returns the sums. Without `labels` there is no label among them."""
    cells = counted.cells
    confused: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if labels and cell.label and cell.label != cell.agent:
            confused[cell.agent, cell.label] += cell.count
    return DecisionCountsShown(
        total=sum(cell.count for cell in cells),
        examined=counted.examined,
        complete=counted.complete,
        agents=_facet((cell for cell in cells if view.reaches(cell.agent)), lambda cell: cell.agent, labels),
        methods=_facet(cells, lambda cell: cell.method, labels),
        outcomes=_facet(cells, lambda cell: cell.outcome, labels),
        confidence=sorted(_facet(cells, lambda cell: str(cell.tenth), labels), key=lambda each: each.name),
        policies=_facet(cells, lambda cell: cell.policy, labels),
        confusions=[Confusion(agent=agent, label=label, count=n) for (agent, label), n in confused.most_common(50)],
        seconds=counted.seconds,
        times=[TimeShown(start=each.start, count=each.count, clarified=each.clarified) for each in counted.times],
    )


def _facet(cells: Iterable[DecisionCell], name_of: Callable[[DecisionCell], str], labels: bool) -> list[FacetCount]:
    """Returns the sums by name, the most frequent first."""
    found: dict[str, FacetCount] = {}
    for cell in cells:
        sums = found.setdefault(name_of(cell), FacetCount(name=name_of(cell), count=0))
        sums.count += cell.count
        sums.clarified += cell.count if cell.outcome == "clarify" else 0
        if labels and cell.label is not None:
            sums.labelled += cell.count
            sums.contradicted += cell.count if cell.label != cell.agent else 0
    return sorted(found.values(), key=lambda each: (-each.count, each.name))


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
