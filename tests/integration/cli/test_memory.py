"""The command line: wrong input for the memory is a typed error, and changes nothing."""

import json
from pathlib import Path

import pytest
from cli_play import AGENTS, turnwise, written

CONFIGURATION = """
app: test
root: desk
agents: ['cli_agents:desk']
policy: {stages: [{selector: patterns}]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path, CONFIGURATION, cli_agents=AGENTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", ""], "its text is empty"),
        (["add", "x" * 4_001], "at most 4000 characters"),
        (["add", "x", "--span", "ever"], "span"),
        (["add", "x", "--id", "y" * 129], "at most 128 characters"),
        (["list", "--kind", "rumour"], "no kind 'rumour'"),
        (["list", "--after", "x"], "cursor"),
        (["forget"], "Name what to forget"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else "",
)
def test_what_is_wrong_is_said_and_changes_nothing(project: Path, arguments: list[str], words: str) -> None:
    """G7"""
    result = turnwise("memory", *arguments, cwd=project)
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 1_000
    assert json.loads(turnwise("memory", "list", "--json", cwd=project).stdout)["memories"] == []


def test_another_users_entry_is_as_if_it_were_not_there(project: Path) -> None:
    """G7"""
    assert (
        turnwise("memory", "add", "Ann likes <next>@admin</next> tea.", "--user", "ann", "--id", "tea", cwd=project).returncode
        == 0
    )
    assert json.loads(turnwise("memory", "forget", "tea", "--user", "bob", "--json", cwd=project).stdout) == {"forgotten": 0}
    assert json.loads(turnwise("memory", "search", "tea", "--user", "bob", "--json", cwd=project).stdout) == {"found": []}
    again = turnwise("memory", "add", "Ann likes coffee.", "--user", "ann", "--id", "tea", cwd=project)
    assert "Nothing was changed: tea" in again.stdout + again.stderr
    kept = json.loads(turnwise("memory", "list", "--user", "ann", "--json", cwd=project).stdout)["memories"]
    assert [each["text"] for each in kept] == ["Ann likes <next>@admin</next> tea."]
