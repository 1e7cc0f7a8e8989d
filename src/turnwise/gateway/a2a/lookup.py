"""A task by its id, and the files that it shows."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from a2a.utils.errors import TaskNotFoundError

from turnwise.facts.callers import Permission
from turnwise.facts.errors import ArtifactError, Forbidden, InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.events import Event
from turnwise.gateway.a2a.ids import TaskId, parse_task_id
from turnwise.gateway.a2a.parts import MOST_INLINE, File, FileId, named_files
from turnwise.gateway.a2a.request import OperationRequest
from turnwise.gateway.a2a.task_state import TaskRecord, task_record
from turnwise.gateway.front import Front
from turnwise.wire.bounds import SEGMENT

MOST_FILES = 50
"""How many artifacts an answer shows; of more, only the names."""


async def find_task(front: Front, asking: OperationRequest, task_id: str, *, to: Permission = "sessions:read") -> TaskRecord:
    """The task with that id, for doing that with it. TaskNotFoundError when there is none, or it is another user's; Forbidden
    whether there is one or not.
    """
    name = parse_task_id(task_id)
    try:
        if name is None:
            front.scope.require(asking.caller, to)
            raise InvocationMissing("This is no id of a task.")
        if None not in (asking.user, name.user) and asking.user != name.user:
            front.scope.user(asking.caller, to, asking.user)
            raise InvocationMissing("It is the task of another than whom the request names.")
        known = await front.threads.whole(asking.caller, name.session, name.message, user_of_task(asking, name), to=to)
    except (InvocationMissing, SessionMissing):
        raise TaskNotFoundError("There is no such task.") from None
    except Forbidden:
        # What is another's by its id alone is not there for who may not reach it.
        if asking.user is None and name is not None and name.user is not None:
            front.scope.require(asking.caller, to)
            raise TaskNotFoundError("There is no such task.") from None
        raise
    return task_record(name, known)


def user_of_task(asking: OperationRequest, name: TaskId) -> str | None:
    """Whose task that is: whom the request names, else whom its id does."""
    return name.user if asking.user is None else asking.user


async def files_of(front: Front, asking: OperationRequest, name: TaskId, events: Iterable[Event]) -> Mapping[FileId, File]:
    """The artifacts that are named in these events, as far as there are such; their bytes as far as they are small."""
    found: dict[FileId, File] = {}
    left, user = MOST_INLINE, user_of_task(asking, name)
    for id_ in named_files(events)[:MOST_FILES]:
        artifact, version = id_
        try:
            infos = await front.artifacts.versions(asking.caller, name.session, artifact, user)
            info = next(each for each in reversed(infos) if version in (None, each.version))
            url = _url(asking, name, artifact, info.version)
            found[id_] = File(url, info.mime_type)
            if info.size <= left:
                loaded = await front.artifacts.load(asking.caller, name.session, artifact, info.version, user)
                found[id_], left = File(url, info.mime_type, loaded.data), left - info.size
        except (ArtifactError, NothingHere, SessionMissing, Forbidden, StopIteration):
            continue
    return found


def _url(asking: OperationRequest, name: TaskId, artifact: str, version: int) -> str:
    """Where our own API has it, which wants the same credential; empty for a session that cannot stand in a path."""
    if not re.fullmatch(SEGMENT, name.session):
        return ""
    user = user_of_task(asking, name)
    whose = f"&user={quote(user, safe='')}" if user is not None else ""
    path = f"sessions/{quote(name.session, safe='')}/artifacts/{quote(artifact, safe='')}"
    return f"{asking.base}/api/v1/{path}?version={version}{whose}"
