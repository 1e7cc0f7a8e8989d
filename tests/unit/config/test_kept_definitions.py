"""The definitions that a machine served last."""

from pathlib import Path

from turnwise.config.kept_definitions import KeptDefinitions
from turnwise.facts.definitions import Definition, PolicyDefinition
from turnwise.ports.definitions import DefinitionSet

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
