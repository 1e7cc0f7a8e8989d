"""The definitions that a machine served last."""

import random
from pathlib import Path
from typing import BinaryIO

import pytest

from turnwise.config import served_definitions
from turnwise.config.served_definitions import KeptDefinitions
from turnwise.ports.definitions import Definition, DefinitionSet, PolicyDefinition

SERVED = DefinitionSet(
    7, (Definition(name="x", version=2, revision=6, examples=("a", "b")),), (PolicyDefinition(policy="default"),)
)


def test_they_come_back_as_they_were(tmp_path: Path) -> None:
    """F7: for this app and store only."""
    kept = KeptDefinitions(tmp_path / "cache", "app", "sqlite:///x.db")
    assert kept.read() is None
    kept.write(SERVED)
    kept.write(SERVED)
    assert kept.read() == SERVED
    assert KeptDefinitions(tmp_path / "cache", "other", "sqlite:///x.db").read() is None
    assert [file.stat().st_mode & 0o077 for file in (tmp_path / "cache").iterdir()] == [0]


def test_what_is_damaged_or_open_to_others_counts_as_missing(tmp_path: Path) -> None:
    """F7"""
    kept = KeptDefinitions(tmp_path, "app", "store")
    kept.write(SERVED)
    (file,) = tmp_path.iterdir()
    file.chmod(0o666)
    assert kept.read() is None
    file.chmod(0o600)
    for text in ("", "[]", "{}", '{"revision": 1, "agents": ["{}"], "policies": []}'):
        file.write_text(text)
        assert kept.read() is None
    KeptDefinitions(file, "app", "store").write(SERVED)


def changed(before: DefinitionSet, revision: int, *, tags: tuple[str, ...] = (), gone: bool = False) -> DefinitionSet:
    """`before` with one agent more, its first one changed, and without its last one if `gone`."""
    first, *others = before.agents
    kept = others[:-1] if gone else others
    new = Definition(name=f"n{revision:04}", version=1, revision=revision)
    agents = sorted((first.replace(tags=tags, version=revision, revision=revision), *kept, new), key=lambda each: each.name)
    return before._replace(revision=revision, agents=tuple(agents))


def many(count: int) -> DefinitionSet:
    agents = [Definition(name=f"a{number:04}", version=1, revision=1, examples=("x" * 500,)) for number in range(count)]
    return DefinitionSet(1, tuple(agents), (PolicyDefinition(policy="default", version=1, revision=1),))


@pytest.mark.parametrize("seed", range(5))
def test_a_change_adds_only_what_changed(tmp_path: Path, seed: int) -> None:
    """F7: whatever the changes are, the file then gives the last set."""
    chosen, now = random.Random(seed), many(200)
    kept = KeptDefinitions(tmp_path, "app", "store")
    kept.write(now)
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    for revision in sorted(chosen.sample(range(2, 50), 10)):
        now = changed(now, revision, tags=(f"t{revision}",), gone=chosen.random() < 0.5)
        kept.write(now)
        assert KeptDefinitions(tmp_path, "app", "store").read() == now
    assert file.stat().st_size - size < size / 10
    assert file.stat().st_mode & 0o077 == 0


def test_many_changes_do_not_fill_the_disk(tmp_path: Path) -> None:
    """F7"""
    kept, now = KeptDefinitions(tmp_path, "app", "store"), many(2)
    for revision in range(2, 600):
        now = now._replace(revision=revision, agents=(now.agents[0].replace(examples=("y" * 2_000,)), *now.agents[1:]))
        kept.write(now)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 250_000
    assert kept.read() == now


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_line_that_a_crash_cut_counts_not_at_all(tmp_path: Path, cut: int) -> None:
    """F7: the set before it serves, and the next one is kept whole."""
    kept, now = KeptDefinitions(tmp_path, "app", "store"), many(3)
    kept.write(now)
    second = changed(now, 2)
    kept.write(second)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    assert kept.read() == now
    third = changed(second, 3)
    kept.write(third)
    assert kept.read() == third


def test_processes_of_a_machine_share_the_file(tmp_path: Path) -> None:
    """F7: one that wrote a revision already, one that comes late, and one that has missed some."""
    one, two = (KeptDefinitions(tmp_path, "app", "store") for _ in range(2))
    sets = [many(3)]
    for revision in range(2, 7):
        sets.append(changed(sets[-1], revision, gone=revision == 4))
    one.write(sets[0])
    two.write(sets[0])
    (file,) = tmp_path.iterdir()
    one.write(sets[1])
    size = file.stat().st_size
    two.write(sets[1])
    assert file.stat().st_size == size, "the other one wrote this revision"
    one.write(sets[2])
    two.write(sets[4])
    one.write(sets[3])
    assert one.read() == sets[4]
    one.write(sets[5])
    assert two.read() == sets[5]


@pytest.mark.parametrize("first", [2, 3])
def test_two_processes_that_write_at_once_leave_the_later_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """F7: the other one writes after this one has read the end of the file."""
    one, two = (KeptDefinitions(tmp_path, "app", "store") for _ in range(2))
    sets = [many(3)]
    for revision in range(2, 6):
        sets.append(changed(sets[-1], revision))
    one.write(sets[0])
    two.write(sets[0])
    is_own = served_definitions._is_own

    def meanwhile(file: BinaryIO) -> bool:
        monkeypatch.setattr(served_definitions, "_is_own", is_own)
        one.write(sets[first - 1])
        return is_own(file)

    monkeypatch.setattr(served_definitions, "_is_own", meanwhile)
    two.write(sets[4 - first])
    two.write(sets[3])
    assert one.read() == sets[3]
    one.write(sets[4])
    assert two.read() == sets[4]
