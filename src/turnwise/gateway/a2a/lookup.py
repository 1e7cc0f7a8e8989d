"""Finds a task by its id, and loads the artifacts that a task refers to."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from a2a.utils.errors import TaskNotFoundError

from turnwise.facts.callers import Permission
from turnwise.facts.errors import ArtifactError, Forbidden, InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.events import Event
from turnwise.gateway.a2a.parts import MOST_INLINE, File, FileId, referenced_files
from turnwise.gateway.a2a.request import OperationRequest, TaskId, parse_task_id
from turnwise.gateway.a2a.task_state import TaskRecord, task_record
from turnwise.gateway.services import Services
from turnwise.wire.messages import SEGMENT

MOST_FILES = 50
"""Maximum number of artifacts loaded for one response; further ones appear by name only."""


async def find_task(operation: OperationRequest, task_id: str, *, to: Permission = "sessions:read") -> TaskRecord:
    """Returns the task with this id.

    Args:
        to: The permission that the caller needs.

    Raises:
        TaskNotFoundError: There is no such task, or it belongs to another user.
        Forbidden: The caller lacks the permission. Raised whether or not the task exists.
    """
    name = parse_task_id(task_id)
    try:
        if name is None:
            operation.services.scope.require(to)
            raise InvocationMissing("This is not a task id.")
        if None not in (operation.user, name.user) and operation.user != name.user:
            operation.services.scope.user(to)
            raise InvocationMissing("The task belongs to another user than the request names.")
        known = await services_of_task(operation, name).threads.whole(name.session, name.message, to=to)
    except (InvocationMissing, SessionMissing):
        raise TaskNotFoundError("There is no such task.") from None
    except Forbidden:
        # Do not reveal that a task of another user exists to a caller who may not reach it.
        if operation.user is None and name is not None and name.user is not None:
            operation.services.scope.require(to)
            raise TaskNotFoundError("There is no such task.") from None
        raise
    return task_record(name, known)


def user_of_task(operation: OperationRequest, name: TaskId) -> str | None:
    """Returns the user that the request names, else the one in the task's id; None = the caller's own user."""
    return name.user if operation.user is None else operation.user


def services_of_task(operation: OperationRequest, name: TaskId) -> Services:
    """Returns the services for the task's user."""
    return operation.services.for_user(user_of_task(operation, name))


async def files_of(
    operation: OperationRequest, name: TaskId, events: Iterable[Event], inline: int = MOST_INLINE
) -> Mapping[FileId, File]:
    """Loads the artifacts that these events refer to; missing ones are left out.

    At most `inline` bytes are included; files beyond it have a URL only.
    """
    files: dict[FileId, File] = {}
    bytes_left, artifacts = inline, services_of_task(operation, name).artifacts
    for id_ in referenced_files(events)[:MOST_FILES]:
        artifact, version = id_
        try:
            infos = await artifacts.versions(name.session, artifact)
            info = next(candidate for candidate in reversed(infos) if version in (None, candidate.version))
            url = _url(operation, name, artifact, info.version)
            files[id_] = File(url, info.mime_type)
            if info.size <= bytes_left:
                loaded = await artifacts.load(name.session, artifact, info.version)
                files[id_], bytes_left = File(url, info.mime_type, loaded.data), bytes_left - info.size
        except (ArtifactError, NothingHere, SessionMissing, Forbidden, StopIteration):
            continue
    return files


def _url(operation: OperationRequest, name: TaskId, artifact: str, version: int) -> str:
    """Returns the artifact's URL in the Turnwise API, which requires the same credential. Empty if the session id cannot be a
    path segment.
    """
    if not re.fullmatch(SEGMENT, name.session):
        return ""
    user = user_of_task(operation, name)
    user_query = f"&user={quote(user, safe='')}" if user is not None else ""
    path = f"sessions/{quote(name.session, safe='')}/artifacts/{quote(artifact, safe='')}"
    return f"{operation.base}/api/v1/{path}?version={version}{user_query}"
