"""docs/architecture.md draws the house as tests/test_architecture.py holds it, and names files that exist."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "turnwise"

_DRAWING = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"\b(?:\w+/)+\w+\.py\b")


def floors() -> list[frozenset[str]]:
    """The table of tests/test_architecture.py."""
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "tests" / "test_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: list[frozenset[str]] = list(module.FLOORS)
    return table


def drawn(drawing: str, packages: frozenset[str]) -> dict[int, set[str]]:
    """The packages on each floor. A package's name begins a column; columns stand two spaces or more apart."""
    found: dict[int, set[str]] = {}
    floor = 0
    for line in drawing.splitlines():
        number = re.match(r"\d+", line)
        floor = int(number[0]) if number else floor
        names = {column.split(" ")[0] for column in re.split(r" {2,}", line.lstrip("0123456789").strip())}
        found.setdefault(floor, set()).update(names & packages)
    return found


def test_the_house_is_drawn_as_it_stands() -> None:
    table = floors()
    there = frozenset(path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py")
    stands = {number: set(floor & there) for number, floor in enumerate(table, 1) if floor & there}
    house = _DRAWING.findall(PAGE.read_text("utf-8"))[0]
    assert drawn(house, frozenset().union(*table)) == stands


def test_every_file_that_is_named_exists() -> None:
    names = set(_FILE.findall(PAGE.read_text("utf-8")))
    assert len(names) > 15
    assert [name for name in sorted(names) if not (SOURCE / name).is_file() and not (ROOT / name).is_file()] == []


def other_names() -> set[str]:
    """What looks like a module's name and is none: what spans are called and say, where log lines come from, events of ours
    that AG-UI carries.
    """
    carried = "".join(path.read_text("utf-8") for path in (SOURCE / "gateway" / "ag_ui").glob("*.py"))
    telling = "".join(path.read_text("utf-8") for path in (SOURCE / "telemetry").glob("*.py"))
    loggers = "".join(re.findall(r"getLogger\(.*\)", "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))))
    return set(re.findall(r'"turnwise((?:\.[a-z_]+)+)"', telling + loggers)) | {
        f".{name}" for name in re.findall(r'custom_event\("([a-z]+)"', carried)
    }


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_module_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"\bturnwise((?:\.[a-z_][a-z0-9_]*)+)", page.read_text("utf-8"))) - other_names()
    paths = {name: SOURCE.joinpath(*name.strip(".").split(".")) for name in named if name != ".yaml"}
    there = {name for name, path in paths.items() if path.is_dir() or path.with_suffix(".py").is_file()}
    assert sorted(named - there - {".yaml", ".db", ".schema.json"}) == []


def test_a_drawing_that_differs_is_seen() -> None:
    packages = frozenset({"cli", "testing", "runner", "agents"})
    assert drawn("8  cli   says cli things   testing  fakes\n5  runner\n   agents  of all kinds\n", packages) == {
        8: {"cli", "testing"},
        5: {"runner", "agents"},
    }
