"""`turnwise policy show` and `turnwise tree show`."""

from pathlib import Path

import pytest
from cli_play import turnwise

from turnwise.selection.diagram import STAGES
from turnwise.selection.named import NAMED


def test_the_policy_of_the_app_is_drawn_in_its_order(shop: Path) -> None:
    said = turnwise("policy", "show", cwd=shop)
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0] == "policy default"
    numbered = [line.split(":")[0].split(maxsplit=1)[1] for line in lines if line[:2].strip().isdigit()]
    assert [each.split(" (")[0] for each in numbered] == [stage.name or stage.selector for stage in NAMED["default"].stages]
    assert lines[-1].strip() == "nobody chose: the tree's root"


def test_a_named_policy_needs_no_project(tmp_path: Path) -> None:
    said = turnwise("policy", "show", "adk", "--format", "mermaid", cwd=tmp_path)
    assert said.returncode == 0
    assert said.stdout.startswith("flowchart TD\n")
    assert "resume #91;rule adk#93;" in said.stdout


def test_the_tree_is_drawn(shop: Path) -> None:
    text = turnwise("tree", "show", cwd=shop).stdout.splitlines()
    assert text[0].startswith("desk (function)")
    assert [line.split(" (")[0] for line in text[1:]] == ["├─ orders", "├─ returns", "└─ hours"]
    drawn = turnwise("tree", "show", "--format", "mermaid", cwd=shop).stdout.splitlines()
    assert drawn[0] == "flowchart TD"
    assert "  a0 --> a3" in drawn


@pytest.mark.parametrize("what", ["policy", "tree"])
def test_another_format_is_a_usage_error(shop: Path, what: str) -> None:
    said = turnwise(what, "show", "--format", "svg", cwd=shop)
    assert said.returncode == 2
    assert "text and mermaid" in said.stderr


def test_every_selector_that_ships_is_described() -> None:
    used = {stage.selector for policy in NAMED.values() for stage in policy.stages}
    assert used - STAGES.keys() == set()
