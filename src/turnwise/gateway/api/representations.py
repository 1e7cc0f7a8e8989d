"""Converts sessions, artifacts, decisions, agents and the answers of messages to the models of the REST API."""

from collections.abc import Sequence

from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.facts.sessions import Session
from turnwise.facts.waits import Wait, open_waits, waits_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.agents import VisibleAgent
from turnwise.ports.decisions import Decision, RecentSession
from turnwise.ports.stores import ArtifactInfo, SessionInfo
from turnwise.runner import Invocation, InvocationStatus, Result
from turnwise.runner.message.open_invocations import Pending
from turnwise.wire.messages import Answer, OpenCall
from turnwise.wire.resources import (
    AgentShown,
    ArtifactShown,
    DecisionShown,
    Matching,
    OpenWait,
    PendingShown,
    RecentSessionShown,
    SessionRow,
    SessionShown,
    SkillShown,
)


def session_summary(info: SessionInfo) -> SessionRow:
    """Returns the row of a session in a list."""
    return SessionRow(
        id=info.key.id,
        user=info.key.user,
        revision=info.revision,
        last_sequence=info.last_sequence,
        created_at=info.created_at,
        updated_at=info.updated_at,
    )


def recent_session(found: RecentSession, view: Redactor) -> RecentSessionShown:
    """Returns the row of a session in the list by recency."""
    return RecentSessionShown(
        id=found.key.id,
        user=found.key.user,
        title=found.title,
        text=found.text,
        agent=found.agent if view.reaches(found.agent) else None,
        state=found.state,
        changed_at=found.changed_at,
    )


def decision_row(decision: Decision, view: Redactor) -> DecisionShown:
    """Returns a decision without the verdicts and exclusions, for lists."""
    slim = decision.selection.replace(verdicts=(), excluded=(), request=None)
    return decision_details(decision._replace(selection=slim), view)


def session_details(session: Session, view: Redactor, pending: Sequence[Pending] = ()) -> SessionShown:
    """Returns the session's status; `holder` is visible to operators and admins only."""
    head = session.head
    return SessionShown(
        id=session.id,
        user=session.user,
        revision=session.revision,
        last_sequence=session.last_sequence,
        created_at=session.created_at,
        updated_at=session.updated_at,
        busy=session.held,
        queued=session.queued,
        turns=head.turns,
        active_agent=head.active_agent,
        running=[id_ for id_, open_ in head.invocations.items() if open_.state == "running"],
        waits=list(map(_open_wait, waits_of(head))),
        pending=[_pending(each, view) for each in pending],
        holder=session.holder if view.inside else None,
    )


def _open_wait(wait: Wait) -> OpenWait:
    return OpenWait(invocation_id=wait.invocation_id, call_id=wait.id, kind=wait.kind, agent=wait.agent, tool=wait.tool)


def _pending(pending: Pending, view: Redactor) -> PendingShown:
    # Only operators learn of agents that are not served here.
    agent = pending.agent if pending.invocation_id is not None or view.inside else None
    return PendingShown(reason=pending.reason, agent=agent, invocation_id=pending.invocation_id, until=pending.until)


def artifact_details(info: ArtifactInfo) -> ArtifactShown:
    return ArtifactShown(**info._asdict())


def decision_details(decision: Decision, view: Redactor) -> DecisionShown:
    """Returns a decision as the API shows it, reduced to what the caller may see."""
    return DecisionShown(
        user=decision.key.user,
        session_id=decision.key.id,
        sequence=decision.sequence,
        invocation_id=decision.invocation_id,
        text=decision.text,
        selection=view.selection(decision.selection),
        created_at=decision.created_at,
        label=decision.label if decision.label is not None and view.reaches(decision.label) else None,
    )


def agent_details(known: VisibleAgent, view: Redactor) -> AgentShown:
    """Returns an agent as the API shows it. Its matching settings are only for operators and admins."""
    card = known.card
    matching = Matching(**{name: getattr(card, name) for name in Matching.model_fields}) if view.inside else None
    return AgentShown(
        name=card.name,
        description=card.description,
        kind=card.kind,
        parent=card.parent,
        children=list(known.children),
        tags=list(card.tags),
        skills=[SkillShown(name=skill.name, description=skill.description) for skill in card.skills],
        matching=matching,
    )


def answer_of(invocation: Invocation, result: Result, view: Redactor) -> Answer:
    """Returns the answer to the invocation's message, reduced to the fields that the caller may see."""
    answer = Answer(
        session_id=invocation.session.id,
        message_id=invocation.message_id,
        invocation_id=result.invocation_id or None,
        state="waiting" if result.waiting else "ended",
        waits=open_waits_of(result.events, view) if result.waiting else [],
    )
    return _with_result(answer, result, view)


def read_answer(session: str, reading: InvocationStatus, view: Redactor) -> Answer:
    """Returns the answer that the log holds now; without a text while the message is queued."""
    result = reading.result
    answer = Answer(session_id=session, message_id=reading.message_id, invocation_id=None, state=reading.state)
    if result is None:
        return answer
    waits = [each for each in open_waits_of(result.events, view) if each.call_id in reading.waits]
    return _with_result(replaced(answer, invocation_id=result.invocation_id, waits=waits), result, view)


def pending(invocation: Invocation) -> Answer:
    """Returns the answer to a message that was accepted and is not answered yet."""
    return Answer(
        session_id=invocation.session.id, message_id=invocation.message_id, invocation_id=invocation.id, state="running"
    )


def open_waits_of(events: Sequence[Event], view: Redactor) -> list[OpenCall]:
    """Returns the open waits in the events of one invocation, oldest first.

    A wait that the caller may not answer is listed without its arguments.
    """
    return [_open_call(wait, view) for wait in open_waits(events)]


def _with_result(answer: Answer, result: Result, view: Redactor) -> Answer:
    """Returns the answer with the result's text, end, error and selection, as far as the caller may see them."""
    return replaced(
        answer,
        text=result.text,
        end=view.end(result.end) if result.end else None,
        error=view.error(result.error) if result.error else None,
        selection=view.selection(result.selection) if result.selection else None,
    )


def _open_call(wait: Wait, view: Redactor) -> OpenCall:
    """Returns a wait as the API shows it; its arguments only to callers that may answer it."""
    return OpenCall(
        invocation_id=wait.invocation_id,
        call_id=wait.id,
        kind=wait.kind,
        agent=wait.agent,
        tool=wait.tool,
        arguments=wait.call.arguments if wait.call and view.answers(wait.call) else {},
        text=wait.text,
    )
