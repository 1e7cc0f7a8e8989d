"""Work in threads beside decisions."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.0005


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
