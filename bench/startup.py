"""Startup cost: the import, a cold command, and the size of an installation."""

import importlib.metadata
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Figure, progress

IMPORT_SECONDS, SELECT_SECONDS = 0.4, 1.5
_ROUNDS = 5
_PYTHON = [sys.executable, "-c"]
_COMMAND = [sys.executable, "-c", "from turnwise.cli.app import main; main()"]


def startup() -> list[Figure]:
    """CPU seconds of `from turnwise import Runner` and of a cold `turnwise select`, and the size of a base installation."""
    with progress("Starting", 3) as step, tempfile.TemporaryDirectory() as folder:
        bare = _cpu_seconds([*_PYTHON, "pass"], Path(folder))
        step("import")
        imported = _cpu_seconds([*_PYTHON, "from turnwise import Runner"], Path(folder))
        step("select")
        subprocess.run([*_COMMAND, "init"], cwd=folder, check=True, capture_output=True)
        selected = _cpu_seconds([*_COMMAND, "select", "hello"], Path(folder))
        step("")
    packages = brought("turnwise")
    size = sum(_bytes(name) for name in packages) / 1e6
    return [
        _seconds("CPU s of `from turnwise import Runner` (floor: bare Python)", imported, IMPORT_SECONDS, bare),
        _seconds("CPU s of a cold `turnwise select`", selected, SELECT_SECONDS),
        Figure("packages of a base installation, with MB on disk", f"{len(packages)}, {size:.0f} MB"),
    ]


def brought(package: str) -> set[str]:
    """The package and its installed dependencies, without extras, by normalized name."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or an older Python
        found.add(name)
        waiting += [re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0] for each in needed if "extra ==" not in each]
    return found


def _bytes(package: str) -> int:
    if package == "turnwise":  # its files are in the checkout and not listed
        files = Path(__file__).parent.parent.joinpath("src").rglob("*")
        return sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")
    listed = importlib.metadata.files(package) or []
    return sum(file.size or 0 for file in listed)


def _cpu_seconds(command: list[str], folder: Path) -> float:
    """User and system time of the command: the median of a few runs after one that warms the disk cache."""
    return statistics.median([_run(command, folder) for _ in range(_ROUNDS + 1)][1:])


def _run(command: list[str], folder: Path) -> float:
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stderr is not None
    complaint = process.stderr.read().decode()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[-1]} ended with {process.returncode}: {complaint}")
    return usage.ru_utime + usage.ru_stime


def _seconds(name: str, seconds: float, bound: float, floor: float | None = None) -> Figure:
    return Figure(name, f"{seconds:.2f}", f"{floor:.2f}" if floor else "", f"≤ {bound:g}", seconds <= bound)
