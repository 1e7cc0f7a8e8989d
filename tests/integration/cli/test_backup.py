"""The command line: backups of a store, and what they restore."""

import json
from pathlib import Path

from cli_play import turnwise


def sessions_of(folder: Path) -> list[str]:
    listed = json.loads(turnwise("sessions", "list", "--json", cwd=folder).stdout)
    return [each["session"] for each in listed["sessions"]]


def test_what_was_backed_up_comes_back_without_what_followed(project: Path) -> None:
    assert turnwise("chat", "-s", "before", cwd=project, stdin="hello\n").returncode == 0
    assert turnwise("backup", "saved.zip", cwd=project).stdout == "Backed up the store to saved.zip.\n"
    assert turnwise("chat", "-s", "after", cwd=project, stdin="hello\n").returncode == 0
    assert sessions_of(project) == ["after", "before"]
    again = turnwise("backup", "saved.zip", cwd=project)
    assert again.returncode != 0
    assert "saved.zip" in again.stderr
    used = turnwise("restore", "saved.zip", cwd=project)
    assert used.returncode != 0
    assert sessions_of(project) == ["after", "before"]
    for file in project.glob("*.db*"):
        file.unlink()
    assert turnwise("restore", "saved.zip", cwd=project).stdout == "Restored the store from saved.zip.\n"
    assert sessions_of(project) == ["before"]
    assert turnwise("chat", "-s", "before", cwd=project, stdin="hello again\n").returncode == 0


def test_a_file_that_is_no_backup_changes_nothing(project: Path) -> None:
    (project / "other.zip").write_bytes(b"PK\x03\x04 no archive")
    for file in ("other.zip", "none.zip"):
        refused = turnwise("restore", file, cwd=project)
        assert refused.returncode != 0
        assert file in refused.stderr
        assert "Traceback" not in refused.stderr
    assert turnwise("chat", "-s", "s", cwd=project, stdin="hello\n").returncode == 0
    assert sessions_of(project) == ["s"]
