"""Routes of a user's memory: list, search, add and forget entries."""

from typing import Annotated

from fastapi import Depends, Path, Query

from turnwise.facts.memory import ID_CHARACTERS, Entity, MemoryEntry, MemoryKind, Span, Speaker
from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import After, Limit, UserId
from turnwise.gateway.front import TheServices
from turnwise.gateway.openapi import api_router
from turnwise.gateway.services import Services
from turnwise.ports.memory import MemoryFilter
from turnwise.wire.memories import (
    MOST_IDS,
    AddMemory,
    EntityShown,
    MemoriesForgotten,
    MemoriesFound,
    MemoryFound,
    MemoryPage,
    MemoryShown,
    SearchMemories,
)
from turnwise.wire.messages import MOST_CHARACTERS, PLAIN, SEGMENT

router = api_router("memories")

_AT = "/users/{user_id:user}/memories"
_Id = Annotated[str, Path(min_length=1, max_length=ID_CHARACTERS, pattern=PLAIN, description="The entry's id.")]
_Session = Annotated[
    str | None, Query(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="Only entries of this session.")
]
_Ids = Annotated[list[str] | None, Query(min_length=1, max_length=MOST_IDS, description="Only these entries; repeatable.")]


async def _of_user(user_id: UserId, services: TheServices) -> Services:
    return services.for_user(user_id)


_Services = Annotated[Services, Depends(_of_user)]


@router.get(
    _AT,
    summary="List a user's memory",
    response_model=MemoryPage,
    response_description="A page of entries.",
    responses=problems(),
)
async def list_memories(
    services: _Services,
    kind: Annotated[MemoryKind | None, Query()] = None,
    span: Annotated[Span | None, Query()] = None,
    said_by: Annotated[Speaker | None, Query()] = None,
    session_id: _Session = None,
    superseded: Annotated[bool, Query(description="Whether to list entries that others replace.")] = False,
    after: After = None,
    limit: Limit = 50,
) -> MemoryPage:
    """Lists what is remembered of a user, newest first. Expired and rewound entries are not listed."""
    filter_ = MemoryFilter(
        kinds=None if kind is None else [kind],
        spans=None if span is None else [span],
        said_by=None if said_by is None else [said_by],
        session=session_id,
    )
    page = await services.memories.page(filter_, superseded=superseded, after=after, limit=limit)
    return MemoryPage(memories=[memory_details(entry) for entry in page.items], next=page.next)


@router.post(
    _AT,
    summary="Add to a user's memory",
    status_code=201,
    response_model=MemoryShown,
    response_description="The entry.",
    responses=problems(404, body=True),
)
async def add_memory(body: AddMemory, services: _Services) -> MemoryShown:
    """Adds an entry. It is data for agents: never an instruction to them, and never a permission."""
    entity = None if body.entity is None else Entity(**body.entity.model_dump())
    entry = await services.memories.add(
        body.text,
        id=body.id,
        kind=body.kind,
        span=body.span,
        session=body.session_id,
        entity=entity,
        supersedes=body.supersedes,
    )
    return memory_details(entry)


@router.post(
    f"{_AT}/search",
    summary="Search a user's memory",
    response_model=MemoriesFound,
    response_description="The entries that fit best.",
    responses=problems(body=True),
)
async def search_memories(body: SearchMemories, services: _Services) -> MemoriesFound:
    """Searches by words and by meaning. Entries of this moment are found by words until they are encoded."""
    filter_ = MemoryFilter(kinds=body.kinds, spans=body.spans, said_by=body.said_by, session=body.session_id)
    found = await services.memories.search(body.query, filter_, limit=body.limit)
    return MemoriesFound(
        found=[MemoryFound(score=each.score, reason=each.reason, memory=memory_details(each.entry)) for each in found]
    )


@router.delete(
    _AT,
    summary="Forget a user's memory",
    response_model=MemoriesForgotten,
    response_description="The entries are deleted.",
    responses=problems(409),
)
async def forget_memories(services: _Services, id: _Ids = None, session_id: _Session = None) -> MemoriesForgotten:
    """Deletes the named entries, those of a session, or all; not both. Entries that they replace are deleted, too.

    Their texts are overwritten in the recorded steps of agents that recalled them. Idempotent.
    """
    return MemoriesForgotten(forgotten=await services.memories.forget(ids=id, session=session_id))


@router.get(
    f"{_AT}/{{memory_id:memory}}",
    summary="Get an entry of a user's memory",
    response_model=MemoryShown,
    response_description="The entry.",
    responses=problems(404),
)
async def get_memory(memory_id: _Id, services: _Services) -> MemoryShown:
    """Returns one entry, superseded or not."""
    return memory_details(await services.memories.get(memory_id))


def memory_details(entry: MemoryEntry) -> MemoryShown:
    """Returns an entry as a response body."""
    entity, source = entry.entity, entry.source
    return MemoryShown(
        id=entry.id,
        kind=entry.kind,
        text=entry.text,
        span=entry.span,
        session_id=entry.session,
        said_by=entry.said_by,
        agent=entry.agent or None,
        entity=EntityShown(type=entity.type, value=entity.value, normal=entity.normal) if entity else None,
        supersedes=list(entry.supersedes),
        created_at=entry.created_at,
        expires_at=entry.expires_at,
        source_session_id=source.session if source else None,
        source_sequence=source.sequence if source else None,
    )
