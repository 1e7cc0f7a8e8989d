"""Work in threads beside decisions, such as fitting heads for agents that change: one fit at a time, for the newest agents.

A fit that has begun is finished and used, so that frequent changes cannot keep heads away. Changes that come meanwhile share
the next fit. Until then, the heads fitted last decide for agents with the same phrases.
"""

import ctypes
import functools
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from turnwise.matching.matcher import Matcher

SWITCH_SECONDS = 0.0002

_log = logging.getLogger("turnwise.selection")


class _Background:
    """Makes the process favour decisions while there is background work: threads take turns more often, and the work keeps
    to one core."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._usual_seconds, self._usual_threads = 0, 0.0, 0

    @contextmanager
    def work(self) -> Iterator[None]:
        with self._lock:
            if not self._count:
                self._begin()
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    self._end()

    def _begin(self) -> None:
        # A decision gives up the interpreter some times. Each time it waits as long as a busy thread may keep it: usually 5 ms.
        self._usual_seconds = sys.getswitchinterval()
        sys.setswitchinterval(min(self._usual_seconds, SWITCH_SECONDS))
        # Products of large matrices otherwise use all cores, and a decision's products wait until they are done.
        blas = _blas_threads() if "numpy" in sys.modules else None
        self._usual_threads = blas.get() if blas else 0
        if blas and self._usual_threads > 1:
            blas.set(1)

    def _end(self) -> None:
        sys.setswitchinterval(self._usual_seconds)
        blas = _blas_threads() if self._usual_threads > 1 else None
        if blas:
            blas.set(self._usual_threads)


background_work = _Background().work
"""A context manager for work in a thread that decisions must not wait for."""


class _BlasThreads(NamedTuple):
    """Reads and sets how many threads the products of matrices use."""

    get: Callable[[], int]
    set: Callable[[int], object]


@functools.cache
def _blas_threads() -> _BlasThreads | None:
    """Returns the functions of the library that NumPy's wheels bring; None with another one."""
    import numpy

    for path in sorted((Path(numpy.__file__).parents[1] / "numpy.libs").glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for suffix in ("64_", ""):
            get, put = (getattr(library, f"scipy_openblas_{verb}_num_threads{suffix}", None) for verb in ("get", "set"))
            if get is not None and put is not None:
                return _BlasThreads(get, put)
    return None


def return_memory() -> None:
    """Returns freed memory to the system, where the C library can. A fit leaves much of it free between what stays in use."""
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], object] | None:
    """Returns the function of the GNU C library; None elsewhere."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found


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
