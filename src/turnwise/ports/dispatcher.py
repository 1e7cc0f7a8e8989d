"""The protocol of dispatchers: which process works on which session, and when. `turnwise.testing.dispatcher_suite` tests it.

The log and the inbox in the store are the truth; a dispatcher only schedules. It may say a thing twice, late or never: work
on a session is idempotent and fenced by the session's epoch, and processes announce again what stays due.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from turnwise.facts.sessions import SessionKey

WorkOff = Callable[[SessionKey, int], Awaitable[None]]
"""Works a session off in this process and returns when its inbox is empty, or when another process works on it.

The number is that of the announcement; with 0, what a dead process left is looked for more thoroughly.

Idempotent. Never raises the errors of messages; an error means that the session was not worked off, so call again later.
"""


class Dispatcher(Protocol):
    """Schedules the work on sessions. For one event loop."""

    @property
    def is_local(self) -> bool:
        """True if this process answers the messages that it accepts. False if every message goes through the inbox and is
        announced.
        """
        ...

    @property
    def works_here(self) -> bool:
        """True if this process may work on sessions."""
        ...

    def announce(self, key: SessionKey, number: int) -> None:
        """Says that the session has work up to this inbox number; 0 = the number is not known. Neither blocks nor raises.

        Idempotent: announcing pending work again changes nothing.
        """
        ...

    def call_at(self, key: SessionKey, at: datetime) -> None:
        """Asks for work on this session at that time. Neither blocks nor raises. Idempotent."""
        ...

    async def serve(self) -> None:
        """Works on sessions when called, if this process does, and until cancelled.

        Raises:
            EngineError: The engine does not accept this process. One that cannot be reached is tried again.
        """
        ...

    async def close(self) -> None:
        """Sends what was announced, then closes connections. Idempotent."""
        ...


MakesDispatcher = Callable[[WorkOff], Dispatcher]
"""Makes the dispatcher of one event loop, inside that loop."""
