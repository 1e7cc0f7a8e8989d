"""`turnwise serve --reload`: runs the server as a child process and restarts it when a file changes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from turnwise.cli import terminal
from turnwise.cli.terminal import one_line

POLL_SECONDS = 0.3
SUFFIXES = (".py", ".yaml", ".yml")
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
CHANGES_SHOWN = 3
_COMMAND = (sys.executable, "-P", "-c", "from turnwise.cli.app import main; main()")

Files = Mapping[Path, tuple[int, int]]


def scan_files(folder: Path) -> Files:
    """Modification time and size of each Python and YAML file. Skips hidden folders and virtual environments."""
    return dict(_walk(folder))


def _walk(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Yields the watched files below the folder with time and size."""
    for place, folders, names in os.walk(folder):
        at = Path(place)
        folders[:] = [name for name in folders if not _is_skipped(at / name)]
        for name in names:
            if name.endswith(SUFFIXES):
                try:
                    status = (at / name).stat()
                except OSError:  # deleted since it was listed
                    continue
                yield at / name, (status.st_mtime_ns, status.st_size)


def _is_skipped(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in SKIPPED_FOLDERS or (folder / "pyvenv.cfg").exists()


def changed_files(before: Files, after: Files) -> list[Path]:
    """The files that were added, deleted or changed, sorted by name."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def serve_reloading(arguments: Sequence[str], folder: Path) -> int:
    """Runs `turnwise` with these arguments until this process gets SIGINT or SIGTERM. Returns the last server's exit code.

    A change stops the server with SIGTERM, so running answers may finish. A server that ends by itself, for example after a
    syntax error, is restarted at the next change.
    """
    return _Reloader(arguments, folder).run()


class _Reloader:
    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self._command = [*_COMMAND, *arguments]
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        self._asked = False

    def run(self) -> int:
        """Runs the server, and starts it again after each change. Returns its exit code once a signal has come."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._stop) for number in signals}
        try:
            while True:
                seen = scan_files(self._folder)
                code = self._run_server(seen)
                if self._asked:
                    return code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run_server(self, seen: Files) -> int:
        """Runs one server until a file changes or this process must stop. Returns the server's exit code."""
        # A separate process group, so that Ctrl-C reaches the server only once, from here: a second signal would kill it.
        self._server = subprocess.Popen(self._command, process_group=0)
        if self._asked:  # the signal came between two servers
            self._server.terminate()
        has_ended = False
        while not self._asked:
            if not has_ended and self._server.poll() is not None:
                has_ended = True
                terminal.print_note(
                    "The server has ended. It is started again when a file changes; Ctrl-C ends this.", "yellow"
                )
            if changed := self._changed(seen):
                names = ", ".join(one_line(str(path.relative_to(self._folder))) for path in changed[:CHANGES_SHOWN])
                more = f" and {len(changed) - CHANGES_SHOWN} more" if len(changed) > CHANGES_SHOWN else ""
                terminal.print_note(f"Reloading, because of changes: {names}{more}", "yellow")
                self._server.terminate()
                break
            time.sleep(POLL_SECONDS)
        return self._server.wait()

    def _changed(self, seen: Files) -> list[Path]:
        """Returns the changed files, once no more files change: an editor may write several."""
        now = scan_files(self._folder)
        if now == seen:
            return []
        while not self._asked:
            time.sleep(POLL_SECONDS)
            before, now = now, scan_files(self._folder)
            if now == before:
                break
        return changed_files(seen, now)

    def _stop(self, *_: object) -> None:
        self._asked = True
        if self._server is not None:
            self._server.terminate()
