"""Which waiting invocation a message goes on with, and which waits are over. Pure."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.sessions import Head, OpenInvocation, Session
from turnwise.facts.tree import AgentTree


class Continuation(NamedTuple):
    """A waiting invocation that goes on: its id, who holds its floor in which turn, and the wait a plain message answers."""

    invocation_id: str
    agent: str
    turn: int
    answers: str | None


class ExpiredWait(NamedTuple):
    """An open invocation that will never go on, by whom it was held, and its end."""

    invocation_id: str
    agent: str
    reason: str
    detail: str


def continuation_of(
    head: Head, message: Content, selected: str, tree: AgentTree, roles: Collection[str] = (), answers: str | None = None
) -> Continuation | None:
    """The invocation this message continues, if the selected agent waits for it; None when it begins a new one.

    A tool result continues the invocation of its call (behaviour A6). A plain message continues the newest invocation in
    which the selected agent asked, or holds the floor, and a reply is awaited (A42); one that says which question it
    `answers` continues none but that one's. Whoever holds the floor runs again, so
    that agent too must be open to the caller, by its `roles` (C20).
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


def _may_hold(agent: str, tree: AgentTree, roles: Collection[str]) -> bool:
    return agent in tree and tree.reachable(agent, roles)


def is_being_answered(session: Session, open_: OpenInvocation, me: str | None = None) -> bool:
    """Whether a process still writes to that open invocation of the session, other than `me`, who asks.

    One that waits already may have parallel agents at work; then what was written last is its own.
    """
    return session.holder not in (None, me) and (open_.state == "running" or open_.last == session.last_sequence)


def is_over(session: Session, invocation_id: str) -> bool:
    """Whether nobody writes to that invocation of the session any more, unless a message goes on with it."""
    open_ = session.head.invocations.get(invocation_id)
    return open_ is None or (open_.state == "waiting" and not is_being_answered(session, open_))


def interrupted_end(head: Head) -> Sequence[ExpiredWait]:
    """What a message that interrupts ends: whatever its dead process left running."""
    running = ((id_, open_) for id_, open_ in head.invocations.items() if open_.state == "running")
    return [
        ExpiredWait(id_, open_.agent, "cancelled", "Its process died, and a message interrupted it.") for id_, open_ in running
    ]


def expired_waits(head: Head, tree: AgentTree, now: datetime, *, waits: int) -> Sequence[ExpiredWait]:
    """The waiting invocations that are over: they expired, their agent is gone, or they are beyond the newest `waits`."""
    over = []
    waiting = [(id_, open_) for id_, open_ in head.invocations.items() if open_.state == "waiting"]
    for rank, (id_, open_) in enumerate(sorted(waiting, key=lambda item: -item[1].began)):
        if open_.waits and all(wait.expires_at and wait.expires_at <= now for _, wait in open_.waits):
            over.append(ExpiredWait(id_, open_.agent, "limit:wait_seconds", "Nobody answered in time."))
        elif open_.agent not in tree:
            over.append(ExpiredWait(id_, open_.agent, "failed", f"Agent {open_.agent!r} is no longer in the tree."))
        elif rank >= waits:
            over.append(ExpiredWait(id_, open_.agent, "limit:waits", "Too many newer questions are open."))
    return over
