"""Rules for the invocations of dead processes: which are orphans, and how they end. Pure, but for the clock and logging."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from turnwise.facts.content import Content
from turnwise.facts.events import USER, End, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Head, OpenInvocation, Session, SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.runner.agent_sets import AgentSet

REMEMBERED = 10_000
"""The number of deferred pieces of work that a process remembers."""

log = logging.getLogger("turnwise.runner")


class Orphan(NamedTuple):
    """An invocation that no process runs, although it has neither ended nor waits."""

    invocation_id: str
    open: OpenInvocation


def orphan_of(session: Session, me: str | None = None) -> Orphan | None:
    """Returns the session's oldest orphan; None when it has none, or another process holds the session.

    Args:
        me: A holder that runs nothing in the session: it gave up when the store was unreachable.
    """
    if session.holder not in (None, me):
        return None
    running = [Orphan(id_, open_) for id_, open_ in session.head.invocations.items() if open_.state == "running"]
    return min(running, key=lambda orphan: orphan.open.began, default=None)


def orphan_end(orphan: Orphan, session: Session, tree: AgentTree, attempts: int) -> End | None:
    """Returns the end of an orphan that must not run again; None when it gets another attempt."""
    open_ = orphan.open
    if session.stop == orphan.invocation_id:
        return End(reason="cancelled", detail="It was to be stopped when its process died.")
    died = open_.attempt - open_.settled
    if died >= attempts:
        return End(reason="limit:attempts", detail=f"Its process died {died} times before it came further.")
    if open_.agent not in tree:
        return End(reason="failed", detail=f"Agent {open_.agent!r} is no longer in the tree.")
    return None


def message_of_orphan(events: Sequence[Event]) -> Event | None:
    """Returns the message event that these events answer: the user's last; None when a rewind hid it."""
    return next((event for event in reversed(events) if event.author == USER and event.content is not None), None)


class LeftToOtherProcesses(Exception):
    """The message stays in the inbox, for a process that knows the agent. Never leaves the runner."""


class UnknownAgents:
    """Decides whether work for an unknown agent is left to other processes for now.

    Args:
        seconds: How long to leave a piece of work to others, counted from the first time it was seen; 0 means not at
            all.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until: OrderedDict[Hashable, float] = OrderedDict()

    def leaves_answer(self, key: SessionKey, invocation_id: str, open_: OpenInvocation, agents: AgentSet) -> bool:
        """Returns whether to leave an interrupted answer to a process that knows its agent."""
        return agents.lacks(open_.agent) and self._leaves(key, f"invocation {invocation_id}", open_.agent)

    def leaves_message(
        self,
        key: SessionKey,
        head: Head,
        message_id: str,
        content: Content,
        context: MessageContext,
        agents: AgentSet,
        now: datetime,
    ) -> bool:
        """Returns whether to leave a message to a process that knows the asking agent, if it may answer a question."""
        agent = asked_by_unknown(head, content, context, agents, now)
        return agent is not None and self._leaves(key, f"message {message_id}", agent)

    def _leaves(self, key: SessionKey, what: str, agent: str) -> bool:
        """Returns whether this piece of work is still within its time for other processes. The first call starts that time."""
        if not self._seconds:
            return False
        now, piece = self._clock(), (key, what)
        until = self._until.get(piece)
        if until is None:
            until = self._until[piece] = now + self._seconds
            while len(self._until) > REMEMBERED:
                self._until.popitem(last=False)
            log.warning(
                "Session %s: agent %r is not in this process's tree; %s is left for %g s to a process that knows it.",
                key.id, agent, what, self._seconds,
            )  # fmt: skip
        elif now >= until:
            log.warning("Session %s: no process with agent %r took %s; it goes on without that agent.", key.id, agent, what)
        return now < until


class KnownAgents(Protocol):
    """The agents that a process knows, or several processes together."""

    @property
    def tree(self) -> Container[str]:
        """Their names."""
        ...

    def lacks(self, agent: str) -> bool:
        """Returns whether another process may know the agent although these do not."""
        ...


def asked_by_unknown(head: Head, content: Content, context: MessageContext, agents: KnownAgents, now: datetime) -> str | None:
    """Returns the unknown agent that waits for an answer which the message may be; None when there is none.

    A message that names a known agent, a question or a tool call answers only that.
    """
    if context.direct_agent_id is not None and context.direct_agent_id in agents.tree:
        return None
    calls = {result.call_id for result in content.tool_results}
    for invocation_id, open_ in head.invocations.items():
        if open_.state != "waiting":
            continue
        open_waits = [(agent, wait) for agent, wait in open_.waits if not (wait.expires_at and wait.expires_at <= now)]
        for agent, wait in open_waits:
            unknown = next((name for name in (open_.agent, agent) if agents.lacks(name)), None)
            if unknown is None:
                continue
            if calls:
                of_call = [head.calls[call] for call in calls if call in head.calls]
                answers = any(call.invocation_id == invocation_id for call in of_call)
            else:
                answers = wait.kind == "reply" and context.answers in (None, wait.id)
            if answers:
                return unknown
    return None
