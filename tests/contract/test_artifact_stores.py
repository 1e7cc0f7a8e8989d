"""The artifact stores against the public conformance suite: in memory, on disk, obstore's memory, and S3 by moto's server."""

import asyncio
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from obstore.store import MemoryStore

from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import ArtifactStore
from turnwise.stores.artifacts.local import InMemoryArtifactStore, OnDiskArtifactStore
from turnwise.stores.artifacts.objects import ObjectArtifactStore
from turnwise.testing import artifact_store_suite

Make = Callable[..., ArtifactStore]


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of an S3 server on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/artifacts", method="PUT"), timeout=30).close()  # makes a bucket
    yield address
    server.stop()


def at(address: str, url: str) -> Make:
    options = {"endpoint": address, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    return partial(ObjectArtifactStore, url, options=options)


@pytest.fixture(params=["in memory", "on disk", "objects in memory", "s3"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    match request.param:
        case "in memory":
            return InMemoryArtifactStore
        case "on disk":
            return partial(OnDiskArtifactStore, tmp_path / "artifacts")
        case "objects in memory":
            return partial(ObjectArtifactStore, MemoryStore())
    return at(request.getfixturevalue("s3"), "s3://artifacts/some/folder")


@pytest.mark.parametrize("case", artifact_store_suite.CASES, ids=lambda case: case.__name__)
def test_conformance(case: artifact_store_suite.Case, make: Make) -> None:
    """A28"""
    asyncio.run(_run(case, make()))


def test_size_limit(make: Make) -> None:
    """A28"""
    asyncio.run(_run(partial(artifact_store_suite.too_large_is_refused, max_bytes=1_000), make(max_bytes=1_000)))


async def _run(case: artifact_store_suite.Case, store: ArtifactStore) -> None:
    await case(store)
    await store.close()
    await store.close()


def test_a_bucket_that_is_not_there(s3: str) -> None:
    store = at(s3, "s3://elsewhere")()
    with pytest.raises(StoreUnavailable, match="elsewhere"):
        asyncio.run(store.save(SessionKey("shop", "ann", "s1"), "a", b"x"))
