"""The command line: the export of a user."""

import json
import zipfile
from pathlib import Path

from cli_play import turnwise


def test_a_user_is_exported_once_to_a_new_file(project: Path) -> None:
    """A44"""
    assert turnwise("chat", "--session", "one", "--user", "a/b", cwd=project, stdin="hello\n").returncode == 0
    done = turnwise("users", "export", "a/b", cwd=project)
    assert (done.returncode, done.stdout) == (0, "Exported the data of a/b to a_b.zip.\n")
    with zipfile.ZipFile(project / "a_b.zip") as archive:
        first = json.loads(archive.read("sessions/000001/events.jsonl").splitlines()[0])
    assert (first["author"], "hello" in json.dumps(first["content"])) == ("user", True)
    again = turnwise("users", "export", "a/b", cwd=project)
    assert (again.returncode, "exists" in again.stderr, "Traceback" in again.stderr) == (2, True, False)
    nowhere = turnwise("users", "export", "a/b", "--output", "missing/x.zip", cwd=project)
    assert (nowhere.returncode != 0, "Traceback" in nowhere.stderr) == (True, False)
    assert [path.name for path in project.glob("*.zip*")] == ["a_b.zip"]
    (entry,) = json.loads(turnwise("audit", "list", "--action", "user.exported", "--json", cwd=project).stdout)["entries"]
    assert (entry["actor"], entry["user"]) == ("cli", "a/b")
