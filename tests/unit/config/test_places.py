"""Places in files, and what was probably meant."""

from pathlib import Path

import pytest

from turnwise.config.places import did_you_mean, placed, shown
from turnwise.facts.errors import MissingExtra


def test_paths_below_the_working_folder_are_shown_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "a" / "b.yaml") == "a/b.yaml"
    assert shown(Path("/etc/other.yaml")) == "/etc/other.yaml"


@pytest.mark.parametrize(
    ("given", "known", "sentence"),
    [
        ("polcy", ["policy", "store"], "Did you mean 'policy'?"),
        ("POLICY", ["policy", "store"], "Did you mean 'policy'?"),
        ("zzz", ["policy", "store"], "Known: policy, store."),
        ("zzz", [], "There are none."),
    ],
)
def test_did_you_mean(given: str, known: list[str], sentence: str) -> None:
    assert did_you_mean(given, known) == sentence


def test_a_long_list_of_what_is_known_is_cut() -> None:
    assert did_you_mean("?", [f"agent-{number}" for number in range(100)]).endswith("agent-19, … (100 in all).")


def test_an_error_keeps_its_class_and_fix_when_it_gets_a_place() -> None:
    error = placed(MissingExtra("Object storage", "s3"), "turnwise.yaml:4")
    assert error.extra == "s3"
    assert str(error).startswith("turnwise.yaml:4: Object storage needs")
    assert "turnwise[s3]" in str(error)
