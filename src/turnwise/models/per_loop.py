"""Values that belong to one event loop, such as a client with open connections."""

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
    """Returns the value of this key in the running loop, and creates it at the first call.

    Args:
        key: The key of the value.
        make: Creates the value, in a thread, since it may import much. Its error is raised here, and the next call tries again.

    Returns:
        The value. Its context is exited when the loop shuts down.
    """
    values = _loop_values()
    if key not in values:
        value = await asyncio.to_thread(make)
        if key not in values:  # otherwise another task created it meanwhile, and this one is dropped unused
            closer = _until_shutdown(value, values, key)
            values[key] = (value, closer)
            await anext(closer)
    found: T = values[key][0]
    return found


async def _until_shutdown(
    value: AbstractAsyncContextManager[T], values: _LoopValues, key: Hashable
) -> AsyncGenerator[None, None]:
    # A loop closes its unfinished generators when it shuts down: the only moment at which a client can still be closed.
    async with value:
        try:
            yield
        finally:
            del values[key]


def _loop_values() -> _LoopValues:
    loop = asyncio.get_running_loop()
    with _lock:
        for closed in [other for other in _values if other.is_closed()]:
            del _values[closed]  # closed without a shutdown; its values would keep it alive
        return _values.setdefault(loop, {})
