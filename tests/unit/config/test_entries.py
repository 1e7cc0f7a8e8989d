"""Agents as they are written in a configuration file."""

from pathlib import Path

import pytest
from config_play import line_only

from turnwise.config.agent_section import LoopSection
from turnwise.config.document import Document
from turnwise.config.entries import AgentEntry, list_entries
from turnwise.config.settings import read_settings


def read(folder: Path, text: str, root: str = "") -> tuple[Document, tuple[AgentEntry, ...]]:
    (folder / "t.yaml").write_text(f"agents:\n{text}app: x\n" + (f"root: {root}\n" if root else ""))
    settings = read_settings(folder / "t.yaml", {})
    return settings.document, list_entries(settings)


def told(folder: Path, text: str, root: str = "") -> list[str]:
    document, _ = read(folder, text, root)
    return [line_only(error).removeprefix(f"{folder}/t.yaml:") for error in document.problems]


def test_import_paths_and_inline_cards(tmp_path: Path) -> None:
    text = "  - a:one\n  - {name: two, run: 'a:two', description: d, patterns: [x, {regex: y}], parent: one}\n"
    document, entries = read(tmp_path, text)
    assert document.problems == ()
    assert entries[0] == AgentEntry(("agents", 0), "a:one", {})
    assert entries[1].run == "a:two"
    assert entries[1].card == {"name": "two", "description": "d", "patterns": [{"regex": "x"}, {"regex": "y"}], "parent": "one"}


def test_a_root_by_import_path_comes_first(tmp_path: Path) -> None:
    _, entries = read(tmp_path, "  - a:one\n", root="a:root")
    assert [entry.run for entry in entries] == ["a:root", "a:one"]
    assert entries[0].where == ("root",)


def test_composites_list_and_nest_their_children(tmp_path: Path) -> None:
    text = (
        "  - name: flow\n    kind: sequential\n    children:\n      - one\n      - a:two\n"
        "      - {name: again, kind: loop, max_iterations: 2, children: [{name: three, run: 'a:three'}]}\n"
    )
    document, entries = read(tmp_path, text)
    assert document.problems == ()
    assert entries[0].children == ("one", 1, 2)
    assert entries[2].children == (3,)
    assert isinstance(entries[2].section, LoopSection)
    assert entries[2].section.max_iterations == 2
    assert entries[3].where == ("agents", 0, "children", 2, "children", 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("  x: y\n", "1: 'agents' should be a list, but is keys and values."),
        ("  []\n", "1: The file names no agents."),
        ("  - 3\n", "2: An agent is an import path or keys and values; this is a number."),
        ("  - {name: a}\n", "2: An agent of kind 'function' needs 'run'."),
        ("  - {description: a}\n", "2: An agent of kind 'function' needs 'run'."),
        ("  - {name: a, run: 'm:a', descripton: x}\n", "2: An agent of kind 'function' has no key 'descripton'. Did you mean"),
        (
            "  - {name: a, run: 'm:a', max_iterations: 3}\n",
            "2: An agent of kind 'function' has no key 'max_iterations'. It bel",
        ),
        ("  - {name: a, kind: loop}\n", "2: An agent of kind 'loop' needs 'children'."),
        ("  - {kind: team, children: [b]}\n", "2: An agent of kind 'team' needs 'name'."),
        ("  - {name: a, kind: loop, run: 'm:a', children: [b]}\n", "2: An agent of kind 'loop' has no key 'run'."),
        ("  - {name: a, run: 'm:a', children: b}\n", "2: 'children' should be a list, but is text."),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = told(tmp_path, text)
    assert found.startswith(problem)


def test_an_entry_that_cannot_be_read_keeps_its_position(tmp_path: Path) -> None:
    _, entries = read(tmp_path, "  - 3\n  - a:one\n")
    assert [entry.is_valid for entry in entries] == [False, True]
