"""How a process finds its engine: by the options of `turnwise serve` and `turnwise worker`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from turnwise.facts.errors import EngineError

if TYPE_CHECKING:  # the command line imports this module before it knows its command
    from turnwise.ports.dispatcher import Dispatcher, WorkOff

DEFAULT_LISTEN = "127.0.0.1:9080"
MOST_PORT = 65535
CALLS_PER_ANSWER = 2
"""The calls of an engine that a worker takes at a time, for each answer that it gives at a time. The others wait there."""


class Engine(Protocol):
    """An engine that schedules the work of an app."""

    def dispatcher(self, work_off: "WorkOff") -> "Dispatcher":
        """Makes the dispatcher of one event loop."""
        ...

    async def check(self) -> str:
        """Returns the engine's version. Raises EngineError if the engine cannot be reached or used."""
        ...

    async def problem(self) -> str | None:
        """Returns why the engine calls no worker of the app; None if it can."""
        ...


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine of a process, as written."""

    address: str
    """The engine's address, such as `restate://HOST:8080`."""
    listen: str | None = None
    """`HOST:PORT` for the engine's calls; None means that this process only announces sessions."""
    url: str = ""
    """The URL at which the engine reaches the workers; empty for the address they listen at."""
    keys: tuple[str, ...] = ()
    """The engine's public keys."""

    def open(self, app: str, concurrency: int) -> Engine:
        """Returns the engine of an app, which is not reached yet.

        Args:
            app: The app.
            concurrency: The number of answers that this process gives at a time.

        Raises:
            EngineError: The settings are wrong.
            MissingExtra: The engine's library is not installed.
        """
        from turnwise.dispatch.restate import RestateEngine, WorkerAddress, require_restate

        require_restate()
        worker = None
        if self.listen is not None:
            host, _, port = self.listen.rpartition(":")
            if not host or not (port.isascii() and port.isdigit()) or int(port) > MOST_PORT:
                raise EngineError(f"{self.listen!r} is no address to listen at.", fix="Write it as HOST:PORT.")
            worker = WorkerAddress(host.strip("[]"), int(port), self.url, self.keys)
        return RestateEngine(self.address, app=app, worker=worker, calls=CALLS_PER_ANSWER * concurrency)
