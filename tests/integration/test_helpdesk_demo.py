"""The help desk's scripts, as a stranger runs them: in another folder, in a pipe."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"


def _run(script: str, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "NO_COLOR": "1", "XDG_CACHE_HOME": str(folder)}
    for name in ("HELPDESK_DB", "HELPDESK_NOW", "HELPDESK_SESSIONS", "HELPDESK_ARTIFACTS"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, str(HELPDESK / script), *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_demo_plays_in_a_pipe_and_leaves_nothing(tmp_path: Path) -> None:
    """Deliverable of the demo: from any folder, without a terminal or colour, exit code 0, no file left behind."""
    before = sorted(path for path in HELPDESK.rglob("*") if "__pycache__" not in path.parts)
    done = _run("demo.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("This plays 22 messages")
    assert "\x1b" not in done.stdout
    assert "billing · transfer · orders hands the floor over" in done.stdout
    assert "saved artifact_" in done.stdout
    assert "→  supervisor · clarify" in done.stdout
    assert "→  returns · clarified" in done.stdout
    assert "→  returns · contextual_return" in done.stdout
    assert "events stored" in done.stdout
    assert "Now you" not in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert sorted(path for path in HELPDESK.rglob("*") if "__pycache__" not in path.parts) == before


def test_make_data_makes_the_database(tmp_path: Path) -> None:
    done = _run("make_data.py", str(tmp_path / "shop.db"), "--today", "2026-11-19", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "40 products, 12 stores, 15 accounts, 31 orders" in done.stdout
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("products", "stores", "accounts", "orders")
        ]
    assert counts == [40, 12, 15, 31]
    failed = _run("make_data.py", str(tmp_path / "shop.db" / "below.db"), folder=tmp_path)
    assert failed.returncode == 1
    assert "HELPDESK_DB" in failed.stderr
