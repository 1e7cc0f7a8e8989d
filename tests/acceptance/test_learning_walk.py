"""The walk-through of docs/learning.md, as a reader types it: from the first label to definitions that serve."""

import os
import re
import subprocess
import sys
from pathlib import Path

from warm_cli import warm_folder

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "learning.md"
SECONDS = 200


def test_the_walk_through_teaches_the_help_desk(tmp_path: Path) -> None:
    """C16, H4: every command of the page works, and decisions are better in the end."""
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    # Commands that need a process each are few: what is prepared once is kept for the next one.
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(warm_folder()), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HELPDESK_DB": str(tmp_path / "shop.db"),
        "TURNWISE_CACHE": str(tmp_path / "cache"),
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    labelled = re.findall(r"(\d+) decisions are labelled, (\d+) of them were wrong", done.stdout)
    (first, wrong), (later, still_wrong) = [(int(count), int(errors)) for count, errors in labelled]
    assert wrong / first > 2 * still_wrong / later, labelled
    assert "agent orders: version 1, draft" in done.stdout
    assert "agent orders: version 2, active" in done.stdout
    assert "agent orders: version 3, active" in done.stdout
    assert "learned example" not in done.stderr
