"""Places in files."""

from pathlib import Path

import pytest
from config_play import line_only

from turnwise.config.document import Document, Mark, display_path, with_location
from turnwise.facts.errors import MissingExtra
from turnwise.facts.hints import install_command


def test_paths_below_the_working_folder_are_shown_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert display_path(tmp_path / "a" / "b.yaml") == "a/b.yaml"
    assert display_path(Path("/etc/other.yaml")) == "/etc/other.yaml"


def test_an_error_keeps_its_class_and_fix_when_it_gets_a_place() -> None:
    error = with_location(MissingExtra("Object storage", "s3"), "turnwise.yaml:4")
    assert error.extra == "s3"
    assert str(error).startswith("turnwise.yaml:4: Object storage needs")
    assert install_command(["s3"]) in str(error)


def test_mistakes_by_what_they_stand_below() -> None:
    marks = {("app",): Mark(1), ("agents",): Mark(2), ("agents", 0): Mark(3), ("store",): Mark(5)}
    document = Document(Path("x.yaml"), {"app": 1, "agents": [1], "store": 2}, marks)
    for where in (("agents", 0), ("store",), ("app",)):
        document.report(where, "Wrong.")
    assert [line_only(each)[:8] for each in document.problems_below("app", "store")] == ["x.yaml:1", "x.yaml:5"]
    assert [line_only(each)[:8] for each in document.problems_below("agents")] == ["x.yaml:3"]
