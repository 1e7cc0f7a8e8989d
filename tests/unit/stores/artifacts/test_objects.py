"""objects: what the conformance suite does not say: bad places, no obstore, a store that is not there."""

import sys
from collections.abc import Mapping

import pytest
from obstore.store import MemoryStore

from turnwise.facts.errors import ConfigError, MissingExtra, StoreCorrupt, StoreUnavailable
from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts.objects import ObjectArtifactStore

KEY = SessionKey("shop", "ann", "s1")
NOBODY_LISTENS = "http://127.0.0.1:9"


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtra, match=r"\[s3\]"):
        ObjectArtifactStore("s3://bucket")


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("nonsense", {}, "'nonsense' cannot be made"),
        ("ftp://bucket", {}, "ftp"),
        ("file:///tmp", {}, "a folder has a store of its own"),
        ("s3://bucket", {"colour": "red"}, "colour"),
    ],
)
def test_a_bad_place_is_named(url: str, options: Mapping[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ObjectArtifactStore(url, options=options)


async def test_a_store_that_does_not_answer() -> None:
    options = {"endpoint": NOBODY_LISTENS, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    store = ObjectArtifactStore("s3://bucket", options=options)
    with pytest.raises(StoreUnavailable, match="cannot be used") as caught:
        await store.save(KEY, "a", b"x")
    assert "Debug source" not in str(caught.value)


async def test_the_object_is_the_bytes_under_a_readable_key() -> None:
    objects = MemoryStore()
    await ObjectArtifactStore(objects).save(KEY, "größe.txt", b"some bytes", mime_type="text/plain")
    result = objects.get("shop/ann/sessions/s1/gr%C3%B6%C3%9Fe.txt/00000001")
    assert bytes(result.bytes()) == b"some bytes"
    assert dict(result.attributes) == {"Content-Type": "text/plain", "name": "gr%C3%B6%C3%9Fe.txt"}


async def test_an_object_that_others_put_among_the_versions() -> None:
    objects = MemoryStore()
    store = ObjectArtifactStore(objects)
    info = await store.save(KEY, "a", b"x")
    objects.put("shop/ann/sessions/s1/a/notes.txt", b"mine")
    assert await store.versions(KEY, "a") == (info,)
    objects.put("shop/ann/sessions/s1/a/00000002", b"mine")
    with pytest.raises(StoreCorrupt, match="00000002"):
        await store.load(KEY, "a")
