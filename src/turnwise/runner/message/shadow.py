"""Runs the shadow's decisions in the background, after the answers (behaviour H6)."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from turnwise.facts.sessions import SessionKey
from turnwise.ports.experiments import Experiments
from turnwise.selection.alternatives import AsksOutside, ShadowRequest, decide_in_shadow

PENDING = 32
"""How many decisions wait for the shadow at most. Further ones are dropped."""
PATIENCE_SECONDS = 2.0
"""A decision that waited longer is dropped: the process has more urgent work."""
DECISION_SECONDS = 30.0
CLOSE_SECONDS = 2.0

ShadowResult = Literal["decided", "dropped", "failed", "asks"]

log = logging.getLogger("turnwise.runner")


class ShadowCounts:
    """Counts what became of the shadow's decisions, over all event loops of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[ShadowResult, int] = {"decided": 0, "dropped": 0, "failed": 0, "asks": 0}

    def count(self, result: ShadowResult) -> None:
        """Counts one decision.

        - `decided`: it is stored.
        - `dropped`: the process was too busy.
        - `failed`: it raised, or could not be stored.
        - `asks`: a stage would have asked somebody outside, and may not.
        """
        with self._lock:
            self._counts[result] += 1

    @property
    def results(self) -> Mapping[str, int]:
        """The number of decisions by result."""
        with self._lock:
            return {str(result): count for result, count in self._counts.items()}


class _Waiting(NamedTuple):
    key: SessionKey
    sequence: int
    request: ShadowRequest
    since: float


class Shadows:
    """The shadow's decisions of one event loop: one at a time, and never waited for by an answer."""

    def __init__(self, store: Experiments | None, counts: ShadowCounts, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._counts, self._clock = store, counts, clock
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def submit(self, key: SessionKey, sequence: int, request: ShadowRequest | None) -> None:
        """Decides in the background, if there is a request. Returns at once and never raises.

        Args:
            key: The session.
            sequence: The number of the event that holds the decision of the served policy.
            request: The facts of that decision.
        """
        if request is None or self._store is None:
            return
        if len(self._waiting) >= PENDING:
            self._counts.count("dropped")
            return
        self._waiting.append(_Waiting(key, sequence, request, self._clock()))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(self._store))

    async def close(self) -> None:
        """Waits a moment for the decisions that wait, then drops the rest."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft()
            self._counts.count("dropped")

    async def _work(self, store: Experiments) -> None:
        """Decides the waiting requests one after the other, and drops those that waited too long."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if self._clock() - waiting.since > PATIENCE_SECONDS:
                self._counts.count("dropped")
                continue
            self._counts.count(await self._decide(store, waiting))

    async def _decide(self, store: Experiments, waiting: _Waiting) -> ShadowResult:
        """Makes and stores one decision of the shadow policy; returns its result. Never raises an `Exception`."""
        try:
            async with asyncio.timeout(DECISION_SECONDS):
                selection = await decide_in_shadow(waiting.request)
                stored = await store.put_shadow(waiting.key, waiting.sequence, selection)
                return "decided" if stored else "dropped"
        except AsksOutside:
            return "asks"
        except Exception:
            # The first one only: a shadow that fails would fill the log.
            (log.debug if self._has_failed else log.warning)("The shadow policy failed.", exc_info=True)
            self._has_failed = True
            return "failed"
