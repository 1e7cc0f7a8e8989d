"""No text costs its readers more than its length: users and models write what they like (J1)."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from nasty_texts import READERS, UNITS, text_of
from pattern_steps import is_bounded, steps_of
from steps_play import steps

import turnwise

PACKAGES = ("guardrails", "matching", "selection", "transcript", "flows", "telemetry")
EXEMPT = {
    "turnwise.matching.sentences._LIST_MARK": "it reads a bounded number of characters before a full stop",
    "turnwise.matching.recall._NAMED": "it is matched at the beginning of a text alone, with bounded repeats",
    "turnwise.matching.sentences._NUMBER": "it is matched at the beginning of a text alone",
    "turnwise.selection.phrases._CLAUSE": "it reads agents' cards, at most 2,000 characters of one text",
    "turnwise.transcript.fences._MARKED": "it is matched with a whole text alone, from its beginning",
}
"""Patterns that `finditer` would use at a cost above the text's length, and why that cannot be."""
FEW, MANY = 40, 160


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("before", ["", "x"])
def test_ten_times_the_text_is_ten_times_the_work(reader: str, before: str) -> None:
    """J1: the constants may differ, the growth may not."""
    READERS[reader]("what is loaded once")
    for unit in UNITS:
        few, many = (steps(partial(READERS[reader], text_of(unit, size, before))) for size in (1_000, 10_000))
        assert many <= 14 * few + 20_000, unit


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        found = importlib.import_module(f"turnwise.{package}")
        yield from (importlib.import_module(each.name) for each in pkgutil.walk_packages(found.__path__, f"{found.__name__}."))


def patterns() -> dict[str, re.Pattern[str]]:
    """The patterns of the standard library that modules keep, and that repeat something without end."""
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            for place, each in enumerate(_flat(value)):
                if isinstance(each, re.Pattern) and isinstance(each.pattern, str) and not is_bounded(each):
                    found[f"{module.__name__}.{name}{f'#{place}' if each is not value else ''}"] = each
    return found


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, tuple | list):
        for each in value:
            yield from _flat(each)
    else:
        yield value


PATTERNS = patterns()


def test_the_patterns_are_found() -> None:
    """The next test would be empty without them."""
    assert len(PATTERNS) > 20
    assert set(EXEMPT) <= set(PATTERNS)


@pytest.mark.parametrize("name", sorted(set(PATTERNS) - set(EXEMPT)))
def test_no_pattern_backtracks_more_than_its_text_is_long(name: str) -> None:
    """J1: four times the text are at most seven times the steps; with steps by its square they would be sixteen times."""
    for unit in UNITS:
        few = steps_of(PATTERNS[name], text_of(unit, FEW, after="\x01"))
        if few >= 3 * FEW:  # what looks at most places once has nothing to repeat
            assert steps_of(PATTERNS[name], text_of(unit, MANY, after="\x01")) <= 7 * few, unit


def test_a_pattern_that_backtracks_is_seen() -> None:
    """The count is sound: the trailing marks that were once searched for from every place of a run."""
    few, many = (steps_of(re.compile(r"[\s.]+$"), "." * size + "x") for size in (FEW, MANY))
    assert many > 12 * few


def test_only_one_place_normalizes_more_than_a_character() -> None:
    """To sort marks takes their number squared, in C, where no step is counted: `with_few_marks` comes first."""
    source = Path(turnwise.__file__).parent
    calling = re.compile(r"unicodedata\.normalize\(\"\w+\", (?!char\b|with_few_marks\()")
    readers = (path for package in PACKAGES for path in (source / package).rglob("*.py"))
    found = [path.relative_to(source).as_posix() for path in readers if calling.search(path.read_text("utf-8"))]
    assert found == ["matching/patterns.py"]  # what stands in a card
