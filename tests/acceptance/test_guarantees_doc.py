"""docs/guarantees.md: every promise names a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guarantees.md"

_CITED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


@cache
def functions_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def promises(page: str) -> list[str]:
    """The items above the heading of what is not promised."""
    promised = page.partition("## Not promised")[0]
    return [" ".join(item.split()) for item in re.split(r"^- ", promised, flags=re.MULTILINE)[1:]]


def complaints(page: str, root: Path) -> list[str]:
    found = []
    for promise in promises(page):
        title = promise[:60]
        cited = _CITED.findall(promise)
        if not cited:
            found.append(f"no test holds: {title}")
        for name, test in cited:
            files = [path for path in (root / "tests").rglob(Path(name).name) if path.as_posix().endswith(f"/{name}")]
            if not any(test in functions_in(path) for path in files):
                found.append(f"there is no {name}::{test} for: {title}")
    return found


def test_every_promise_is_held_by_a_test() -> None:
    page = PAGE.read_text("utf-8")
    assert len(promises(page)) > 15
    assert complaints(page, ROOT) == []


def test_a_promise_without_a_test_is_found() -> None:
    page = "- **One.** `test_guarantees_doc.py::test_nobody`\n- **Two.**\n## Not promised\n- Three.\n"
    first, second = complaints(page, ROOT)
    assert first.startswith("there is no test_guarantees_doc.py::test_nobody for: **One.**")
    assert second == "no test holds: **Two.**"
