"""Fits heads in the background for agents that change: one fit at a time, always for the newest agents.

A fit that has begun is finished and used, so that frequent changes cannot keep heads away. Changes that come meanwhile share
the next fit. Until then, the heads fitted last decide for agents with the same phrases.
"""

import logging
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple, Protocol

from turnwise.selection.background_work import return_memory

if TYPE_CHECKING:
    from turnwise.matching.matcher import Matcher

_log = logging.getLogger("turnwise.selection")


class FittedHeads(NamedTuple):
    """A matcher that later agents' matchers are patched from."""

    matcher: "Matcher"
    name: str
    """Identifies the matcher."""
    fingerprint: str
    """Identifies the phrases that it was made from."""


class NeedsHeads(Protocol):
    """The agents of one tree, which decide by meaning."""

    @property
    def phrases_fingerprint(self) -> str: ...

    def patch_from(self, base: FittedHeads) -> None:
        """Decides with the heads of earlier agents from now on, unless its own heads are in use."""
        ...

    def fit_heads(self) -> bool:
        """Fits its heads and decides with them. Returns False when the fit failed or was stopped."""
        ...

    def give_up_heads(self) -> None:
        """Stops waiting for heads. Does nothing when there are heads."""
        ...


class HeadFits:
    """The fits of one app's agents. Shared by the `Meaning` objects of successive trees, which use the same encoder."""

    def __init__(self, base: FittedHeads | None = None) -> None:
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._base = base
        self._newest: weakref.ref[NeedsHeads] | None = None
        self._failed = ""
        self._is_running = False

    @property
    def base(self) -> FittedHeads | None:
        """The matcher to patch; None before the first one."""
        return self._base

    def adopt(self, base: FittedHeads) -> None:
        """Sets the matcher to patch, and patches that of the newest agents anew."""
        with self._lock:
            self._base = base
        newest = self._newest_meaning()
        if newest is not None:
            newest.patch_from(base)

    def request(self, meaning: NeedsHeads) -> None:
        """Asks for heads of these agents. They are the newest ones from now on."""
        with self._lock:
            earlier = None if self._newest is None else self._newest()
            self._newest = weakref.ref(meaning)
            start = not self._is_running
            self._is_running = True
        if earlier is not None and earlier is not meaning:
            earlier.give_up_heads()
        if start:
            self._start()

    def close(self) -> None:
        """Stops a running fit without waiting for it. Idempotent."""
        self.closed.set()

    def _start(self) -> None:
        """Starts the thread of a fit. Without a free thread, the fit ends and nearest phrases go on deciding."""
        # Not a daemon: a thread killed inside native code can crash the interpreter at exit.
        try:
            threading.Thread(target=self._run, name="turnwise-fit").start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            _log.warning("No thread could be started for the fit: nearest phrases go on deciding.")
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._is_running = False
        newest = self._newest_meaning()
        if newest is not None:
            newest.give_up_heads()

    def _run(self) -> None:
        """Fits the newest agents, one fit after another, until none is wanted."""
        try:
            while (meaning := self._next()) is not None:
                if not meaning.fit_heads():
                    self._failed = meaning.phrases_fingerprint
                del meaning
                return_memory()
        except BaseException:
            self._end()
            raise

    def _next(self) -> "NeedsHeads | None":
        """Returns the newest agents if they need a fit; else ends the run and returns None."""
        with self._lock:
            newest = None if self._newest is None else self._newest()
            wanted = newest is not None and newest.phrases_fingerprint not in (self._failed, self._fitted_fingerprint)
            if not wanted or self.closed.is_set():
                self._is_running = False
                newest_left, newest = newest, None
            else:
                newest_left = None
        if newest_left is not None:
            newest_left.give_up_heads()
        return newest

    @property
    def _fitted_fingerprint(self) -> str:
        return self._base.fingerprint if self._base is not None and self._base.matcher.fitted else ""

    def _newest_meaning(self) -> "NeedsHeads | None":
        return None if self._newest is None else self._newest()
