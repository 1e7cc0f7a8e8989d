"""Readiness check of this process. It needs no credential and reveals nothing else."""

import asyncio
import logging

from turnwise.facts.errors import Closing, NotReady, TurnwiseError
from turnwise.runner import Runner

STORE_SECONDS = 5.0
"""Timeout of the check's write to the store."""
CACHE_SECONDS = 1.0
"""How long a success is cached. Each check commits to the store, and anyone may request one."""

log = logging.getLogger("turnwise.gateway")


class HealthCheck:
    """Checks whether this process can accept messages.

    Args:
        runner: The runner; its store is checked.
        closing: Set when the process stops accepting messages.
        ready: Set when the policy is prepared.
    """

    def __init__(self, runner: Runner, closing: asyncio.Event, ready: asyncio.Event) -> None:
        self._runner, self._closing, self._ready = runner, closing, ready
        self._running_check: asyncio.Task[None] | None = None
        self._cached_until = float("-inf")

    async def check(self) -> None:
        """Returns if this process can store messages. Concurrent callers share one write, and a success counts for a
        second.

        Raises:
            Closing: The process is shutting down.
            NotReady: The policy is not prepared, or the store is not writable.
        """
        if self._closing.is_set():
            raise Closing("This process is being stopped.", fix="Ask another one.")
        if not self._ready.is_set():
            raise NotReady("The policy is still being prepared.", fix="Ask again soon.")
        if asyncio.get_running_loop().time() < self._cached_until:
            return
        if self._running_check is None:
            self._running_check = asyncio.create_task(self._check_store())
            self._running_check.add_done_callback(self._on_checked)
        await asyncio.shield(self._running_check)

    def _on_checked(self, task: "asyncio.Task[None]") -> None:
        self._running_check = None
        if not task.cancelled() and task.exception() is None:
            self._cached_until = asyncio.get_running_loop().time() + CACHE_SECONDS

    async def _check_store(self) -> None:
        """Raises NotReady if the session store is not writable, or does not respond in time."""
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await self._runner.store.maintenance.check_writable()
        except (TurnwiseError, TimeoutError) as problem:
            log.warning("The session store is not writable: %s", problem or "it did not respond in time")
            raise NotReady("The session store is not writable.", fix="Ask again soon.") from None
