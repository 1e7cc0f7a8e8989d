"""The command line: pruning by the rules of retention."""

import json
from pathlib import Path

from cli_play import turnwise


def test_pruning_counts_first_and_then_deletes(project: Path) -> None:
    for session in ("one", "two"):
        assert turnwise("chat", "--session", session, cwd=project, stdin="hello\n").returncode == 0
    nothing = turnwise("prune", cwd=project)
    assert (nothing.returncode, nothing.stdout) == (0, "There is nothing to prune.\n")
    with (project / "turnwise.yaml").open("a") as file:
        file.write("\nretention:\n  sessions: {most: 1}\n")
    dry = json.loads(turnwise("prune", "--dry-run", "--json", cwd=project).stdout)
    assert (dry["dry_run"], dry["pruned"]["sessions"]) == (True, 1)
    assert turnwise("prune", cwd=project).stdout == "Pruned 1 sessions.\n"
    assert turnwise("prune", "--dry-run", cwd=project).stdout == "There is nothing to prune.\n"
    (kept,) = json.loads(turnwise("sessions", "list", "--json", cwd=project).stdout)["sessions"]
    assert kept["session"] == "two"
    (entry,) = json.loads(turnwise("audit", "list", "--json", cwd=project).stdout)["entries"]
    assert (entry["actor"], entry["action"], entry["details"]) == ("retention", "sessions.pruned", {"sessions": 1})


def test_an_impossible_rule_is_a_mistake_of_the_file(project: Path) -> None:
    with (project / "turnwise.yaml").open("a") as file:
        file.write("\nretention:\n  sessions: {days: 0}\n")
    refused = turnwise("prune", cwd=project)
    assert refused.returncode != 0
    assert "days" in refused.stderr
    assert "Traceback" not in refused.stderr
