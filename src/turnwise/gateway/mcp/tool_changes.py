"""Tells clients that the list of tools has changed: `notifications/tools/list_changed`, on streams that they open."""

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import SubscriptionFilter, SubscriptionsListenRequestParams, SubscriptionsListenResult

from turnwise.runner import Runner

MOST_STREAMS = 1_000
"""Maximum number of open streams of this process. Further ones are refused."""
_BUFFERED = 16


class ToolChanges:
    """Announces each new set of agents to the clients that listen. Belongs to one event loop.

    Only `subscriptions/listen` has such streams (2026-07-28). Earlier versions of the protocol would need a stream per client
    that lives as long as the client.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self._bus, max_subscriptions=MOST_STREAMS, max_buffered_events=_BUFFERED)
        self._publishing: set[asyncio.Task[None]] = set()

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serves one stream until the client leaves, or `close`. Changes of other kinds are not announced."""
        params.notifications = SubscriptionFilter(tools_list_changed=params.notifications.tools_list_changed)
        return await self._handler(context, params)

    def follow(self, runner: Runner) -> Callable[[], None]:
        """Announces the runner's changes from now on. Returns a function that stops it."""
        loop = asyncio.get_running_loop()
        return runner.sets.on_swap(lambda _: loop.call_soon_threadsafe(self._announce))

    def close(self) -> None:
        """Ends all streams. Each client gets what is left, and the result."""
        self._handler.close()

    def _announce(self) -> None:
        task = asyncio.get_running_loop().create_task(self._bus.publish(ToolsListChanged()))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
