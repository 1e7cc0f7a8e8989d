"""The command line: legal holds and the audit log."""

import json
from pathlib import Path

from cli_play import turnwise


def test_holds_from_add_to_remove(project: Path) -> None:
    assert "no legal holds of test" in turnwise("holds", "list", cwd=project).stderr
    added = turnwise("holds", "add", "--user", "ann", "--reason", "a lawsuit", "--json", cwd=project)
    hold = json.loads(added.stdout)
    assert (hold["user"], hold["author"]) == ("ann", "cli")
    assert json.loads(turnwise("holds", "list", "--user", "ann", "--json", cwd=project).stdout) == {"holds": [hold]}
    (line,) = turnwise("holds", "list", cwd=project).stdout.splitlines()
    assert "a lawsuit" in line
    assert turnwise("holds", "remove", hold["id"], cwd=project).returncode == 0
    again = turnwise("holds", "remove", hold["id"], cwd=project)
    assert again.returncode != 0
    assert "no legal hold" in again.stderr
    listed = json.loads(turnwise("audit", "list", "--json", cwd=project).stdout)["entries"]
    assert [(each["actor"], each["action"], each["user"]) for each in listed] == [
        ("cli", "hold.removed", "ann"),
        ("cli", "hold.added", "ann"),
    ]
    (line,) = turnwise("audit", "list", "--action", "hold.added", cwd=project).stdout.splitlines()
    assert line.endswith("cli  hold.added  ann")
    assert "no such entries" in turnwise("audit", "list", "--user", "bo", cwd=project).stderr
