"""Follows the revision of the definitions: a committed change is served in every process within about a second (F3, F4, F7)."""

import asyncio
import logging
from typing import Protocol

from turnwise.facts.errors import ConfigError, EncoderError, StoreError, TurnwiseError
from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Signals
from turnwise.runner.agent_sets import AgentSet, AgentSets

POLL_SECONDS = 1.0
"""The interval at which the revision is read. A signal makes it sooner."""

log = logging.getLogger("turnwise.runner")


class SetSource(Protocol):
    """Makes the sets of the definitions' revisions."""

    async def revision(self) -> int:
        """Returns the newest revision; 0 = there are no definitions. Raises StoreError."""
        ...

    async def make(self, revision: int | None = None) -> AgentSet:
        """Returns the set of a revision; None = the newest one. Raises StoreError; other errors if it does not fit together."""
        ...

    async def last_known(self) -> AgentSet | None:
        """Returns the set that this machine served last, without the store; None = it kept none."""
        ...

    async def keep(self) -> None:
        """Keeps the set that `make` returned last, for `last_known`. Does not raise."""
        ...


class RevisionWatch:
    """Serves the newest revision, as long as it runs.

    A set that does not fit together is never served: the earlier one goes on, and `AgentSets.problem` tells why.

    Args:
        sets: Gets the new sets.
        source: Makes them.
        app: The app's name.
        signals: Wakes the watch in other processes, where the store can.
        seconds: The interval at which the revision is read.
    """

    def __init__(
        self, sets: AgentSets, source: SetSource, app: str, signals: Signals, *, seconds: float = POLL_SECONDS
    ) -> None:
        self._sets, self._source, self._signals, self._seconds = sets, source, signals, seconds
        self._key = SessionKey(app, "", "definitions")
        self._seen: int | None = None
        self._lock = asyncio.Lock()
        self._is_away = False
        self.is_stale = False
        """True while the last known set serves because the store could not be read at the start."""
        sets.make_with(source.make)

    def announce(self) -> None:
        """Tells all processes that a new revision was stored."""
        self._signals.changed(self._key)

    async def start(self) -> None:
        """Serves the newest revision. Without the store, the set that this machine served last.

        Definitions that do not fit together are not served; see `AgentSets.problem`.
        """
        try:
            await self.look()
        except StoreError as problem:
            await self._serve_last_known(problem)

    async def forever(self) -> None:
        """Serves each new revision, until it is cancelled. Problems of the store pass; the first of a series is logged."""
        warming = asyncio.create_task(self._warm())
        try:
            await self._follow()
        finally:
            warming.cancel()

    async def _follow(self) -> None:
        with self._signals.watch(self._key) as watch:
            while True:
                try:
                    await self.look()
                    self._is_away = False
                except StoreError as problem:
                    if not self._is_away:
                        log.warning("The revision of the definitions cannot be read: %s", problem)
                    self._is_away = True
                except Exception:
                    log.exception("The definitions cannot be followed.")
                await watch.next(self._seconds)

    async def _warm(self) -> None:
        """Loads what new agents need, so that the first of them do not wait for it."""
        try:
            await self._sets.current.cascade.warm()
            await self._sets.current.cascade.warm_spare()
        except TurnwiseError as problem:
            log.warning("The agents' texts cannot be compared yet: %s", problem)
        except Exception:
            log.exception("The agents' texts cannot be compared yet.")

    async def look(self) -> None:
        """Reads the revision, and serves it if it is new. Raises StoreError."""
        async with self._lock:
            revision = await self._source.revision()
            if revision != self._seen:
                await self._serve(revision)
            self.is_stale = False

    async def _serve(self, revision: int) -> None:
        """Makes the newest set and serves it. Refuses a set that cannot be made; `AgentSets.problem` then has the reason."""
        if revision == self._sets.current.revision:
            self._seen = revision
            return
        try:
            new = await self._source.make()
            await new.cascade.warm()
            self._sets.swap(new)
        except StoreError:
            raise
        except EncoderError as problem:
            self._sets.refuse(problem)  # tried again: an encoder's service may come back
            return
        except TurnwiseError as problem:
            self._sets.refuse(problem)
            self._seen = revision
            return
        except Exception as error:
            log.exception("The agents of revision %d cannot be made.", revision)
            self._sets.refuse(ConfigError(f"The agents of revision {revision} cannot be made: {type(error).__name__}."))
            self._seen = revision
            return
        self._seen = new.revision
        log.info("Revision %d of the definitions serves: %d agents.", new.revision, len(new.tree))
        await self._source.keep()

    async def _serve_last_known(self, problem: StoreError) -> None:
        """Serves the set that this machine kept, since the store failed. Logs which set serves."""
        known = None
        try:
            known = await self._source.last_known()
            if known is not None:
                self._sets.swap(known)
        except TurnwiseError as error:
            known = None
            log.error("The definitions that this machine served last cannot be used: %s", error)
        self.is_stale = True
        served = f"revision {known.revision}, which it served last" if known is not None else "code and configuration only"
        log.error("The definitions cannot be read, so this process serves %s: %s", served, problem)
