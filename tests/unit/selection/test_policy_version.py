"""E9: what decides otherwise says so."""

import shutil
import subprocess
import sys
from pathlib import Path

import turnwise
from turnwise.selection.policy import version


def version_of(folder: Path) -> str:
    code = "from turnwise.selection.policy import version; print(version())"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_it_changes_with_rules_and_trained_numbers(tmp_path: Path) -> None:
    package = tmp_path / "turnwise"
    shutil.copytree(Path(turnwise.__file__).parent, package, ignore=shutil.ignore_patterns("*.onnx", "__pycache__"))
    found = [version_of(tmp_path)]
    for name in ("selection/contextual/contextual.json", "matching/data/smalltalk.json", "selection/reader.py"):
        path = package / name
        path.write_bytes(path.read_bytes() + b"\n")
        found.append(version_of(tmp_path))
    assert found[0] == version()
    assert len(set(found)) == 4
