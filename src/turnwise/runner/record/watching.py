"""Telling the hooks what was stored: in order, beside the run, and never in its way."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from inspect import isawaitable

from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.hooks import Hooks, PieceHooks
from turnwise.ports.stopping import is_stopped
from turnwise.runner.record.journal import public

HOOK_SECONDS = 5.0
"""How long one call of a hook may take, and how long the end of an invocation waits for what is still to be told."""
WAITING, LOST = "waiting", "lost"
"""What hooks are told instead of an end: the invocation waits, or this process does not answer it any more."""

log = logging.getLogger("turnwise.runner")


class Watchers:
    """The hooks of one session. A hook only watches: what it raises is logged, and one that hangs holds up only hooks."""

    def __init__(self, hooks: Sequence[Hooks], key: SessionKey) -> None:
        self._hooks, self._key = hooks, key
        self._untold: deque[tuple[Sequence[Event], tuple[str, str] | None]] = deque()
        self._task: asyncio.Task[None] | None = None

    def tell(self, stored: Sequence[Event], *, left: tuple[str, str] | None = None) -> None:
        """Stored events, with the decisions and ends in them, as the public may read them, or the first piece of an answer;
        `left` is an invocation that is left after them, and how: WAITING or LOST.
        """
        if not self._hooks:
            return
        self._untold.append(([public(event) for event in stored], left))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def told(self) -> None:
        """Returns when everything is told, or after HOOK_SECONDS; the rest is told all the same."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=HOOK_SECONDS)

    async def _work(self) -> None:
        while self._untold:
            stored, left = self._untold.popleft()
            for call in self._calls(stored, left):
                await _watch(call)

    def _calls(self, stored: Sequence[Event], left: tuple[str, str] | None) -> Iterator[Callable[[], Awaitable[None]]]:
        for hook in self._hooks:
            for event in stored:
                if event.partial:
                    if isinstance(hook, PieceHooks):
                        yield partial(hook.shown, self._key, event)
                    continue
                yield partial(hook.stored, self._key, event)
                if event.actions.selection:
                    yield partial(hook.selected, self._key, event.actions.selection)
                if event.actions.end:
                    yield partial(hook.ended, self._key, event.invocation_id, event.actions.end.reason)
            if left is not None:
                yield partial(hook.ended, self._key, *left)


async def _watch(call: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(HOOK_SECONDS):
            if isawaitable(told := call()):  # a hook's method that is not async has done its work by now
                await told
    except BaseException as error:
        if is_stopped(error, task):
            raise
        log.exception("A hook raised.")
