"""From a message to what will be stored of it: guardrails, blobs, selection. Nothing is stored in a session yet."""

from typing import NamedTuple

from turnwise.facts.content import ArtifactPart, BlobPart, Content, TextPart
from turnwise.facts.errors import SessionMissing, StaleWriter, UnknownToolCall
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head, Session
from turnwise.ports.stores import SessionStore
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.guards.guardrails import Guardrails
from turnwise.runner.message.continuation import Continuation, continuation_of, expired_waits, interrupted_end
from turnwise.runner.message.invocation import MessageRun, PreparedMessage
from turnwise.runner.message.recovery_rules import LeftToOtherProcesses, UnknownAgents
from turnwise.runner.record.events import closing_events, session_after, steps_of
from turnwise.runner.turn.state import Runtime
from turnwise.selection.cascade import Cascade, moved_positions
from turnwise.selection.clarify import CLARIFIED_BY_MEANING, RESOLVED
from turnwise.selection.resume import tool_result_owner
from turnwise.selection.verdicts import shortened

LOOKED_BACK = 20
"""A clarifying question ends its invocation, so what it was about stands close before."""
SAVED = "artifact_invocation-"
"""How the names of artifacts begin that were blobs of a message."""


class Plan(NamedTuple):
    """What was decided for a message: the events that begin its invocation, who holds the floor first, and in which turn."""

    session: Session
    content: Content
    events: tuple[Event, ...]
    selection: Selection
    invocation_id: str
    continues: Continuation | None

    @property
    def holder(self) -> str:
        return self.continues.agent if self.continues else self.selection.agent

    @property
    def turn(self) -> int:
        return self.continues.turn if self.continues else 1


class Refusal(NamedTuple):
    """What is put on record of a message that guardrails blocked: that it came, and who blocked it; nothing of itself."""

    session: Session
    events: tuple[Event, ...]
    invocation_id: str


class UnfinishedMessage(Exception):
    """An older message of the session is being answered, or its process died while it was. Never leaves the runner.

    held: whether another process has the session. It may die before this one comes to write, and must not be found then
    with another message behind its own.
    """

    def __init__(self, *, held: bool) -> None:
        super().__init__()
        self.held = held


class Planner:
    """Decides what becomes of a message (the first half of behaviour A18)."""

    def __init__(self, cast: Runtime, cascade: Cascade, holder: str, unknown: UnknownAgents) -> None:
        self._cast, self._cascade, self._me, self._unknown = cast, cascade, holder, unknown

    async def plan(self, job: MessageRun) -> Plan | Refusal:
        """The plan on the session as it is now. A job is prepared once, however often it is planned anew.

        Unfinished, unless the message interrupts what a dead process left; LeftToOthers when it may answer the question of an
        agent that only other processes know; SessionMissing, UnknownToolCall, NobodyEligible, and what the stores raise.
        """
        session = await self._cast.store.open(job.key, blank=job.config.create_session)
        if session is None:
            raise SessionMissing(f"Session {job.key.id!r} does not exist.", fix="Create it, or let the run create it.")
        prepared = await self.prepare(job)
        if any(open_.state == "running" for open_ in session.head.invocations.values()):
            held = session.holder not in (None, self._me)
            # What waited in line interrupted when it came; it is no reason to end what came to run since.
            if held or job.queued or job.blocked or job.config.when_busy != "interrupt":
                raise UnfinishedMessage(held=held)
        if job.blocked:
            return self._refusal(job, session, prepared)
        context, now = job.message.context, self._cast.issuer.now()
        if self._unknown.leaves_message(job.key, session.head, job.message.id, prepared.content, context, now):
            raise LeftToOtherProcesses
        return await self._decide(job, session, prepared)

    async def prepare(self, job: MessageRun) -> PreparedMessage:
        """What the guardrails leave of the job's message, its blobs saved: done once. ArtifactError.

        What is in the inbox was prepared by whoever put it there.
        """
        if job.prepared is None:
            job.prepared = self._found(job) if job.queued else await self._prepare(job)
        return job.prepared

    def _found(self, job: MessageRun) -> PreparedMessage:
        content = job.message.content
        saved = [part for part in content.parts if isinstance(part, ArtifactPart) and part.name.startswith(SAVED)]
        versions = {part.name: part.version for part in saved if part.version is not None}
        invocation_id, message = self._cast.issuer.new_id("invocation"), job.message
        return PreparedMessage(invocation_id, content, versions, message.guarded, message.context.tools)

    async def _prepare(self, job: MessageRun) -> PreparedMessage:
        guarding = Guardrails(self._cast.guardrails, job.config.limits.guardrail_seconds)
        content, guarded = await guarding.message(job.message.content)
        tools: tuple[OfferedTool, ...] = ()
        if content is not None:
            tools, more = await guarding.offers(job.message.context.tools)
            content, guarded = None if blocked_message(more) else content, (*guarded, *more)
        prepared = PreparedMessage(self._cast.issuer.new_id("invocation"), content or Content(role="user"), {}, guarded, tools)
        if job.config.save_input_blobs_as_artifacts and self._cast.artifacts is not None:
            return await self._save_blobs(job, prepared)
        return prepared

    def _refusal(self, job: MessageRun, session: Session, prepared: PreparedMessage) -> Refusal:
        event = Event(
            id=job.event_id,
            author=USER,
            invocation_id=prepared.invocation_id,
            created_at=self._cast.issuer.now(),
            actions=Actions(guarded=prepared.guarded, end=End(reason="blocked")),
        )
        return Refusal(session, (event,), prepared.invocation_id)

    async def _save_blobs(self, job: MessageRun, prepared: PreparedMessage) -> PreparedMessage:
        """Saves each blob as `artifact_<invocation id>_<index of the part>`, with a text in its place (behaviours A26, A27).

        References to what was saved follow all parts, so that agents need not read names out of a text.
        """
        assert self._cast.artifacts is not None
        parts, versions = list(prepared.content.parts), {}
        for index, part in enumerate(prepared.content.parts):
            if isinstance(part, BlobPart):
                name = f"artifact_{prepared.invocation_id}_{index}"
                info = await self._cast.artifacts.save(job.key, name, part.data, mime_type=part.mime_type)
                versions[name] = info.version
                parts[index] = TextPart(text=f"Uploaded file: {name}. It has been saved to the artifacts")
                parts.append(ArtifactPart(name=name, version=info.version, mime_type=part.mime_type, title=part.name))
        content = prepared.content.model_copy(update={"parts": tuple(parts)})
        return prepared._replace(content=content, artifact_versions=versions)

    async def _decide(self, job: MessageRun, session: Session, prepared: PreparedMessage) -> Plan:
        content = prepared.content
        self._refuse_foreign_results(content, session.head, job.message.context)
        over = await self._lapsed(session, job)
        # A tool result is looked up before the waits that are over are forgotten, so that the record can say why.
        head = session_after(session, over).head if over and not content.tool_results else session.head
        door = _Admission(self._cast.store, job, session)
        selection = await self._cascade.decide(
            head=head, message=content, context=job.message.context, before_remote_call=door.accept, message_id=job.message.id
        )
        continues = None
        if selection.outcome == "chosen":
            roles, answers = job.message.context.roles, job.message.context.answers
            continues = continuation_of(head, content, selection.agent, self._cast.tree, roles, answers)
        self._refuse_foreign_reply(job.message.context, continues)
        invocation_id = continues.invocation_id if continues else prepared.invocation_id
        state, known = job.message.context.state, session.merged_state
        brief = await self._still_asked(session, content, selection)
        user = Event(
            id=job.event_id,
            author=USER,
            invocation_id=invocation_id,
            created_at=self._cast.issuer.now(),
            content=content,
            actions=Actions(
                state_delta=dict(state),
                # A turn that is taken up again reads what it read before, until it comes to this message.
                state_before={key: known.get(key) for key in state} if continues else {},
                artifact_versions=dict(prepared.artifact_versions),
                selection=selection,
                positions=moved_positions(selection),
                answers=continues.answers if continues else None,
                brief=brief,
                guarded=prepared.guarded,
            ),
        )
        events = (*(event for event in over if event.invocation_id != invocation_id), user)
        return Plan(door.session, brief or content, events, selection, invocation_id, continues)

    async def _still_asked(self, session: Session, content: Content, selection: Selection) -> Content | None:
        """What the agent is told in place of the answer to a clarifying question: the request that the question was about,
        and the answer if it says more than which agent is meant. None when the message is no such answer.
        """
        if selection.method not in RESOLVED or not session.head.offered:
            return None
        events = await self._cast.store.events(session.key, last=LOOKED_BACK)
        unclear = next((event for event in reversed(events) if _asks(event)), None)
        if unclear is None or unclear.content is None:
            return None
        more = content.parts if selection.method == CLARIFIED_BY_MEANING else ()
        return unclear.content.model_copy(update={"parts": (*unclear.content.parts, *more)})

    def _refuse_foreign_results(self, content: Content, head: Head, context: MessageContext) -> None:
        """UnknownToolCall for a result that nobody waits for (behaviour A8), or whose agent this caller may not reach: it
        must not use up the call.
        """
        owner = tool_result_owner(content, head)
        tree = self._cast.tree
        if owner is not None and owner[1] in tree and not tree.reachable(owner[1], context.roles):
            raise UnknownToolCall(
                f"Nobody waits for a result of the tool call {content.tool_results[0].call_id!r} from this caller.",
                fix="Send it with the roles of whom the call was made for.",
            )

    def _refuse_foreign_reply(self, context: MessageContext, continues: Continuation | None) -> None:
        """UnknownToolCall for a reply to a question that nobody asks, or asks this caller: it is to begin nothing new."""
        if context.answers is not None and (continues is None or continues.answers != context.answers):
            raise UnknownToolCall(
                f"Nobody waits for a reply to {shortened(context.answers)!r} from this caller.",
                fix="Answer each question once, while its invocation waits.",
            )

    async def _lapsed(self, session: Session, job: MessageRun) -> list[Event]:
        over = [*expired_waits(session.head, self._cast.tree, self._cast.issuer.now(), waits=job.config.limits.waits)]
        over += interrupted_end(session.head)
        events: list[Event] = []
        for lapse in over:
            end = End(reason=lapse.reason, detail=lapse.detail)
            steps = await steps_of(self._cast.store, session, lapse.invocation_id)
            events += closing_events(self._cast.issuer, session.head, lapse.invocation_id, lapse.agent, end, steps=steps)
        return events


class _Admission:
    """Accepts a message before somebody else is asked about it: that may take long, and accepted means stored."""

    def __init__(self, store: SessionStore, job: MessageRun, session: Session) -> None:
        self._store, self._job, self.session = store, job, session

    async def accept(self) -> None:
        """Puts the message in the inbox, unless it is there. StaleWriter when the session has moved on: decide anew."""
        job = self._job
        if job.queued:
            return
        # One more than may wait: this one is about to be answered.
        limit = job.config.limits.queue + 1
        receipt = await self._store.inbox.accept(job.key, job.kept, create=job.config.create_session, limit=limit)
        opened = await self._store.open(job.key)
        if receipt.state != "queued" or opened is None or opened.head != self.session.head:
            raise StaleWriter(f"Session {job.key.id!r} was written by somebody else since it was read.", fix="Decide anew.")
        job.queued = True
        job.accept()
        self.session = opened


def _asks(event: Event) -> bool:
    """Whether it is a message that was answered by a clarifying question."""
    return event.author == USER and event.actions.selection is not None and event.actions.selection.outcome == "clarify"
