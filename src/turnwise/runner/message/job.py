"""A message on its way through the runner."""

import asyncio
from collections.abc import Mapping
from contextvars import Context
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import MessageBlocked
from turnwise.facts.events import Guarded
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message, OfferedTool
from turnwise.facts.sessions import SessionKey
from turnwise.runner.guards.rulings import blocked_message
from turnwise.runner.message.invocation import Invocation
from turnwise.runner.record.event_ids import Origin


class Prepared(NamedTuple):
    """A message after the guardrails, its blobs saved, with the id of the invocation that it may begin.

    guarded: what the guardrails changed; if they blocked it, the content is empty. tools: what they left of those offered.
    """

    invocation_id: str
    content: Content
    artifact_versions: Mapping[str, int]
    guarded: tuple[Guarded, ...] = ()
    tools: tuple[OfferedTool, ...] = ()


class Job:
    """One message, how it is to be run, and the handle its caller holds.

    queued: whether the message is in the inbox. prepared: None until it was looked at. context: the context variables of
    whoever sent it, in which it is answered; None when it was not sent to this process.
    """

    def __init__(self, key: SessionKey, message: Message, config: RunConfig, context: Context | None = None) -> None:
        self.key, self.message, self.config, self.context = key, message, config, context
        self.queued = False
        self.prepared: Prepared | None = None
        self.invocation = Invocation(key, message.id)
        self._accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def event_id(self) -> str:
        """The id of the user event that holds the message."""
        return Origin(self.key.id, self.message.id).event_id

    @property
    def kept(self) -> Message:
        """The message as it is kept: what the guardrails left of it, once they have seen it."""
        if self.prepared is None:
            return self.message
        changed: dict[str, object] = {"content": self.prepared.content, "guarded": self.prepared.guarded}
        context = self.message.context
        if context.tools != self.prepared.tools:
            changed["context"] = context.model_copy(update={"tools": self.prepared.tools})
        return self.message.model_copy(update=changed)

    @property
    def blocked(self) -> MessageBlocked | None:
        """Why it is not answered, if guardrails blocked it."""
        return blocked_message(self.kept.guarded)

    def accept(self) -> None:
        """The message is stored."""
        if not self._accepted.done():
            self._accepted.set_result(None)

    def fail(self, problem: BaseException) -> None:
        """It will not be answered: whoever waits for its acceptance, or reads, gets the problem."""
        if not self._accepted.done():
            self._accepted.set_exception(problem)
            # Not everybody asks whether it was accepted.
            self._accepted.exception()
        self.invocation.feed.close(problem)

    async def accepted(self) -> None:
        """Returns when the message is stored; raises why it cannot be."""
        await asyncio.shield(self._accepted)
