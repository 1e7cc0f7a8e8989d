"""Routes of legal holds, of the audit log and of the export of a user."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import After, Limit, UserId, UserServices
from turnwise.gateway.front import TheServices, redactor_of
from turnwise.gateway.openapi import Responses, api_router
from turnwise.ports.records import AuditEntry, Hold
from turnwise.wire.messages import MOST_CHARACTERS, PLAIN
from turnwise.wire.resources import AddHold, AuditPage, AuditShown, HoldList, HoldShown

router = api_router("records")


@router.post(
    "/holds",
    summary="Add a legal hold",
    status_code=201,
    response_model=HoldShown,
    response_description="The new hold.",
    responses=problems(body=True),
)
async def add_hold(body: AddHold, services: TheServices) -> HoldShown:
    """Adds a legal hold: while it exists, nothing of the user is deleted. Needs the permission `holds:write`."""
    return _hold(await services.for_user(body.user).records.add_hold(body.reason))


@router.get(
    "/holds",
    summary="List legal holds",
    response_model=HoldList,
    response_description="The holds, oldest first.",
    responses=problems(),
)
async def list_holds(services: UserServices) -> HoldList:
    """Lists all legal holds, or those of one user. Needs the permission `audit:read`."""
    return HoldList(holds=[_hold(each) for each in await services.records.holds()])


@router.delete(
    "/holds/{hold_id}",
    summary="Remove a legal hold",
    status_code=204,
    response_class=Response,
    response_description="The hold is removed.",
    responses=problems(404),
)
async def remove_hold(
    hold_id: Annotated[str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN, description="The hold's id.")],
    services: TheServices,
) -> None:
    """Removes a legal hold. Needs the permission `holds:write`."""
    await services.records.remove_hold(hold_id)


@router.get(
    "/audit",
    summary="Read the audit log",
    response_model=AuditPage,
    response_description="A page of entries, newest first.",
    responses=problems(),
)
async def list_audit(
    services: UserServices,
    action: Annotated[
        str | None, Query(max_length=64, pattern=PLAIN, description="Only this action.", examples=["user.erased"])
    ] = None,
    after: After = None,
    limit: Limit = 50,
) -> AuditPage:
    """Lists who did what to whose data, newest first. Needs the permission `audit:read`."""
    page = await services.records.audit(action=action, after=after, limit=limit)
    return AuditPage(entries=[_entry(each) for each in page.items], next=page.next)


_ARCHIVE: Responses = {200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}}


@router.get(
    "/users/{user_id:user}/export",
    summary="Export a user's data",
    response_class=StreamingResponse,
    response_description="A ZIP archive, sent while it is made.",
    responses={**problems(), **_ARCHIVE},
)
async def export_user(user_id: UserId, request: Request, services: TheServices) -> StreamingResponse:
    """Exports all sessions, events, decisions, artifacts and state of a user as one ZIP archive of JSON Lines and files.

    Users get what the other operations show them; operators and admins get everything, and the labels. Needs the permissions
    `sessions:read`, `artifacts:read` and `decisions:read`. If an error interrupts the archive, it has no end and cannot be
    opened.
    """
    pieces = await services.for_user(user_id).records.export(redactor_of(request))
    headers = {"Content-Disposition": 'attachment; filename="export.zip"', "Cache-Control": "no-store"}
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)


def _hold(hold: Hold) -> HoldShown:
    return HoldShown(id=hold.id, user=hold.user, author=hold.author, at=hold.at, reason=hold.reason)


def _entry(entry: AuditEntry) -> AuditShown:
    """Returns an entry of the audit log as the API shows it."""
    return AuditShown(
        id=str(entry.id),
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        user=entry.user,
        session_id=entry.session,
        details=entry.details,
    )
