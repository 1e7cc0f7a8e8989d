"""What ./dev test adapters installs: every adapter's test has its pins, by version and without addresses."""

import re
import tomllib
from pathlib import Path

from frameworks_play import files

HERE = Path(__file__).resolve().parent


def test_every_adapter_has_a_test_and_pins() -> None:
    adapters = {path.stem for path in HERE.glob("test_*.py")} - {Path(__file__).stem}
    assert {f"test_{path.stem}" for path in HERE.glob("*.txt")} == adapters
    for path in HERE.glob("*.txt"):
        pins = path.read_text("utf-8").splitlines()
        assert pins == sorted(pins), path.name
        assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin)] == [], path.name


def test_the_pins_hold_all_that_turnwise_needs() -> None:
    """It is installed without its dependencies, beside the pins."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.match(r"[\w-]+", each)[0] for each in project["dependencies"]}  # type: ignore[index]
    for path in HERE.glob("*.txt"):
        pinned = {pin.partition("==")[0] for pin in path.read_text("utf-8").splitlines()}
        assert needed - pinned == set(), path.name


def test_every_file_of_the_page_on_frameworks_is_run() -> None:
    tests = "".join(path.read_text("utf-8") for path in HERE.glob("test_*.py"))
    assert set(re.findall(r'shown_and_printed\("([\w.]+)"', tests)) == files() != set()
