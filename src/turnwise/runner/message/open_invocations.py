"""Rules for the open invocations of a session: which one a message continues, which waits have expired, which no process runs
any more and how those end, and why the session waits.

Pure, but for the clock, logging, and `pending_reasons`, which reads the store.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from turnwise.facts.content import Content
from turnwise.facts.events import USER, End, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Head, OpenInvocation, Session, SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.facts.waits import PendingReason
from turnwise.ports.stores import SessionStore
from turnwise.runner.agent_sets import AgentSet

REMEMBERED = 10_000
"""The number of deferred pieces of work that a process remembers."""

log = logging.getLogger("turnwise.runner")


class Continuation(NamedTuple):
    """A waiting invocation that a message continues."""

    invocation_id: str
    agent: str
    """The agent that has the turn and runs again."""
    turn: int
    """The number of that turn."""
    answers: str | None
    """The id of the wait that a plain message answers; None for a tool result."""


class ExpiredWait(NamedTuple):
    """An open invocation that will not continue, with the end to record."""

    invocation_id: str
    agent: str
    """The agent that had the turn."""
    reason: str
    detail: str


def continuation_of(
    head: Head, message: Content, selected: str, tree: AgentTree, roles: Collection[str] = (), answers: str | None = None
) -> Continuation | None:
    """Returns the invocation that this message continues if the selected agent waits for it; None when it begins a new one.

    A tool result continues the invocation of its call (behaviour A6). A plain message continues the newest invocation
    that awaits a reply and in which the selected agent asked or has the turn (A42). A message with `answers` continues
    only the invocation of that question. The agent that has the turn runs again, so the caller's roles must allow it too
    (C20).

    Args:
        head: The session's head.
        message: The message's content.
        selected: The selected agent.
        tree: The agents of the app.
        roles: The caller's roles.
        answers: The id of the wait that the message answers; None when the caller did not name one.
    """
    for result in message.tool_results:
        call = head.calls.get(result.call_id)
        open_ = head.invocations.get(call.invocation_id) if call else None
        if (
            call
            and open_
            and call.agent in tree
            and selected in (call.agent, open_.agent)
            and _may_hold(open_.agent, tree, roles)
        ):
            return Continuation(call.invocation_id, open_.agent, open_.turn, None)
    if message.tool_results:
        return None
    for invocation_id, agent, wait in head.waiting():
        open_ = head.invocations[invocation_id]
        if (
            answers not in (None, wait.id)
            or wait.kind != "reply"
            or open_.state != "waiting"
            or selected not in (agent, open_.agent)
        ):
            continue
        if _may_hold(open_.agent, tree, roles):
            return Continuation(invocation_id, open_.agent, open_.turn, wait.id)
    return None


def is_being_answered(session: Session, open_: OpenInvocation, me: str | None = None) -> bool:
    """Returns whether another process than `me` still writes to that open invocation of the session.

    A waiting invocation may still have parallel agents at work; the newest event of the session is then its own.
    """
    return session.holder not in (None, me) and (open_.state == "running" or open_.last == session.last_sequence)


def is_over(session: Session, invocation_id: str) -> bool:
    """Returns whether no process writes to that invocation any more, unless a new message continues it."""
    open_ = session.head.invocations.get(invocation_id)
    return open_ is None or (open_.state == "waiting" and not is_being_answered(session, open_))


def interrupted_end(head: Head) -> Sequence[ExpiredWait]:
    """Returns the invocations that an interrupting message ends: those that a dead process left running."""
    running = ((id_, open_) for id_, open_ in head.invocations.items() if open_.state == "running")
    return [
        ExpiredWait(id_, open_.agent, "cancelled", "Its process died, and a message interrupted it.") for id_, open_ in running
    ]


def expired_waits(head: Head, tree: AgentTree, now: datetime, *, waits: int) -> Sequence[ExpiredWait]:
    """Returns the waiting invocations that are over: expired, without their agent, or older than the newest `waits` ones."""
    over = []
    waiting = [(id_, open_) for id_, open_ in head.invocations.items() if open_.state == "waiting"]
    for rank, (id_, open_) in enumerate(sorted(waiting, key=lambda item: -item[1].began)):
        if (expiry := open_.expires_at) is not None and expiry <= now:
            over.append(_timed_out(id_, open_))
        elif open_.agent not in tree:
            over.append(ExpiredWait(id_, open_.agent, "failed", f"Agent {open_.agent!r} is no longer in the tree."))
        elif rank >= waits:
            over.append(ExpiredWait(id_, open_.agent, "limit:waits", "Too many newer questions are open."))
    return over


def timed_out_waits(head: Head, now: datetime) -> Sequence[ExpiredWait]:
    """Returns the waiting invocations that nobody answered in time."""
    expiries = ((id_, open_, open_.expires_at) for id_, open_ in head.invocations.items())
    return [_timed_out(id_, open_) for id_, open_, expiry in expiries if expiry is not None and expiry <= now]


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


@dataclass(frozen=True, slots=True)
class Pending:
    """One reason why a session waits."""

    reason: PendingReason
    """`reply` and `tool_result`: an agent waits. The others: a message, or the answer of a dead process, waits."""
    detail: str
    """The reason in a sentence."""
    agent: str | None = None
    until: datetime | None = None
    """When the wait expires; None when it does not."""
    invocation_id: str | None = None
    process: str | None = None
    """The process that holds the session."""


async def pending_reasons(store: SessionStore, agents: AgentSet, session: Session, now: datetime) -> tuple[Pending, ...]:
    """Returns why the session waits; empty when it is idle, or is being answered and nothing else waits.

    Reads more than the session only when a message, or the answer of a dead process, waits.
    """
    work = (await _reason_of_work(store, agents, session, now),) if has_pending_work(session) else ()
    return (*work, *_open_waits(session))


def has_pending_work(session: Session) -> bool:
    """Returns whether messages wait in the session, or the answer of a dead process does."""
    return session.queued > 0 or orphan_of(session) is not None


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The agents that the living processes of the app answer with."""

    tree: frozenset[str]
    retired: frozenset[str]

    def lacks(self, agent: str) -> bool:
        return agent not in self.tree and agent not in self.retired


def _may_hold(agent: str, tree: AgentTree, roles: Collection[str]) -> bool:
    return agent in tree and tree.reachable(agent, roles)


def _timed_out(invocation_id: str, open_: OpenInvocation) -> ExpiredWait:
    return ExpiredWait(invocation_id, open_.agent, "limit:wait_seconds", "Nobody answered in time.")


def _open_waits(session: Session) -> list[Pending]:
    """Returns the waits of the session's open invocations: for a reply, a tool result or an approval."""
    found = []
    for invocation_id, agent, wait in session.head.waiting():
        until = "" if wait.expires_at is None else f" until {wait.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        what = "a reply" if wait.kind == "reply" else f"the result of {wait.id}"
        detail = f"Agent {agent!r} waits for {what}{until}."
        found.append(Pending(wait.kind, detail, agent, wait.expires_at, invocation_id))
    return found


async def _reason_of_work(store: SessionStore, agents: AgentSet, session: Session, now: datetime) -> Pending:
    """Returns why no process works on the session now: held, no agent, no living process, or no room."""
    if session.holder is not None:
        detail = f"Process {session.holder} holds the session; it answers the messages that wait next."
        return Pending("held", detail, process=session.holder)
    living = [each for each in await store.leases.holders(session.app) if each.silent_seconds <= each.timeout_seconds]
    # A process that does not say which agents it has, such as one of an older release, may have any.
    told = [each.agents for each in living if each.agents] if all(each.agents is not None for each in living) else []
    known = _Fleet(frozenset[str]().union(*told), agents.retired) if told else agents
    if (agent := await _unknown_agent(store, known, session, now)) is not None:
        whose = f"any of the {len(told)} processes that answer" if told else "this tree"
        detail = f"Agent {agent!r} is not in {whose}: the work is left to a process that knows it."
        return Pending("unknown_agent", detail, agent)
    if not living:
        return Pending("no_process", "No process that answers is alive. Start `turnwise worker` or `turnwise serve`.")
    held = sum(each.sessions for each in living)
    detail = f"No process has taken the session yet: the {len(living)} that are alive hold {held} other sessions."
    return Pending("no_room", detail)


async def _unknown_agent(store: SessionStore, agents: KnownAgents, session: Session, now: datetime) -> str | None:
    """Returns the agent that the next piece of work needs and these agents lack."""
    orphan = orphan_of(session)
    if orphan is not None:
        return orphan.open.agent if agents.lacks(orphan.open.agent) else None
    message = await store.inbox.queued(session.key)
    if message is None:
        return None
    return asked_by_unknown(session.head, message.content, message.context, agents, now)
