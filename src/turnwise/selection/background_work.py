"""Work in threads beside decisions."""

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.0002


class _Switching:
    """Makes the threads of the process take turns more often while there is background work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._usual = 0, 0.0

    @contextmanager
    def often(self) -> Iterator[None]:
        with self._lock:
            if not self._count:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, SWITCH_SECONDS))
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    sys.setswitchinterval(self._usual)


# A decision gives up the interpreter some times. Each time it waits as long as a busy thread may keep it: usually 5 ms.
background_work = _Switching().often
"""A context manager for work in a thread that decisions must not wait for."""


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
