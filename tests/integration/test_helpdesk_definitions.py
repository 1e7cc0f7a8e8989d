"""The help desk runs from the definitions in its database."""

import json
import shutil
from pathlib import Path

from cli_play import turnwise
from helpdesk_play import HELPDESK


def test_the_help_desk_runs_from_its_database(tmp_path: Path) -> None:
    """C11: imported definitions decide as the code does, and a change decides in the next process."""
    desk = tmp_path / "desk"
    shutil.copytree(HELPDESK, desk, ignore=shutil.ignore_patterns("__pycache__", "*.db", "artifacts"))
    environment = {"HELPDESK_SESSIONS": str(tmp_path / "s.db"), "HELPDESK_DB": str(tmp_path / "shop.db")}

    def run(*arguments: str) -> str:
        result = turnwise(*arguments, cwd=desk, environment=environment)
        assert result.returncode == 0, result.stderr
        return result.stdout + result.stderr

    def chosen(text: str) -> str:
        return str(json.loads(turnwise("select", text, "--json", cwd=desk, environment=environment).stdout)["agent"])

    before = [chosen("where is my order A-10412?"), chosen("zzgl frobnicate")]
    assert "13 stored, 0 unchanged" in run("agents", "import", "definitions.yaml")
    assert "policy: from the database" in run("check", "--definitions")
    assert [chosen("where is my order A-10412?"), chosen("zzgl frobnicate")] == before
    run("agents", "add-pattern", "stores", "frobnicate", "--confidence", "0.95")
    assert chosen("zzgl frobnicate") == "stores"
    run("agents", "rollback", "stores")
    assert chosen("zzgl frobnicate") == before[1]
