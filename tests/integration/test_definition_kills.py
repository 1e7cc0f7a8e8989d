"""A process is killed at each commit of a put: the old definitions are there or the new ones, never half (behaviour F1)."""

import uuid
from datetime import UTC, datetime
from pathlib import Path

import definition_process
import pytest
from definition_process import OLD

from turnwise.facts.errors import DefinitionConflict
from turnwise.ports.definitions import Author
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.postgres import postgres_url

COMMITS = 5
"""More than a put makes."""


async def seen(store: SqlSessionStore, app: str) -> tuple[int, dict[str, int], int]:
    """The revision, the served versions by name, and the number of audit entries."""
    served = await store.definitions.served(app)
    versions = {each.name: each.version for each in (*served.agents, *served.policies)}
    return served.revision, versions, len((await store.definitions.changes(app)).items)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_killed_put_is_there_or_not(kind: str, when: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db" if kind == "sqlite" else postgres_url()
    store, author, ends = SqlSessionStore(url), Author("ann", datetime.now(UTC)), []
    for commits in range(1, COMMITS):
        app = f"{when}-{commits}-{uuid.uuid4().hex}"
        await store.definitions.put(app, OLD, {}, author)
        printed = await definition_process.start(url, app, commits, when)
        if printed:
            break
        now = await seen(store, app)
        assert now in ((1, {"a": 1, "main": 1}, 2), (2, {"a": 2, "b": 1, "main": 2}, 5))
        ends.append(now[0])
        # The next writer is not held up, and meets what is there.
        late = store.definitions.put(app, OLD[:1], {("agent", "a"): 1}, author)
        if now[0] == 1:
            await late
        else:
            with pytest.raises(DefinitionConflict, match=r"version 2.*version 1"):
                await late
    await store.close()
    assert (1 if when == "before" else 2) in ends
    assert ends == sorted(ends)
