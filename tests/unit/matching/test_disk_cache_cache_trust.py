"""Only what this user wrote counts as kept: owners, permissions and keyed hashes of the cache."""

import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from turnwise.matching.disk_cache import (
    KEY_FILE,
    DiskCache,
    Untrusted,
    Vectors,
    check_digest,
    check_owner,
    digest_of,
    folder_problem,
    make_key,
    read_key,
    text_keys,
)

needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system's files have no owners")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
STRANGER = 54_321

HEADS = {"heads": np.arange(6.0)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "turnwise.matching"):
        yield caplog


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != KEY_FILE)


@needs_owners
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_neither_read_nor_written(
    folder: Path, mode: int, warnings: pytest.LogCaptureFixture
) -> None:
    kept = DiskCache(folder)
    kept.store_matcher("a", HEADS)
    folder.chmod(mode)
    assert kept.matcher("a") is None
    kept.store_matcher("b", HEADS)
    assert not kept.store_vectors("words", Vectors(text_keys(["one"]), np.ones((1, 3), np.float16)))
    assert len(data_files(folder)) == 1
    assert [f"chmod go-w {folder}" in record.getMessage() for record in warnings.records] == [True]
    folder.chmod(0o755)  # others may look
    assert kept.matcher("a") is not None


@needs_root
def test_a_folder_of_another_user_is_neither_read_nor_written(folder: Path, warnings: pytest.LogCaptureFixture) -> None:
    kept = DiskCache(folder)
    kept.store_matcher("a", HEADS)
    os.chown(folder, STRANGER, -1)
    assert kept.matcher("a") is None
    kept.store_matcher("b", HEADS)
    assert len(data_files(folder)) == 1
    assert str(STRANGER) in warnings.records[0].getMessage()
    assert folder_problem(folder) is not None


@needs_owners
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_to_is_made_again(folder: Path, mode: int, warnings: pytest.LogCaptureFixture) -> None:
    kept = DiskCache(folder)
    kept.store_matcher("a", HEADS)
    (path,) = data_files(folder)
    path.chmod(mode)
    assert kept.matcher("a") is None
    assert data_files(folder) == []
    assert "is not used" in warnings.records[0].getMessage()
    kept.store_matcher("a", HEADS)
    assert kept.matcher("a") is not None


@needs_root
def test_a_file_of_another_user_is_made_again(folder: Path) -> None:
    kept = DiskCache(folder)
    kept.store_matcher("a", HEADS)
    os.chown(data_files(folder)[0], STRANGER, -1)
    assert kept.matcher("a") is None
    assert data_files(folder) == []


def test_arrays_that_were_swapped_are_not_used(folder: Path, tmp_path: Path, warnings: pytest.LogCaptureFixture) -> None:
    """Neither by another file of the same name, nor by another file of the same folder."""
    kept, other = DiskCache(folder), DiskCache(tmp_path / "other")
    kept.store_matcher("a", HEADS)
    other.store_matcher("a", {"heads": -HEADS["heads"]})
    (path,) = data_files(folder)
    path.write_bytes(data_files(tmp_path / "other")[0].read_bytes())
    assert kept.matcher("a") is None
    kept.store_matcher("a", HEADS)
    kept.store_matcher("b", {"heads": -HEADS["heads"]})
    (second,) = (each for each in data_files(folder) if each != path)
    os.replace(second, path)
    assert kept.matcher("a") is None
    assert len(warnings.records) == 2
    assert all("its content is not what was written" in record.getMessage() for record in warnings.records)


def test_without_its_key_a_file_is_made_again(folder: Path) -> None:
    kept = DiskCache(folder)
    kept.store_matcher("a", HEADS)
    (folder / KEY_FILE).unlink()
    assert kept.matcher("a") is None
    kept.store_matcher("a", HEADS)
    assert kept.matcher("a") is not None


@needs_owners
def test_the_key_is_for_its_owner_alone(folder: Path, warnings: pytest.LogCaptureFixture) -> None:
    first = make_key(folder)
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert make_key(folder) == read_key(folder) == first
    (folder / KEY_FILE).chmod(0o640)
    assert read_key(folder) is None
    second = make_key(folder)
    assert second != first
    assert read_key(folder) == second
    assert "A new one is made" in warnings.records[0].getMessage()
    (folder / KEY_FILE).write_bytes(b"short")
    assert len(make_key(folder)) == 32
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]


def test_a_digest_is_of_the_name_and_of_each_byte() -> None:
    key = bytes(32)
    file = io.BytesIO(bytes(32) + b"content")
    digest = digest_of(file, key, "a")
    file = io.BytesIO(digest + b"content")
    check_digest(file, key, "a")
    assert file.read() == b"content"
    for content, name in ((b"content", "b"), (b"contenT", "a"), (b"conten", "a"), (b"", "a")):
        with pytest.raises(Untrusted):
            check_digest(io.BytesIO(digest + content), key, name)


@needs_owners
def test_what_is_no_file_does_not_count(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with (
        os.fdopen(os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe,
        pytest.raises(Untrusted, match="not a regular file"),
    ):
        check_owner(pipe)


def test_a_folder_that_is_missing_is_no_problem(tmp_path: Path) -> None:
    assert folder_problem(tmp_path / "missing") is None
