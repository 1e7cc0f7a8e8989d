"""docs/errors.md lists every error there is, each once, under its code and class."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from turnwise.facts import errors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
_ROW = re.compile(r"^\| `([a-z_.]+)` \| `(\w+)` \| (.+?) \| (.*?) ?\|$", re.MULTILINE)


def below(kind: type[errors.TurnwiseError]) -> Iterator[type[errors.TurnwiseError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from below(child)


def test_every_error_is_explained() -> None:
    rows = [(code, name) for code, name, *_ in _ROW.findall(PAGE.read_text("utf-8"))]
    assert Counter(rows) == Counter((kind.code, kind.__name__) for kind in below(errors.TurnwiseError))


def test_codes_are_unique_and_follow_the_tree() -> None:
    kinds = list(below(errors.TurnwiseError))
    assert [code for code, count in Counter(kind.code for kind in kinds).items() if count > 1] == []
    branches = [kind for kind in kinds if kind.__base__ is errors.TurnwiseError]
    wrong = [kind.code for branch in branches for kind in below(branch) if not kind.code.startswith(branch.code + ".")]
    assert wrong == []


def test_the_tree_that_is_drawn_is_the_tree() -> None:
    assert errors.__doc__ is not None
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__))
    assert drawn == {kind.__name__ for kind in below(errors.TurnwiseError)}
