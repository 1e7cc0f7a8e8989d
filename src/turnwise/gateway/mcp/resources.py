"""What can be read: the caller's sessions, and what is kept in them."""

import base64
from collections.abc import Sequence

from mcp_types import (
    INVALID_PARAMS,
    Annotations,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from turnwise.facts.errors import Forbidden, InvocationMissing, MessageError, NothingHere, SessionMissing
from turnwise.gateway.mcp.errors import error_of
from turnwise.gateway.mcp.links import ARTIFACT_TEMPLATE, SESSION_TEMPLATE, ArtifactLink, SessionLink, parse_link
from turnwise.gateway.mcp.request import McpRequest
from turnwise.gateway.mcp.schema import Conversation, Kept
from turnwise.gateway.services.sessions import Window
from turnwise.ports.stores import Artifact

JSON = "application/json"
PAGE, EVENTS, ARTIFACTS = 100, 100, 200
"""How many sessions, events and artifacts are told of at once."""
MISSING_BEFORE_2026 = -32002
"""The code of what is not there, in versions that have one for it."""
_MISSING = (NothingHere, SessionMissing, InvocationMissing, MessageError)


async def list_sessions(visit: McpRequest, after: str | None) -> ListResourcesResult:
    """A page of the caller's sessions. CursorInvalid, Forbidden."""
    page = await visit.front.sessions.page(visit.caller, user=visit.user, everybody=False, after=after, limit=PAGE)
    sessions = [
        Resource(
            uri=str(SessionLink(info.key.id)),
            name=info.key.id,
            description="A conversation.",
            mime_type=JSON,
            annotations=Annotations(last_modified=info.updated_at.isoformat()),
        )
        for info in page.items
    ]
    return ListResourcesResult(resources=sessions, next_cursor=page.next)


def templates() -> ListResourceTemplatesResult:
    """How to name any of them."""
    session = ResourceTemplate(
        uri_template=SESSION_TEMPLATE,
        name="session",
        description=f"A conversation: its newest {EVENTS} events, or those before the event with the number `before`.",
        mime_type=JSON,
    )
    artifact = ResourceTemplate(
        uri_template=ARTIFACT_TEMPLATE,
        name="artifact",
        description="A file of a conversation, in its latest or the named version.",
    )
    return ListResourceTemplatesResult(resource_templates=[session, artifact])


async def read_resource(visit: McpRequest, uri: str, protocol_version: str) -> ReadResourceResult:
    """What that names. What is another's is as what does not exist: MCPError. Forbidden for who may read none."""
    link = parse_link(uri)
    try:
        if isinstance(link, SessionLink):
            return ReadResourceResult(contents=[await _session(visit, uri, link)])
        if isinstance(link, ArtifactLink):
            found = await visit.front.artifacts.load(visit.caller, link.session, link.name, link.version, visit.user)
            return ReadResourceResult(contents=[_contents(uri, found)])
        raise NothingHere("There is no such resource.", fix="See the list of resources, and of resource templates.")
    except _MISSING as error:
        code = MISSING_BEFORE_2026 if protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else INVALID_PARAMS
        raise error_of(visit.problem(error), code, uri=uri) from None


async def _session(visit: McpRequest, uri: str, link: SessionLink) -> TextResourceContents:
    window = Window(before=link.before, last=EVENTS)
    events = (await visit.front.sessions.events(visit.caller, link.session, window, visit.user)).events
    first = events[0].sequence if events else None
    conversation = Conversation(
        session=link.session,
        events=[visit.view.event(event) for event in events],
        earlier=str(SessionLink(link.session, first)) if first is not None and first > 1 else None,
        artifacts=list(await _artifacts(visit, link.session)),
    )
    return TextResourceContents(uri=uri, mime_type=JSON, text=conversation.model_dump_json(exclude_none=True))


async def _artifacts(visit: McpRequest, session: str) -> Sequence[Kept]:
    try:
        found = await visit.front.artifacts.list(visit.caller, session, visit.user)
    except (Forbidden, NothingHere):  # the caller may not read any, or the app keeps none
        return ()
    return [
        Kept(uri=str(ArtifactLink(session, info.name)), name=info.name, version=info.version, mime_type=info.mime_type)
        for info in found[:ARTIFACTS]
    ]


def _contents(uri: str, artifact: Artifact) -> TextResourceContents | BlobResourceContents:
    kind = artifact.info.mime_type
    if kind.startswith("text/") or kind.partition(";")[0].endswith("json"):
        try:
            return TextResourceContents(uri=uri, mime_type=kind, text=artifact.data.decode())
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(artifact.data).decode())
