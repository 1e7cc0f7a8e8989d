"""Why a session waits: for a reply, for the process that holds it, or for one that takes its work."""

from dataclasses import dataclass
from datetime import datetime

from turnwise.facts.sessions import Session
from turnwise.facts.waits import PendingReason
from turnwise.ports.stores import SessionStore
from turnwise.runner.agent_sets import AgentSet
from turnwise.runner.message.recovery_rules import KnownAgents, asked_by_unknown, orphan_of


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


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The agents that the living processes of the app answer with."""

    tree: frozenset[str]
    retired: frozenset[str]

    def lacks(self, agent: str) -> bool:
        return agent not in self.tree and agent not in self.retired


async def _unknown_agent(store: SessionStore, agents: KnownAgents, session: Session, now: datetime) -> str | None:
    """Returns the agent that the next piece of work needs and these agents lack."""
    orphan = orphan_of(session)
    if orphan is not None:
        return orphan.open.agent if agents.lacks(orphan.open.agent) else None
    message = await store.inbox.queued(session.key)
    if message is None:
        return None
    return asked_by_unknown(session.head, message.content, message.context, agents, now)
