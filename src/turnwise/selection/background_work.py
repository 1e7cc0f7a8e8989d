"""Work in threads beside decisions."""

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SWITCH_SECONDS = 0.0002


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
