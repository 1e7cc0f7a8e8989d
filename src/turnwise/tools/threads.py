"""Functions that are not async, run in a thread so that they hold nobody up."""

import asyncio
from collections.abc import Callable
from typing import Any


async def in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What the function gives, or raises; with the caller's context variables."""

    def call() -> Any:
        try:
            return function(*arguments, **named)
        except StopIteration as stop:
            # A future cannot carry it: whoever waits would wait forever.
            raise RuntimeError("The function raised StopIteration.") from stop

    return await asyncio.to_thread(call)
