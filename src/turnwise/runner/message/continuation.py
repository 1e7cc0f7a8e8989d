"""Decides which waiting invocation a message continues, and which waits have expired. Pure."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.sessions import Head, OpenInvocation, Session
from turnwise.facts.tree import AgentTree


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


def _may_hold(agent: str, tree: AgentTree, roles: Collection[str]) -> bool:
    return agent in tree and tree.reachable(agent, roles)


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


def _timed_out(invocation_id: str, open_: OpenInvocation) -> ExpiredWait:
    return ExpiredWait(invocation_id, open_.agent, "limit:wait_seconds", "Nobody answered in time.")
