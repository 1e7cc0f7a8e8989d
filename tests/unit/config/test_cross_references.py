"""Who is whose child, and what cannot be."""

from pathlib import Path
from typing import Any

import pytest
from config_play import line_only

from turnwise.config.document import Document, Mark
from turnwise.config.entries import AgentEntry, EntryTree, arrange_entries


def entry(line: int, *children: str | int, parent: str | None = None) -> AgentEntry:
    card: dict[str, Any] = {"parent": parent} if parent else {}
    return AgentEntry(("agents", line), "m:f", card, children)


def arranged(
    entries: dict[str | None, AgentEntry] | list[tuple[str | None, AgentEntry]], root: str | None = None
) -> tuple[EntryTree | None, list[str]]:
    pairs = list(entries.items()) if isinstance(entries, dict) else entries
    marks: dict[tuple[str | int, ...], Mark] = {("agents", number): Mark(number) for number in range(300)}
    document = Document(Path("t.yaml"), {}, marks)
    found = arrange_entries(document, [pair[1] for pair in pairs], [pair[0] for pair in pairs], root)
    return found, [f"{error.code} {line_only(error)}" for error in document.problems]


def test_parents_by_nesting_listing_and_name() -> None:
    found, problems = arranged(
        {"desk": entry(1, "orders", 2), "orders": entry(2), "nested": entry(3), "refunds": entry(4, parent="orders")}
    )
    assert problems == []
    assert found == EntryTree(0, {0: [1, 2], 1: [3], 2: [], 3: []})


def test_a_named_root_takes_those_without_a_parent_in_their_order() -> None:
    found, problems = arranged({"a": entry(1), "desk": entry(2), "b": entry(3), "c": entry(4, parent="b")}, root="desk")
    assert problems == []
    assert found == EntryTree(1, {0: [], 1: [0, 2], 2: [3], 3: []})


def test_a_root_by_import_path_takes_them_too() -> None:
    found, _ = arranged({"desk": AgentEntry(("root",), "m:desk", {}), "a": entry(1)})
    assert found == EntryTree(0, {0: [1], 1: []})


def test_being_listed_and_naming_the_same_parent_is_once() -> None:
    found, problems = arranged({"desk": entry(1, "a"), "a": entry(2, parent="desk")})
    assert problems == []
    assert found is not None
    assert found.children[0] == [1]


@pytest.mark.parametrize(
    ("entries", "root", "problem"),
    [
        (
            [("a", entry(1, "b")), ("b", entry(2)), ("b", entry(3, parent="a"))],
            None,
            "config.duplicate_agent t.yaml:3: Two agents are named 'b': this one and the one in line 2.",
        ),
        (
            [("a", entry(1, "b", "c")), ("b", entry(2, "c")), ("c", entry(3))],
            None,
            "config.duplicate_agent t.yaml:2: Agent 'c' is below 'a' and below 'b'.",
        ),
        (
            [("a", entry(1, "b", "b")), ("b", entry(2))],
            None,
            "config.duplicate_agent t.yaml:1: Agent 'b' is twice below 'a'.",
        ),
        (
            [("a", entry(1, "b")), ("b", entry(2, parent="c")), ("c", entry(3, parent="a"))],
            None,
            "config.duplicate_agent t.yaml:2: Agent 'b' names the parent 'c', but is below 'a'.",
        ),
        (
            [("a", entry(1)), ("b", entry(2, parent="aa"))],
            "a",
            "config.tree t.yaml:2: Agent 'b' names the parent 'aa', which does not exist. Did you mean 'a'?",
        ),
        ([("a", entry(1, "zz"))], None, "config.tree t.yaml:1: Agent 'a' names the child 'zz', which does not exist."),
        ([("a", entry(1)), ("b", entry(2))], None, "config.tree t.yaml:2: Several agents have no parent (a, b), and no root"),
        ([("a", entry(1))], "zz", "config.tree t.yaml:1: There is no agent 'zz' for the root."),
        ([("a", entry(1, "b")), ("b", entry(2))], "b", "config.tree t.yaml:2: The root 'b' is below 'a'."),
        ([("a", entry(1, parent="a"))], None, "config.tree_cycle t.yaml:1: Agents are below themselves: a → a."),
        (
            [("r", entry(1)), ("a", entry(2, parent="b")), ("b", entry(3, parent="c")), ("c", entry(4, parent="a"))],
            "r",
            "config.tree_cycle t.yaml:2: Agents are below themselves: a → b → c → a.",
        ),
    ],
)
def test_what_cannot_be_a_tree(entries: list[tuple[str | None, AgentEntry]], root: str | None, problem: str) -> None:
    """A14, A15."""
    found, problems = arranged(entries, root)
    assert found is None
    assert [text for text in problems if text.startswith(problem)] != []


def test_an_agent_that_could_not_be_read_makes_no_further_mistakes() -> None:
    found, problems = arranged([("a", entry(1)), (None, entry(2)), ("b", entry(3, parent="who"))], "a")
    assert found is None
    assert problems == []


def test_a_tree_has_an_end() -> None:
    chain: dict[str | None, AgentEntry] = {"a0": entry(0), **{f"a{n}": entry(n, parent=f"a{n - 1}") for n in range(1, 101)}}
    found, (problem,) = arranged(dict(chain))
    assert found is None
    assert "t.yaml:100: The tree is 101 levels deep at 'a100'; 100 are allowed." in problem
    del chain["a100"]
    assert arranged(dict(chain))[1] == []
