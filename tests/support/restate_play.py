"""A real Restate server for tests: one binary, which `./dev test` installs with the other peers."""

import asyncio
import os
import platform
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ROOT = Path(__file__).resolve().parents[2]
UP_SECONDS = 30.0


def server_binary() -> Path | None:
    """The installed server for this machine, or the one that TURNWISE_RESTATE_SERVER names."""
    if named := os.environ.get("TURNWISE_RESTATE_SERVER"):
        return Path(named)
    kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"@restatedev/restate-server-{platform.system().lower()}-{kind}"
    binary = ROOT / ".venv" / "peers" / "node" / "node_modules" / package / "bin" / "restate-server"
    return binary if binary.exists() else None


def skip_without_restate() -> None:
    """Skips a test if the server or its SDK is not installed."""
    pytest.importorskip("restate")
    if server_binary() is None:
        pytest.skip("the Restate server is not installed: npm is missing")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class RestateServer:
    """A server with its storage in a folder. It signs its calls."""

    def __init__(self, folder: Path) -> None:
        binary = server_binary()
        if binary is None:
            raise FileNotFoundError("The Restate server is not installed: ./dev test installs it with npm.")
        self.binary, self.folder = binary, folder
        self.ingress, self.admin, self._fabric = free_port(), free_port(), free_port()
        self.storage = folder / "storage"
        self._key = folder / "key.pem"
        self._process: subprocess.Popen[bytes] | None = None
        pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self._key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*pem))

    @property
    def address(self) -> str:
        return f"restate://127.0.0.1:{self.ingress}?admin={self.admin}"

    @property
    def public_key(self) -> str:
        """The key that its calls are signed with."""
        found = re.search(r"publickeyv1_\w+", (self.folder / "server.log").read_text())
        assert found
        return found[0]

    @property
    def engine(self) -> tuple[str, str, int]:
        """What a process of survival_play needs to know, with a port for its workers."""
        return self.address, self.public_key, free_port()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it takes calls."""
        settings = {
            "BASE_DIR": self.storage,
            "DEFAULT_NUM_PARTITIONS": 1,
            "ROCKSDB_TOTAL_MEMORY_SIZE": "64MiB",
            "DISABLE_TELEMETRY": "true",
            "LISTEN_MODE": "tcp",
            "BIND_IP": "127.0.0.1",
            "BIND_PORT": self._fabric,
            "ADVERTISED_HOST": "127.0.0.1",
            "LOG_DISABLE_ANSI_CODES": "true",
            "INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.ingress}",
            "ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}",
            "WORKER__INVOKER__REQUEST_IDENTITY_PRIVATE_KEY_PEM_FILE": self._key,
        }
        # So that a search through the storage finds what is there.
        settings |= {
            f"{part}__ROCKSDB_DISABLE_WAL_COMPRESSION": "true" for part in ("WORKER__STORAGE", "LOG_SERVER", "BIFROST__LOCAL")
        }
        environment = {**os.environ, **{f"RESTATE_{name}": str(value) for name, value in settings.items()}}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binary, "--no-logo"], env=environment, stdout=log, stderr=log, cwd=self.folder, process_group=0
            )
        until = time.monotonic() + UP_SECONDS
        while not (self._answers(f"{self.admin}/health") and self._answers(f"{self.ingress}/restate/health")):
            if time.monotonic() > until or self._process.poll() is not None:
                raise AssertionError((self.folder / "server.log").read_text()[-3000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    async def knows(self, worker: str, serving: "asyncio.Task[None]") -> None:
        """Returns when a worker at that URL is registered; raises what the worker raises."""
        async with asyncio.timeout(UP_SECONDS):
            while not await asyncio.to_thread(self._lists, worker):
                if serving.done():
                    serving.result()
                await asyncio.sleep(0.05)

    def _lists(self, worker: str) -> bool:
        try:
            return worker in self.read("deployments")
        except OSError:
            return False

    def read(self, path: str) -> str:
        """Reads from the admin API."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def _answers(self, place: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{place}", timeout=1):
                return True
        except OSError:
            return False


@contextmanager
def restate_server(folder: Path) -> Iterator[RestateServer]:
    """A running server, gone when the block is left."""
    server = RestateServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
