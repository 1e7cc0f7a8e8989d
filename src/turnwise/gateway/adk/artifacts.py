"""Files of sessions and users, in the ADK's shapes."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.gateway.adk.apps import check_app
from turnwise.gateway.adk.parts import bytes_of, bytes_out, uri_of, version_in, version_out
from turnwise.gateway.adk.schema import ArtifactVersion, Blob, Part, SaveBody, json_response
from turnwise.gateway.front import Front, TheCaller, TheFront
from turnwise.gateway.shared.data_urls import DEFAULT_TYPE, PLAIN
from turnwise.ports.stores import Artifact, ArtifactInfo

router = APIRouter(prefix="/apps/{app_name}/users/{user_id}/sessions/{session_id}/artifacts", include_in_schema=False)
LATEST = "latest"
_MOST_DIGITS = 9
# What is more special comes first: a name may hold slashes.
_AT = "/{artifact_name:path}"


@router.get("")
async def list_artifacts(app_name: str, user_id: str, session_id: str, front: TheFront, caller: TheCaller) -> Response:
    """The names of the session's artifacts, and of its user's."""
    found = await front.artifacts.list(caller, session_id, user_id)
    check_app(front, app_name)
    return JSONResponse([info.name for info in found])


@router.post("")
async def save_artifact(
    app_name: str, user_id: str, session_id: str, body: SaveBody, front: TheFront, caller: TheCaller
) -> Response:
    """Keeps a text, or the bytes of `inlineData`, as a new version."""
    _check(front, caller, "artifacts:write", app_name, user_id)
    data, mime_type = _held(body)
    info = await front.artifacts.save(
        caller, session_id, body.filename, _once(data), mime_type=mime_type, size=len(data), user=user_id
    )
    return json_response(_version(front, info, user_id, session_id))


@router.get(_AT + "/versions/{version_id}/metadata")
async def get_version_metadata(
    app_name: str,
    user_id: str,
    session_id: str,
    artifact_name: str,
    version_id: str,
    front: TheFront,
    caller: TheCaller,
) -> Response:
    """What is known of one version, without what it holds."""
    found = await front.artifacts.versions(caller, session_id, artifact_name, user_id)
    check_app(front, app_name)
    wanted = _number(version_id)
    info = next((info for info in reversed(found) if wanted in (None, info.version)), None)
    if info is None:
        raise NothingHere("There is no such version of an artifact.", fix="List its versions.")
    return json_response(_version(front, info, user_id, session_id))


@router.get(_AT + "/versions/metadata")
async def list_versions_metadata(
    app_name: str, user_id: str, session_id: str, artifact_name: str, front: TheFront, caller: TheCaller
) -> Response:
    """The same of all versions, oldest first."""
    found = await front.artifacts.versions(caller, session_id, artifact_name, user_id)
    check_app(front, app_name)
    return json_response([_version(front, info, user_id, session_id) for info in found])


@router.get(_AT + "/versions/{version_id}")
async def load_version(
    app_name: str,
    user_id: str,
    session_id: str,
    artifact_name: str,
    version_id: str,
    front: TheFront,
    caller: TheCaller,
) -> Response:
    """What that version holds."""
    return await _loaded(front, caller, app_name, user_id, session_id, artifact_name, version_id)


@router.get(_AT + "/versions")
async def list_versions(
    app_name: str, user_id: str, session_id: str, artifact_name: str, front: TheFront, caller: TheCaller
) -> Response:
    """The numbers of its versions, from 0 on."""
    found = await front.artifacts.versions(caller, session_id, artifact_name, user_id)
    check_app(front, app_name)
    return JSONResponse([version_out(info.version) for info in found])


@router.get(_AT)
async def load_artifact(
    app_name: str,
    user_id: str,
    session_id: str,
    artifact_name: str,
    front: TheFront,
    caller: TheCaller,
    version: str = LATEST,
) -> Response:
    """What its latest version holds, or the one that is named."""
    return await _loaded(front, caller, app_name, user_id, session_id, artifact_name, version)


@router.delete(_AT)
async def delete_artifact(
    app_name: str, user_id: str, session_id: str, artifact_name: str, front: TheFront, caller: TheCaller
) -> Response:
    """All versions. One that is not there is deleted as well."""
    _check(front, caller, "artifacts:write", app_name, user_id)
    await front.artifacts.delete(caller, session_id, artifact_name, user_id)
    return JSONResponse(None)


async def _loaded(front: Front, caller: Caller, app: str, user: str, session: str, name: str, version: str) -> Response:
    _check(front, caller, "artifacts:read", app, user)
    found: Artifact = await front.artifacts.load(caller, session, name, _number(version), user)
    blob = Blob(data=bytes_out(found.data), mime_type=found.info.mime_type)
    return json_response(Part(inline_data=blob))


def _check(front: Front, caller: Caller, permission: Permission, app: str, user: str) -> None:
    """Forbidden before anything is said of the app."""
    front.scope.user(caller, permission, user)
    check_app(front, app)


def _number(given: str) -> int | None:
    """A version by our count; None = the latest. RequestInvalid."""
    if given == LATEST:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS):
        raise RequestInvalid("This is no number of a version.", fix=f"Send 0, 1, …, or {LATEST!r}.", where=("version",))
    return version_in(int(given))


def _held(body: SaveBody) -> tuple[bytes, str]:
    """What the artifact is to hold, and its type."""
    part = body.artifact
    if part.inline_data is not None:
        return bytes_of(part.inline_data, ("body", "artifact", "inlineData")), part.inline_data.mime_type or DEFAULT_TYPE
    if part.text is None:
        problem = "This is no part that can be kept."
        raise RequestInvalid(problem, fix="Send a text, or inlineData. Nothing is fetched.", where=("body", "artifact"))
    try:
        return part.text.encode(), PLAIN
    except UnicodeEncodeError:
        problem = "The text cannot be written in UTF-8."
        raise RequestInvalid(problem, fix="Correct it.", where=("body", "artifact", "text")) from None


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _version(front: Front, info: ArtifactInfo, user: str, session: str) -> ArtifactVersion:
    return ArtifactVersion(
        version=version_out(info.version),
        canonical_uri=uri_of(front.runner.key(user, session), info.name, info.version),
        mime_type=info.mime_type,
    )
