"""The keys of the whole file: one wrong node is told with its line, and the schema for editors agrees with the loader."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_play import RICH, RICH_CODE, Change, changes, line_only, module_in
from jsonschema import Draft7Validator

from turnwise.config.agent_builder import AgentBuilder
from turnwise.config.app_file import AppFile
from turnwise.config.document import Document, read_document
from turnwise.config.policies import read_policy
from turnwise.config.schema import file_schema
from turnwise.config.settings import Settings, read_settings
from turnwise.config.validation import keys_of

Where = tuple[str | int, ...]
DECIDES_THE_FORM = {"kind", "use", "selector", "import", "run", "model", "mcp", "agent", "labels", "schema"}
"""Keys that decide which other keys are allowed beside them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("rich")
    with module_in(place, RICH_CODE) as name:
        (place / "rich.yaml").write_text(RICH.replace("M:", f"{name}:"))
        yield place


def written(folder: Path, data: Any) -> Settings:
    """The settings of a file with these data, every node in a line of its own."""
    (folder / "t.yaml").write_text(yaml.dump(data, sort_keys=False, default_flow_style=False, Dumper=_WithoutAliases))
    return read_settings(folder / "t.yaml", {})


class _WithoutAliases(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def lines_of(settings: Settings) -> list[int]:
    return [
        int(line_only(error).removeprefix(f"{settings.document.path}:").partition(":")[0])
        for error in settings.document.problems
    ]


def last_line(document: Document, where: Where) -> int:
    """The last line of the value at a location."""
    value = document.value(where)
    steps = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return max([document.mark(where).line, *(last_line(document, (*where, step)) for step in steps)])


def may_name(document: Document, change: Change) -> range:
    """The lines that a mistake may name which comes from this change."""
    what, where, _ = change
    name = str(where[-1])
    is_wide = {name, name.removesuffix("x")} & DECIDES_THE_FORM or what == "delete"
    place = where[:-1] if is_wide else where
    first = document.mark(place).line
    return range(first if what != "rename" else document.mark(where[:-1]).line, last_line(document, place) + 1)


def test_the_file_is_valid(folder: Path) -> None:
    settings = read_settings(folder / "rich.yaml", {})
    assert [str(error) for error in settings.document.problems] == []
    root = AgentBuilder(settings, {}).root()
    assert root is not None
    assert read_policy(settings) is not None
    assert [str(error) for error in settings.document.problems] == []


SECTIONS = [key for key in keys_of(AppFile) if key not in ("app", "root")]
STRIDE = 7
"""Of all changes each seventh is tried: about every node, in turn deleted, renamed, and with another type."""


@pytest.mark.parametrize("section", SECTIONS)
def test_one_wrong_node_is_told_with_its_line_and_the_schema_agrees(folder: Path, section: str) -> None:
    """Nodes of a valid file are deleted, renamed or given another type, one at a time."""
    whole = read_document(folder / "rich.yaml", {}).data
    parts = [[agent] for agent in whole["agents"]] if section == "agents" else [whole[section]]
    validator = Draft7Validator(file_schema())
    for part in parts:
        data = {"app": "shop", "root": "m:desk", section: part}
        for change in itertools.islice(changes(data), 0, None, STRIDE):
            settings = written(folder, change[2])
            told = [str(error) for error in settings.document.problems]
            allowed = may_name(settings.written, change)
            assert [line for line in lines_of(settings) if line not in allowed] == [], (change[:2], told)
            assert bool(told) != validator.is_valid(change[2]), (change[:2], told)


def test_agents_and_policies_of_a_partly_wrong_file_are_built_as_far_as_they_go(folder: Path) -> None:
    """No mistake of the file becomes an exception later."""
    data = read_document(folder / "rich.yaml", {}).data
    for change in itertools.islice(changes(data), 0, None, 61):
        settings = written(folder, change[2])
        AgentBuilder(settings, {}).root()
        read_policy(settings)


def test_mistakes_of_all_sections_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "app: shop\nroot: m:desk\nlimits: {turns: x, queu: 1}\nagents:\n  - {name: a, kind: llm, modle: x}\n"
        "  - {run: 'm:x', enabled: 1}\npolicy: {stages: [{selector: patterns, options: {treshold: 1}}]}\nhooks: [3]\n"
    )
    (tmp_path / "t.yaml").write_text(text)
    told = [
        str(error).removeprefix(f"{tmp_path}/t.yaml:") for error in read_settings(tmp_path / "t.yaml", {}).document.problems
    ]
    assert [line.split(" ")[0] for line in told] == ["3:10:", "3:20:", "5:5:", "5:26:", "6:18:", "7:50:", "8:9:"]
    assert "Did you mean 'queue'?" in told[1]
    assert "An agent of kind 'llm' has no key 'modle'. Did you mean 'model'?" in told[3]
    assert "Did you mean 'threshold'?" in told[5]


def test_a_mistake_in_an_anchor_is_told_once_at_the_anchor(tmp_path: Path) -> None:
    text = (
        "app: shop\nx-all: &all\n  examples: [3]\nagents:\n  - {<<: *all, run: 'm:a'}\n  - {<<: *all, run: 'm:b'}\n"
        "  - run: m:c\n    <<: *all\n    tags: 1\n"
    )
    (tmp_path / "t.yaml").write_text(text)
    told = [
        str(error).removeprefix(f"{tmp_path}/t.yaml:") for error in read_settings(tmp_path / "t.yaml", {}).document.problems
    ]
    assert [line[:21] for line in told] == ["3:14: 'examples[0]' s", "9:5: 'tags' should be"]
