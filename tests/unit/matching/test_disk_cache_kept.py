"""Vectors and matchers as files."""

import io
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from turnwise.matching.disk_cache import (
    DIGEST_BYTES,
    KEY_FILE,
    DiskCache,
    Vectors,
    digest_of,
    folder_from_environment,
    make_key,
    text_keys,
    version,
)

ENCODER = "words:1"


def vectors_of(*texts: str) -> Vectors:
    rows = np.array([[len(text), sum(map(ord, text)) % 97, 1] for text in texts], np.float16).reshape(len(texts), 3)
    return Vectors(text_keys(texts), rows)


def found(kept: DiskCache, *texts: str) -> list[str]:
    """Which of the texts are kept."""
    places = kept.vectors(ENCODER, 3, text_keys(texts)).places(text_keys(texts))
    return [text for text, place in zip(texts, places, strict=True) if place >= 0]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != KEY_FILE) if folder.exists() else []


def sealed(path: Path) -> None:
    """Gives a file the hash of what it holds now, so that its content is looked at."""
    content = path.read_bytes()[DIGEST_BYTES:]
    digest = digest_of(io.BytesIO(bytes(DIGEST_BYTES) + content), make_key(path.parent), path.name)
    path.write_bytes(digest + content)


def arrays_in(path: Path, **arrays: object) -> None:
    """Writes a file that is as whole as one of ours, whatever its arrays are."""
    with open(path, "wb") as file:
        file.write(bytes(DIGEST_BYTES))
        np.savez(file, **arrays)  # type: ignore[arg-type]
    sealed(path)


def test_vectors_come_back_by_text(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path / "deep" / "cache")
    assert found(kept, "one") == []
    assert files(tmp_path) == []  # looking makes nothing
    assert kept.store_vectors(ENCODER, vectors_of("one", "two", "three"))
    assert kept.store_vectors(ENCODER, vectors_of("four"))
    assert found(kept, "four", "five", "two") == ["four", "two"]
    again = kept.vectors(ENCODER, 3, text_keys(["four", "two"]))
    assert again.rows.raw(again.places(text_keys(["two"]))).tolist() == vectors_of("two").rows.raw().tolist()
    assert len(kept.vectors("other", 3, text_keys(["four"]))) == 0


def test_a_matcher_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    assert kept.matcher("a") is None
    kept.store_matcher("a", {"heads": np.arange(6.0).reshape(2, 3), "name/of": np.array("ä")})
    arrays = kept.matcher("a")
    assert arrays is not None
    assert sorted(arrays) == ["heads", "name/of"]
    assert arrays["heads"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert kept.matcher("b") is None
    kept.remove_matcher("a")
    assert kept.matcher("a") is None


def test_no_text_is_in_a_file(tmp_path: Path) -> None:
    DiskCache(tmp_path).store_vectors(ENCODER, vectors_of("a secret recipe"))
    assert all(b"secret" not in path.read_bytes() and "secret" not in path.name for path in files(tmp_path))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
def test_a_file_that_is_cut_off_counts_as_absent_and_is_written_anew(share: float, tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    kept.store_matcher("a", {"heads": np.arange(1000.0)})
    kept.store_vectors(ENCODER, vectors_of("one", "two"))
    for path in files(tmp_path):
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
    assert kept.matcher("a") is None
    assert found(kept, "one") == []
    kept.store_matcher("a", {"heads": np.arange(3.0)})
    kept.store_vectors(ENCODER, vectors_of("one", "two"))
    assert kept.matcher("a") is not None
    assert found(kept, "one") == ["one"]


def test_damaged_and_foreign_files_count_as_absent(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    kept.store_matcher("a", {"heads": np.arange(1000.0)})
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    sealed(path)
    assert kept.matcher("a") is None
    arrays_in(path, heads=np.arange(3.0))  # not of our format
    assert kept.matcher("a") is None
    np.savez(path, format=np.array("turnwise 1"), heads=np.arange(3.0))  # of an older version
    assert kept.matcher("a") is None
    path.write_bytes(b"hello")
    assert kept.matcher("a") is None
    arrays_in(path, format=np.array({"pickled": "object"}, dtype=object))
    assert kept.matcher("a") is None
    kept.store_vectors(ENCODER, vectors_of("one"))
    assert len(kept.vectors(ENCODER, 4, text_keys(["one"]))) == 0  # of other dimensions


@pytest.mark.parametrize(("place", "value"), [(8, 1), (8, 64), (10, 99), (6, 255)])
def test_a_file_that_says_it_is_encrypted_or_packed_otherwise_counts_as_absent(place: int, value: int, tmp_path: Path) -> None:
    """One wrong byte in the directory of a file is enough for that."""
    kept = DiskCache(tmp_path)
    kept.store_matcher("a", {"heads": np.arange(3.0)})
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + place] = value
    path.write_bytes(content)
    sealed(path)
    assert kept.matcher("a") is None
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_used_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    kept = DiskCache(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING, "turnwise.matching"):
        assert not kept.store_vectors(ENCODER, vectors_of("one"))
        kept.store_matcher("a", {"heads": np.arange(3.0)})
    assert found(kept, "one") == []
    assert kept.matcher("a") is None
    assert len(caplog.records) == 1
    assert "work is repeated" in caplog.records[0].getMessage()


def test_what_was_not_used_for_the_longest_time_goes_first(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, limit=30_000)
    for age, name in ((3, "old"), (2, "older but used"), (1, "new")):
        kept.store_matcher(name, {"heads": np.zeros(1_000)})
        newest = max(files(tmp_path), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (time.time() - age * 200_000,) * 2)
    assert kept.matcher("older but used") is not None  # notes that it is in use
    kept.store_matcher("newest", {"heads": np.zeros(1_000)})
    kept.store_matcher("last", {"heads": np.zeros(1_000)})
    kept_names = [name for name in ("old", "older but used", "new", "newest", "last") if kept.matcher(name) is not None]
    assert kept_names == ["older but used", "newest", "last"]


def test_what_a_killed_process_left_is_removed_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    left, begun, foreign = tmp_path / "new-abc.tmp", tmp_path / "new-def.tmp", tmp_path / "notes.npz"
    for path in (left, begun, foreign):
        path.write_bytes(b"x" * 100)
    os.utime(left, (time.time() - 10_000,) * 2)
    DiskCache(tmp_path, limit=0).store_matcher("a", {"heads": np.zeros(3)})
    assert not left.exists()
    assert begun.exists()
    assert foreign.exists()


def test_many_small_files_become_one(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    texts = [f"text {number}" for number in range(12)]
    for text in texts:
        kept.store_vectors(ENCODER, vectors_of(text))
    assert len(files(tmp_path)) == 12
    assert found(kept, *texts) == texts
    assert len(files(tmp_path)) == 1
    assert found(kept, *texts) == texts


def test_processes_that_start_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np
from turnwise.matching.disk_cache import DiskCache, Vectors, text_keys
kept = DiskCache(Path(sys.argv[1]))
texts = [f"text {number}" for number in range(200)]
for turn in range(30):
    kept.store_matcher("a", {"heads": np.full(5_000, turn % 7)})
    heads = kept.matcher("a")["heads"]
    assert (heads == heads[0]).all()
    kept.store_vectors("words:1", Vectors(text_keys(texts), np.ones((200, 3), np.float16)))
    assert len(kept.vectors("words:1", 3, text_keys(texts))) == 200
"""
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert [path.suffix for path in files(tmp_path)] == [".npz", ".npz"]
    assert len((tmp_path / KEY_FILE).read_bytes()) == 32


def test_the_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path))
    assert folder_from_environment() == tmp_path
    monkeypatch.setenv("TURNWISE_CACHE", " Off ")
    assert folder_from_environment() is None
    monkeypatch.delenv("TURNWISE_CACHE")
    folder = folder_from_environment()
    assert folder is not None
    assert folder.name == "turnwise"


def test_the_version_is_of_the_code() -> None:
    assert len(version()) == 12
