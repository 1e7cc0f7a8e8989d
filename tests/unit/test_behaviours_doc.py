"""docs/behaviours.md and the tests say the same: what holds is pinned, and what is pinned holds.

A test pins what its docstring cites; so does a case of a conformance suite in `turnwise.testing`, which tests run. Tests
of the examples show behaviours and pin none.

`python tests/unit/test_behaviours_doc.py A13` prints the tests that cite A13; without an id, all of them.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "behaviours.md"
LAST = {"A": 44, "B": 7, "C": 20, "D": 13, "E": 9, "F": 8, "G": 8, "H": 7, "I": 4, "J": 3, "K": 4}
FIRST = {"I": 4}
"""The first id of a section that does not begin with 1."""
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
MARKS = frozenset({"holds", "in part", "not yet"})

_ITEM = re.compile(r"^- \*\*([A-K]\d+)\*\* \[([^\]]*)\] (.+?)(?=^- |^#|^$|\Z)", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"(?<![\w-])([A-K]\d{1,2})(?:(?: to |–|-)([A-K])(\d{1,2}))?(?![\w-])")


def ids_in(text: str) -> set[str]:
    """The ids a text names; `A2–A5` and `A2 to A5` name four."""
    found: set[str] = set()
    for first, letter, last in _ID.findall(text):
        to = int(last) if letter == first[0] else int(first[1:])
        found |= {f"{first[0]}{number}" for number in range(int(first[1:]), to + 1)}
    return found


def cited(root: Path) -> dict[str, list[str]]:
    """Where the docstrings of tests, of classes of tests, and of cases name ids: id to `file::test`."""
    found: dict[str, list[str]] = {}
    tests = (path for path in (root / "tests").rglob("test_*.py") if "examples" not in path.parts)
    cases = (root / "src" / "turnwise" / "testing").rglob("*.py")
    for path, begins in [*((path, "test") for path in sorted(tests)), *((path, "") for path in sorted(cases))]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name.startswith(begins)
                and node.name[0] != "_"
            ):
                for id_ in ids_in(ast.get_docstring(node) or ""):
                    found.setdefault(id_, []).append(f"{path.relative_to(root)}::{node.name}")
    return found


def marks(page: str) -> list[tuple[str, str, str]]:
    """Every behaviour's id, mark and text, in the order of the page."""
    return [(id_, mark, " ".join(text.split())) for id_, mark, text in _ITEM.findall(page)]


def complaints(page: str, cited: set[str]) -> list[str]:
    """What the page and the tests do not agree on."""
    behaviours = marks(page)
    count = Counter(id_ for id_, _, _ in behaviours)
    wanted = {f"{letter}{number}" for letter, last in LAST.items() for number in range(FIRST.get(letter, 1), last + 1)}
    found = [f"{id_} is missing" for id_ in sorted(wanted - count.keys())]
    found += [f"{id_} is there {times} times" for id_, times in count.items() if times > 1]
    found += [f"{id_} has the mark {mark!r}" for id_, mark, _ in behaviours if mark not in MARKS]
    found += [
        f"{id_} is {mark!r}, but the text {'says' if '*Not yet*' in text else 'does not say'} what is not yet so"
        for id_, mark, text in behaviours
        if ("*Not yet*" in text) != (mark == "in part")
    ]
    found += [f"{id_} is cited by a test and stands nowhere" for id_ in sorted(cited - count.keys())]
    found += [f"{id_} {mark}, but no test cites it" for id_, mark, _ in behaviours if mark != "not yet" and id_ not in cited]
    found += [f"{id_} is not yet so, but a test cites it" for id_, mark, _ in behaviours if mark == "not yet" and id_ in cited]
    return found


def test_the_page_and_the_tests_agree() -> None:
    assert "\n".join(complaints(PAGE.read_text("utf-8"), set(cited(ROOT)))) == ""


def small(**changes: str) -> str:
    """A page in which everything holds, but for the given items."""
    ids = [f"{letter}{number}" for letter, last in LAST.items() for number in range(FIRST.get(letter, 1), last + 1)]
    return "\n".join(changes.get(id_, f"- **{id_}** [holds] Text\n  of two lines.") for id_ in ids)


ALL = {id_ for id_, _, _ in marks(small())}


def test_what_does_not_agree_is_found() -> None:
    assert complaints(small(), ALL) == []
    assert complaints(small(A2=""), ALL - {"A2"}) == ["A2 is missing"]
    assert complaints(small(A2="- **A1** [holds] Again."), ALL - {"A2"}) == ["A2 is missing", "A1 is there 2 times"]
    assert complaints(small(), ALL | {"A45"}) == ["A45 is cited by a test and stands nowhere"]
    assert complaints(small(), ALL - {"E9"}) == ["E9 holds, but no test cites it"]
    assert complaints(small(E9="- **E9** [not yet] Text."), ALL) == ["E9 is not yet so, but a test cites it"]
    assert complaints(small(E9="- **E9** [soon] Text."), ALL) == ["E9 has the mark 'soon'"]
    assert len(complaints(small(E9="- **E9** [in part] All of it."), ALL)) == 1


def test_ids_and_ranges_are_found() -> None:
    assert ids_in("A1, B7: and A10–A12; C2 to C4 (D1)") == {"A1", "B7", "A10", "A11", "A12", "C2", "C3", "C4", "D1"}
    assert ids_in("a file named A1B, the size A4-landscape, a1, XA1") == set()


def test_citations_come_from_docstrings_of_tests_and_cases(tmp_path: Path) -> None:
    tests = 'def test_x():\n    """A2 [+]: text."""\n    # A3\n\n\nasync def test_y():\n    """B1"""\n'
    text = f'"""A1"""\n{tests}\n\ndef x():\n    """A5"""\n'
    case = 'async def is_kept():\n    """C1"""\n\n\ndef _made():\n    """C2"""\n'
    for name, content in {"tests/test_a.py": text, "src/turnwise/testing/cases.py": case, "tests/a.py": tests}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    assert cited(tmp_path) == {
        "A2": ["tests/test_a.py::test_x"],
        "B1": ["tests/test_a.py::test_y"],
        "C1": ["src/turnwise/testing/cases.py::is_kept"],
    }


if __name__ == "__main__":
    for id_, places in sorted(cited(ROOT).items()):
        if id_ in sys.argv[1:] or not sys.argv[1:]:
            print(id_, *places, sep="\n  ")
