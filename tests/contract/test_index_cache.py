"""Vectors and fitted matchers in the SQL store: processes share them (behaviour E9)."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from words import Words

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.matching.disk_cache import Vectors, text_keys
from turnwise.selection.meaning import Meaning
from turnwise.stores.sql import SqlSessionStore, index_cache
from turnwise.stores.sql.index_cache import KEPT, SqlIndexCache

pytestmark = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)


async def opened(url: str) -> SqlSessionStore:
    store = SqlSessionStore(url)
    await store.maintenance.check_writable()
    return store


async def test_what_one_process_stores_another_finds(url: str) -> None:
    """E9"""
    here, there = await opened(url), await opened(url)
    keys = text_keys([f"text {number}" for number in range(900)])
    rows = np.random.default_rng(1).standard_normal((900, 8)).astype(np.float16)
    assert here.index_cache.store_vectors("encoder", Vectors(keys, rows))
    assert here.index_cache.store_vectors("encoder", Vectors(keys[:5], rows[5:10])), "the first ones stay"
    found = there.index_cache.vectors("encoder", 8, text_keys(["text 7", "other", "text 899"]))
    assert [row.tolist() for row in found.rows.raw(found.places(keys[[7, 899]]))] == [rows[7].tolist(), rows[899].tolist()]
    assert len(found) == 2
    assert len(there.index_cache.vectors("other", 8, keys)) == len(there.index_cache.vectors("encoder", 4, keys)) == 0
    await here.close()
    await there.close()


async def test_a_matcher_is_stored_in_parts_and_whole_or_not_at_all(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """E9"""
    monkeypatch.setattr(index_cache, "PART_BYTES", 1_000)
    store = await opened(url)
    cache = store.index_cache
    arrays: dict[str, NDArray[np.generic]] = {"a": np.arange(5_000), "b": np.ones((3, 4), np.float32)}
    assert cache.matcher("x") is None
    cache.store_matcher("x", arrays)
    found = cache.matcher("x")
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {name: array.tolist() for name, array in arrays.items()}
    cache._run(lambda connection: connection.exec_driver_sql("DELETE FROM turnwise_matchers WHERE part = 3"))
    assert cache.matcher("x") is None, "a part is missing"
    cache.remove_matcher("x")
    for number in range(KEPT + 2):
        cache.store_matcher(f"y{number}", {"a": np.arange(3)})
    assert [number for number in range(KEPT + 2) if cache.matcher(f"y{number}") is not None] == list(range(2, KEPT + 2))
    await store.close()


async def test_one_process_has_the_claim(url: str) -> None:
    """E9"""
    here, there = await opened(url), await opened(url)
    assert here.index_cache.claim("x")
    assert here.index_cache.claim("x"), "renewed"
    assert not there.index_cache.claim("x")
    assert there.index_cache.claim("y")
    here.index_cache.release("x")
    assert there.index_cache.claim("x")
    await here.close()
    await there.close()


def tree_of(*more: str) -> AgentTree:
    cards = [AgentCard(name="a", parent="root", examples=("my bill", "an invoice", "pay the bill", *more))]
    cards.append(AgentCard(name="b", parent="root", examples=("a flight", "the hotel", "book a flight")))
    return AgentTree([AgentCard(name="root"), *cards])


async def test_heads_are_fitted_once_and_all_processes_have_the_same_numbers(url: str) -> None:
    """E9: also while another process is still fitting them."""
    stores = [await opened(url) for _ in range(3)]
    encoders = [Words() for _ in stores]
    meanings = [
        Meaning(tree_of("the tax"), encoder, quick_fit=0, shared=store.index_cache)
        for encoder, store in zip(encoders, stores, strict=True)
    ]
    await asyncio.gather(*(meaning.fitted() for meaning in meanings))
    assert len({meaning.fingerprint for meaning in meanings}) == 1
    readings = [(await meaning.read(["pay my flight"]))[0].match.probabilities.tolist() for meaning in meanings]
    assert readings[0] == readings[1] == readings[2]
    late = Meaning(tree_of("the tax"), encoder := Words(), quick_fit=0, shared=stores[0].index_cache)
    assert await late.fitted()
    assert (await late.read(["pay my flight"]))[0].match.probabilities.tolist() == readings[0]
    assert "the tax" not in encoder.asked
    for store in stores:
        await store.close()


async def test_a_process_waits_for_the_one_that_fits(url: str) -> None:
    """E9: and fits itself when that one gives up."""
    store = await opened(url)
    other = SqlIndexCache(store._executor, store.index_cache._watch)
    meaning = Meaning(tree_of(), Words(), quick_fit=0, shared=store.index_cache)
    assert other.claim(meaning.phrases_fingerprint)
    meaning.prepare()
    await asyncio.sleep(0.1)
    assert meaning.fingerprint.endswith("-nearest")
    other.release(meaning.phrases_fingerprint)
    assert await meaning.fitted()
    assert meaning.fingerprint.endswith("-fitted")
    other.close()
    await store.close()


def test_a_database_in_memory_caches_nothing(url: str, tmp_path: Path) -> None:
    cache = SqlSessionStore("sqlite://").index_cache
    assert cache.matcher("x") is None
    assert cache.claim("x")
    assert len(cache.vectors("encoder", 8, text_keys(["a"]))) == 0


def log_bytes(url: str) -> int:
    """The size of SQLite's write-ahead log; 0 for another database."""
    return Path(f"{url.removeprefix('sqlite:///')}-wal").stat().st_size if url.startswith("sqlite") else 0


async def test_a_large_matcher_does_not_leave_its_pages_to_the_next_message(url: str) -> None:
    """F4: on SQLite, the log is moved into the file while the matcher is stored, by who stores it."""
    store = await opened(url)
    cache = store.index_cache
    arrays: dict[str, NDArray[np.generic]] = {"a": np.random.default_rng(1).standard_normal(600_000)}
    for number in range(KEPT + 1):
        cache.store_matcher(f"x{number}", arrays)
    assert log_bytes(url) < 3_500_000, "a matcher has 4.8 MB"
    assert [number for number in range(KEPT + 1) if cache.matcher(f"x{number}") is not None] == list(range(1, KEPT + 1))
    await store.close()
