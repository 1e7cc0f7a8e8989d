"""Routes of the artifacts of sessions and users, in the ADK's format."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from turnwise.facts.callers import Permission
from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.gateway.adk.apps import UserServices, check_app
from turnwise.gateway.adk.events import artifact_uri, decode_bytes, encode_bytes, from_adk_version, to_adk_version
from turnwise.gateway.adk.schema import ArtifactVersion, Blob, Part, SaveBody, json_response
from turnwise.gateway.front import Front, TheFront
from turnwise.gateway.services import Services
from turnwise.gateway.shared.content import DEFAULT_TYPE, PLAIN
from turnwise.ports.stores import Artifact, ArtifactInfo

router = APIRouter(prefix="/apps/{app_name}/users/{user_id}/sessions/{session_id}/artifacts", include_in_schema=False)
LATEST = "latest"
_MOST_DIGITS = 9
# More specific paths come first, because a name may contain slashes.
_AT = "/{artifact_name:path}"


@router.get("")
async def list_artifacts(app_name: str, session_id: str, front: TheFront, services: UserServices) -> Response:
    """Lists the names of the session's artifacts and of its user's."""
    infos = await services.artifacts.list(session_id)
    check_app(front, app_name)
    return JSONResponse([info.name for info in infos])


@router.post("")
async def save_artifact(
    app_name: str, user_id: str, session_id: str, body: SaveBody, front: TheFront, services: UserServices
) -> Response:
    """Saves a text, or the bytes of `inlineData`, as a new version."""
    _check(front, services, "artifacts:write", app_name)
    data, mime_type = _content_of(body)
    info = await services.artifacts.save(session_id, body.filename, _single_chunk(data), mime_type=mime_type, size=len(data))
    return json_response(_wire_version(front, info, user_id, session_id))


@router.get(_AT + "/versions/{version_id}/metadata")
async def get_version_metadata(
    app_name: str,
    user_id: str,
    session_id: str,
    artifact_name: str,
    version_id: str,
    front: TheFront,
    services: UserServices,
) -> Response:
    """Describes one version, without its content."""
    infos = await services.artifacts.versions(session_id, artifact_name)
    check_app(front, app_name)
    number = _parse_version(version_id)
    info = next((info for info in reversed(infos) if number in (None, info.version)), None)
    if info is None:
        raise NothingHere("There is no such version of an artifact.", fix="List its versions.")
    return json_response(_wire_version(front, info, user_id, session_id))


@router.get(_AT + "/versions/metadata")
async def list_versions_metadata(
    app_name: str, user_id: str, session_id: str, artifact_name: str, front: TheFront, services: UserServices
) -> Response:
    """Describes all versions, oldest first."""
    infos = await services.artifacts.versions(session_id, artifact_name)
    check_app(front, app_name)
    return json_response([_wire_version(front, info, user_id, session_id) for info in infos])


@router.get(_AT + "/versions/{version_id}")
async def load_version(
    app_name: str,
    session_id: str,
    artifact_name: str,
    version_id: str,
    front: TheFront,
    services: UserServices,
) -> Response:
    """Returns the content of one version."""
    return await _load(front, services, app_name, session_id, artifact_name, version_id)


@router.get(_AT + "/versions")
async def list_versions(
    app_name: str, session_id: str, artifact_name: str, front: TheFront, services: UserServices
) -> Response:
    """Lists the version numbers, from 0."""
    infos = await services.artifacts.versions(session_id, artifact_name)
    check_app(front, app_name)
    return JSONResponse([to_adk_version(info.version) for info in infos])


@router.get(_AT)
async def load_artifact(
    app_name: str,
    session_id: str,
    artifact_name: str,
    front: TheFront,
    services: UserServices,
    version: str = LATEST,
) -> Response:
    """Returns the content of the latest version, or of the one in the query."""
    return await _load(front, services, app_name, session_id, artifact_name, version)


@router.delete(_AT)
async def delete_artifact(
    app_name: str, session_id: str, artifact_name: str, front: TheFront, services: UserServices
) -> Response:
    """Deletes all versions. Idempotent."""
    _check(front, services, "artifacts:write", app_name)
    await services.artifacts.delete(session_id, artifact_name)
    return JSONResponse(None)


async def _load(front: Front, services: Services, app: str, session: str, name: str, version: str) -> Response:
    _check(front, services, "artifacts:read", app)
    artifact: Artifact = await services.artifacts.load(session, name, _parse_version(version))
    blob = Blob(data=encode_bytes(artifact.data), mime_type=artifact.info.mime_type)
    return json_response(Part(inline_data=blob))


def _check(front: Front, services: Services, permission: Permission, app: str) -> None:
    """Checks the permission before the app's name, so Forbidden reveals nothing about apps."""
    services.scope.user(permission)
    check_app(front, app)


def _parse_version(text: str) -> int | None:
    """Returns Turnwise's version number; None = the latest. Raises RequestInvalid."""
    if text == LATEST:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise RequestInvalid("This is not a version number.", fix=f"Send 0, 1, …, or {LATEST!r}.", where=("version",))
    return from_adk_version(int(text))


def _content_of(body: SaveBody) -> tuple[bytes, str]:
    """Returns the artifact's bytes and media type. Raises RequestInvalid."""
    part = body.artifact
    if part.inline_data is not None:
        return decode_bytes(part.inline_data, ("body", "artifact", "inlineData")), part.inline_data.mime_type or DEFAULT_TYPE
    if part.text is None:
        problem = "This kind of part cannot be saved."
        raise RequestInvalid(problem, fix="Send a text, or inlineData. Nothing is fetched.", where=("body", "artifact"))
    try:
        return part.text.encode(), PLAIN
    except UnicodeEncodeError:
        problem = "The text cannot be written in UTF-8."
        raise RequestInvalid(problem, fix="Correct it.", where=("body", "artifact", "text")) from None


async def _single_chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _wire_version(front: Front, info: ArtifactInfo, user: str, session: str) -> ArtifactVersion:
    return ArtifactVersion(
        version=to_adk_version(info.version),
        canonical_uri=artifact_uri(front.runner.key(user, session), info.name, info.version),
        mime_type=info.mime_type,
    )
