"""Which files make a server start again. (With real processes: tests/integration/gateway/test_reload.py.)"""

import os
from pathlib import Path

from turnwise.cli.reload import changed_files, scan_files


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_python_and_yaml_files_of_the_project_count(tmp_path: Path) -> None:
    wanted = {put(tmp_path / name) for name in ("turnwise.yaml", "agents.py", "below/tools.py", "policy.yml")}
    for name in ("turnwise.db", "notes.txt", ".git/x.py", "__pycache__/a.py", "node_modules/b/c.py"):
        put(tmp_path / name)
    put(tmp_path / "env" / "lib" / "d.py")
    put(tmp_path / "env" / "pyvenv.cfg")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    assert set(scan_files(tmp_path)) == wanted


def test_what_is_new_gone_or_written_again_has_changed(tmp_path: Path) -> None:
    same, gone, longer, later = (put(tmp_path / f"{name}.py", "x") for name in ("same", "gone", "longer", "later"))
    before = scan_files(tmp_path)
    assert changed_files(before, scan_files(tmp_path)) == []
    gone.unlink()
    longer.write_text("xx")
    os.utime(later, ns=(1, 1))
    new = put(tmp_path / "new.py")
    assert changed_files(before, scan_files(tmp_path)) == sorted([gone, later, longer, new])
    assert same not in changed_files(before, scan_files(tmp_path))
