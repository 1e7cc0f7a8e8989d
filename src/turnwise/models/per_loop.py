"""What may be used from one event loop alone, such as a client with open connections, kept once for each loop."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

T = TypeVar("T")
_LoopValues = dict[Hashable, tuple[Any, AsyncGenerator[None, None]]]

_lock = threading.Lock()
_values: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopValues] = weakref.WeakKeyDictionary()


async def loop_local(key: Hashable, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
    """What `make` made for this key in the running loop; it is left when the loop shuts down.

    It is made at the first call, in a thread, since it may have to import much. What `make` raises passes through, and the
    next call makes it again.
    """
    here = _loop_values()
    if key not in here:
        value = await asyncio.to_thread(make)
        if key not in here:  # else somebody else was as quick, and this one was never used
            keeper = _until_shutdown(value, here, key)
            here[key] = (value, keeper)
            await anext(keeper)
    found: T = here[key][0]
    return found


async def _until_shutdown(
    value: AbstractAsyncContextManager[T], here: _LoopValues, key: Hashable
) -> AsyncGenerator[None, None]:
    # A loop that shuts down closes its unfinished generators: that is the one moment in which a client can still be closed.
    async with value:
        try:
            yield
        finally:
            del here[key]


def _loop_values() -> _LoopValues:
    loop = asyncio.get_running_loop()
    with _lock:
        for gone in [other for other in _values if other.is_closed()]:
            del _values[gone]  # closed without a shutdown; what is kept would keep it alive
        return _values.setdefault(loop, {})
