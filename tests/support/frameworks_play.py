"""Runs a file of the page on other frameworks as its reader does: beside `shop.py`, in an empty folder, without a key."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "start" / "frameworks.md"
SECONDS = 100
_FILE = re.compile(r"^```python\n(# ([\w.]+)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^(hours: .*\norders: .*\n)```$", re.MULTILINE)


def shown_and_printed(name: str, folder: Path) -> tuple[str, str]:
    """Returns what the page shows after the file, and what the file prints."""
    page = PAGE.read_text("utf-8")
    found = {match[2]: match for match in _FILE.finditer(page)}
    for file in ("shop.py", name):
        (folder / file).write_text(found[file][1], "utf-8")
    shown = _SHOWN.search(page, found[name].end())
    assert shown is not None, name
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("_KEY", "_TOKEN"))}
    command = [sys.executable, name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return shown[1], done.stdout


def files() -> set[str]:
    """Returns the names of the page's files, except the one that all use."""
    return {name for _, name in _FILE.findall(PAGE.read_text("utf-8"))} - {"shop.py"}
