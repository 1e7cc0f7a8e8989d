"""in_memory: what the conformance suite does not say."""

from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts.local import InMemoryArtifactStore

KEY = SessionKey("shop", "ann", "s1")


async def test_what_is_kept_does_not_change_with_the_callers_buffer() -> None:
    store = InMemoryArtifactStore()
    buffer = bytearray(b"before")
    await store.save(KEY, "a", buffer)  # type: ignore[arg-type]
    buffer[:] = b"after!"
    found = await store.load(KEY, "a")
    assert found is not None
    assert found.data == b"before"


async def test_two_stores_share_nothing() -> None:
    await InMemoryArtifactStore().save(KEY, "a", b"x")
    assert await InMemoryArtifactStore().list(KEY) == ()
