"""Routes for artifacts: files of a session, and files that all sessions of a user share."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request, Response

from turnwise.facts.errors import NoSuchRange
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import ArtifactId, Name, SessionId, UserServices
from turnwise.gateway.api.representations import artifact_details
from turnwise.gateway.openapi import api_router, link
from turnwise.gateway.shared.ranges import etag_of, is_known, part_of
from turnwise.ports.stores import Artifact
from turnwise.wire.resources import ArtifactList, ArtifactShown

router = api_router("artifacts")

_AT = "/sessions/{session_id}/artifacts/{name:path}"
_MOST_VERSION = 2**31 - 1
_ANY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
"""The response's content type is the uploaded one, which the server does not verify."""
_HEADERS = {
    "ETag": {"description": "A hash of the bytes.", "schema": {"type": "string"}},
    "Content-Disposition": {"description": "Always `attachment`.", "schema": {"type": "string"}},
}
_VERSION = Query(ge=1, le=_MOST_VERSION, description="The version; the latest if omitted.")


@router.get(
    "/sessions/{session_id}/artifacts",
    summary="List artifacts",
    response_model=ArtifactList,
    response_description="The latest version of each artifact, or all versions of one.",
    responses=problems(404),
)
async def list_artifacts(session_id: SessionId, services: UserServices, name: Name = None) -> ArtifactList:
    """Lists the artifacts of the session and of its user, sorted by name, with the latest version of each.

    With `name`, lists all versions of that artifact instead, oldest first.
    """
    if name is None:
        found = await services.artifacts.list(session_id)
    else:
        found = await services.artifacts.versions(session_id, name)
    return ArtifactList(artifacts=[artifact_details(info) for info in found])


@router.put(
    _AT,
    summary="Upload an artifact",
    status_code=201,
    response_model=ArtifactShown,
    response_description="The new version.",
    responses={
        **problems(404, body=True),
        201: {
            "links": {
                "artifact": link(
                    "get_artifact",
                    "Download the artifact.",
                    {"session_id": "$request.path.session_id", "name": "$response.body#/name"},
                )
            }
        },
    },
    openapi_extra={"requestBody": {"content": _ANY, "description": "The raw bytes."}},
)
async def put_artifact(session_id: SessionId, name: ArtifactId, request: Request, services: UserServices) -> ArtifactShown:
    """Stores the request body as a new version of the artifact, with the request's `Content-Type`.

    The version number is one above the latest. The body may have at most `limits.blob_bytes` bytes.
    """
    size = request.headers.get("content-length", "")
    info = await services.artifacts.save(
        session_id,
        name,
        request.stream(),
        mime_type=request.headers.get("content-type") or "application/octet-stream",
        size=int(size) if size.isdecimal() and len(size) < 19 else None,
    )
    return artifact_details(info)


@router.get(
    _AT,
    summary="Download an artifact",
    response_class=Response,
    response_description="The bytes as uploaded.",
    responses={
        **problems(404, 416),
        200: {"content": _BYTES, "headers": _HEADERS},
        206: {"content": _BYTES, "headers": _HEADERS, "description": "The requested range."},
        304: {"description": "The artifact is unchanged."},
    },
)
async def get_artifact(
    session_id: SessionId,
    name: ArtifactId,
    request: Request,
    services: UserServices,
    version: Annotated[int | None, _VERSION] = None,
) -> Response:
    """Downloads an artifact. Supports `Range` (a single range), `If-Range` and `If-None-Match`.

    The response is always an attachment, so browsers save the file and never display it.
    """
    artifact = await services.artifacts.load(session_id, name, version)
    data, given = artifact.data, request.headers
    headers = _headers(artifact)
    if is_known(given.get("if-none-match"), headers["ETag"]):
        return Response(None, 304, headers)
    try:
        part = part_of(given.get("range"), given.get("if-range"), len(data), headers["ETag"])
    except ValueError:
        raise NoSuchRange(
            f"The range lies outside the {len(data)} bytes.",
            fix="Omit the Range header, or request a smaller range.",
            size=len(data),
        ) from None
    if part is None:
        return Response(data, 200, headers)
    headers["Content-Range"] = f"bytes {part.begin}-{part.end - 1}/{len(data)}"
    return Response(data[part.begin : part.end], 206, headers)


@router.head(
    _AT,
    summary="Get an artifact's headers",
    response_class=Response,
    response_description="The headers of the download.",
    responses={**problems(404), 200: {"headers": _HEADERS}},
)
async def head_artifact(
    session_id: SessionId,
    name: ArtifactId,
    services: UserServices,
    version: Annotated[int | None, _VERSION] = None,
) -> Response:
    """Returns the headers of the download, including `Content-Length`, without the bytes."""
    artifact = await services.artifacts.load(session_id, name, version)
    return Response(None, 200, {**_headers(artifact), "Content-Length": str(len(artifact.data))})


@router.delete(
    _AT,
    summary="Delete an artifact",
    status_code=204,
    response_class=Response,
    response_description="The artifact is deleted.",
    responses=problems(404),
)
async def delete_artifact(session_id: SessionId, name: ArtifactId, services: UserServices) -> None:
    """Deletes all versions of an artifact. Succeeds also if there is no such artifact."""
    await services.artifacts.delete(session_id, name)


def _headers(artifact: Artifact) -> dict[str, str]:
    """Returns the headers of a download. They prevent a browser from running an uploaded page in this origin."""
    name = artifact.info.name.rpartition("/")[2].removeprefix("user:")
    return {
        "Content-Type": artifact.info.mime_type,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
        "Accept-Ranges": "bytes",
        "ETag": etag_of(artifact.data),
        "X-Artifact-Version": str(artifact.info.version),
    }
