"""Plans a message: guardrails, blobs, selection, and the events to store. Writes nothing to the session's log."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from turnwise.facts.content import ArtifactPart, BlobPart, Content, TextPart
from turnwise.facts.errors import SessionMissing, StaleWriter, UnknownToolCall
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.ids import Issuer
from turnwise.facts.memory import MemoryEntry
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head, Session
from turnwise.facts.tree import AgentTree
from turnwise.ports.decisions import Version, VersionKind
from turnwise.ports.stores import SessionStore
from turnwise.runner.agent_sets import AgentSet
from turnwise.runner.experiments import DecidingPolicy, deciding_policy
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.guards.guardrails import Guardrails
from turnwise.runner.guards.memory_guard import MemoryGuard
from turnwise.runner.message.continuation import (
    Continuation,
    ExpiredWait,
    continuation_of,
    expired_waits,
    interrupted_end,
)
from turnwise.runner.message.invocation import MessageRun, PreparedMessage
from turnwise.runner.message.recovery_rules import LeftToOtherProcesses, UnknownAgents
from turnwise.runner.record.events import closing_events, session_after, steps_of
from turnwise.runner.rests import with_ends
from turnwise.runner.turn.state import Services
from turnwise.selection.alternatives import ShadowRequest
from turnwise.selection.cascade import Cascade, moved_positions
from turnwise.selection.clarify import CLARIFIED_BY_MEANING, RESOLVED
from turnwise.selection.resume import tool_result_owner
from turnwise.selection.verdicts import recorded, shortened

QUESTION_EVENTS = 20
"""The number of recent events to search for a clarifying question. The question ends its invocation, so it is close."""
ARTIFACT_PREFIX = "artifact_invocation-"
"""The prefix of artifacts that hold blobs of a message."""

log = logging.getLogger("turnwise.runner")


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision for a message: the events that begin its invocation, and the agent and turn that run first."""

    session: Session
    content: Content
    events: tuple[Event, ...]
    selection: Selection
    invocation_id: str
    continues: Continuation | None
    shadow: ShadowRequest | None = None
    """The decision that the shadow policy makes after the answer; None without one."""

    @property
    def holder(self) -> str:
        return self.continues.agent if self.continues else self.selection.agent

    @property
    def turn(self) -> int:
        return self.continues.turn if self.continues else 1


class Refusal(NamedTuple):
    """The record of a message that guardrails blocked. It holds none of the message's content."""

    session: Session
    events: tuple[Event, ...]
    invocation_id: str


class UnfinishedMessage(Exception):
    """An older message of the session is unfinished. Never leaves the runner.

    Args:
        held: True if another process holds the session. The other process may die before this one writes, so this message must
        not be stored after the unfinished one.
    """

    def __init__(self, *, held: bool) -> None:
        super().__init__()
        self.held = held


class Planner:
    """Plans messages (the first half of behaviour A18)."""

    def __init__(self, services: Services, holder: str, unknown: UnknownAgents) -> None:
        self._services, self._holder, self._unknown = services, holder, unknown
        self._versions = VersionRecorder(services.store.decisions.put_version, services.issuer)

    async def close(self) -> None:
        """Waits until the versions of the policy and the tree are stored."""
        await self._versions.close()

    async def plan(self, run: MessageRun, agent_set: AgentSet) -> Plan | Refusal:
        """Plans the message on the current session. Prepares it once, even if it is planned several times.

        Args:
            run: The message.
            agent_set: The agents to decide among.

        Raises:
            UnfinishedMessage: An older message is unfinished, unless this one interrupts an orphan of a dead process.
            LeftToOtherProcesses: The message may answer the question of an agent that only other processes know.
            SessionMissing: The session does not exist and may not be created.
            SessionFull, StateFull, UserLimitReached: The session or the user has reached a limit.
            UnknownToolCall: The message answers a call or question that is not open for this caller.
            NobodyEligible: No agent is eligible.
        """
        session = await self._services.store.open(run.key, blank=run.config.create_session)
        if session is None:
            raise SessionMissing(f"Session {run.key.id!r} does not exist.", fix="Create it, or let the run create it.")
        if run.revision is not None and (session.revision != run.revision or session.queued):
            raise StaleWriter(
                f"Session {run.key.id!r} has revision {session.revision} and {session.queued} queued messages by now.",
                fix="Read it again.",
            )
        await self._services.allowances.check_message(session, run.message, run.config.limits, saved=run.prepared is not None)
        prepared = await self.prepare(run)
        if any(open_.state == "running" for open_ in session.head.invocations.values()):
            held = session.holder not in (None, self._holder)
            # A queued message interrupted on arrival. It must not end a run that began since then.
            if held or run.queued or run.blocked or run.config.when_busy != "interrupt":
                raise UnfinishedMessage(held=held)
        if run.blocked:
            return self._record_of_blocked(run, session, prepared)
        context, now = run.message.context, self._services.issuer.now()
        if self._unknown.leaves_message(run.key, session.head, run.message.id, prepared.content, context, agent_set, now):
            raise LeftToOtherProcesses
        return await self._decide(run, session, prepared, agent_set)

    async def prepare(self, run: MessageRun) -> PreparedMessage:
        """Runs guardrails on the message and saves its blobs, once. A message from the inbox is already prepared.

        Raises ArtifactError.
        """
        if run.prepared is None:
            run.prepared = self._already_prepared(run) if run.queued else await self._prepare(run)
        return run.prepared

    def _already_prepared(self, run: MessageRun) -> PreparedMessage:
        content = run.message.content
        saved = [part for part in content.parts if isinstance(part, ArtifactPart) and part.name.startswith(ARTIFACT_PREFIX)]
        versions = {part.name: part.version for part in saved if part.version is not None}
        invocation_id, message = self._services.issuer.new_id("invocation"), run.message
        return PreparedMessage(invocation_id, content, versions, message.guarded, message.context.tools)

    async def _prepare(self, run: MessageRun) -> PreparedMessage:
        """Runs the guardrails on the message and its offered tools, and saves its blobs as artifacts where the app wants it."""
        guardrails = Guardrails(self._services.guardrails, run.config.limits.guardrail_seconds)
        content, guarded = await guardrails.message(run.message.content)
        tools: tuple[OfferedTool, ...] = ()
        if content is not None:
            tools, more = await guardrails.offers(run.message.context.tools)
            content, guarded = None if blocked_message(more) else content, (*guarded, *more)
        prepared = PreparedMessage(
            self._services.issuer.new_id("invocation"), content or Content(role="user"), {}, guarded, tools
        )
        if run.config.save_input_blobs_as_artifacts and self._services.artifacts is not None:
            return await self._save_blobs(run, prepared)
        return prepared

    def _record_of_blocked(self, run: MessageRun, session: Session, prepared: PreparedMessage) -> Refusal:
        """Returns the record of a message that guardrails blocked: one event without the message's content."""
        event = Event(
            id=run.event_id,
            author=USER,
            invocation_id=prepared.invocation_id,
            created_at=self._services.issuer.now(),
            actions=Actions(guarded=prepared.guarded, end=End(reason="blocked")),
        )
        return Refusal(session, (event,), prepared.invocation_id)

    async def _save_blobs(self, run: MessageRun, prepared: PreparedMessage) -> PreparedMessage:
        """Saves each blob as `artifact_<invocation id>_<part index>`, with a text in its place (behaviours A26, A27).

        References to the artifacts are appended to the parts, so agents need not parse names from texts.
        """
        assert self._services.artifacts is not None
        parts, versions = list(prepared.content.parts), {}
        for index, part in enumerate(prepared.content.parts):
            if isinstance(part, BlobPart):
                name = f"artifact_{prepared.invocation_id}_{index}"
                info = await self._services.artifacts.save(run.key, name, part.data, mime_type=part.mime_type)
                versions[name] = info.version
                parts[index] = TextPart(text=f"Uploaded file: {name}. It has been saved to the artifacts")
                parts.append(ArtifactPart(name=name, version=info.version, mime_type=part.mime_type, title=part.name))
        content = prepared.content.with_parts(parts)
        return prepared._replace(content=content, artifact_versions=versions)

    async def _decide(self, run: MessageRun, session: Session, prepared: PreparedMessage, agent_set: AgentSet) -> Plan:
        """Selects the agent for the prepared message, and plans the events: ends of expired waits, then the user's message.

        Raises UnknownToolCall for a result or answer that nothing waits for.
        """
        content = prepared.content
        self._check_results(content, session.head, run.message.context, agent_set.tree)
        over = await self._expiry_events(session, run, agent_set.tree)
        # A tool result is matched against expired waits too, so that the record can explain its refusal.
        head = session_after(session, over).head if over and not content.tool_results else session.head
        admission = _Admission(self._services.store, run, session)
        policy = deciding_policy(agent_set, await self._services.experiments.of(session))
        selection, shadow = await self._select(run, head, content, admission, agent_set, policy)
        self._versions.note(run.key.app, selection, policy.cascade)
        guardrails = MemoryGuard(self._services.guardrails, run.config.limits.guardrail_seconds)
        selection = agent_set.stamped(policy.stamped(await guardrails.selection(selection)))
        if run.message.credential:
            selection = selection.replace_valid(credential=run.message.credential)
        continues = None
        if selection.outcome == "chosen":
            roles, answers = run.message.context.roles, run.message.context.answers
            continues = continuation_of(head, content, selection.agent, agent_set.tree, roles, answers)
        self._check_reply(run.message.context, continues)
        invocation_id = continues.invocation_id if continues else prepared.invocation_id
        state, known = run.message.context.state, session.merged_state
        brief = await self._still_asked(session, content, selection)
        user = Event(
            id=run.event_id,
            author=USER,
            invocation_id=invocation_id,
            created_at=self._services.issuer.now(),
            content=content,
            actions=Actions(
                state_delta=dict(state),
                # A resumed turn reads the earlier values until its replay reaches this message.
                state_before={key: known.get(key) for key in state} if continues else {},
                artifact_versions=dict(prepared.artifact_versions),
                selection=recorded(selection),
                positions=moved_positions(selection),
                answers=continues.answers if continues else None,
                brief=brief,
                guarded=prepared.guarded,
                remembered=await self._entities(run, content, selection, guardrails, agent_set.tree),
            ),
        )
        events = (*(event for event in over if event.invocation_id != invocation_id), user)
        return Plan(admission.session, brief or content, events, selection, invocation_id, continues, shadow)

    async def _select(
        self,
        run: MessageRun,
        head: Head,
        content: Content,
        admission: "_Admission",
        agent_set: AgentSet,
        policy: DecidingPolicy,
    ) -> tuple[Selection, ShadowRequest | None]:
        """Returns the selection, and what the shadow decides on. The first message for an agent after its rest is its probe."""
        rests, context = self._services.rests, run.message.context
        noted = await self._services.memory.noted(content, run.key, context.roles, agent_set.tree)
        resting = {name: rest for name, rest in rests.resting().items() if name not in (agent_set.tree.root, run.probe)}
        while True:
            selection = await policy.cascade.decide(
                head=head,
                message=content,
                context=context,
                noted=noted,
                resting=frozenset(resting),
                before_remote_call=admission.accept,
                message_id=run.message.id,
            )
            claimed = None if selection.agent in (agent_set.tree.root, run.probe) else await rests.try_probe(selection.agent)
            if claimed is not False or selection.agent in resting:
                break
            resting |= {name: rest for name, rest in rests.resting().items() if name == selection.agent}
            if selection.agent not in resting:
                break
        run.probe = selection.agent if claimed else run.probe
        return with_ends(selection, resting), _shadow_of(run, head, content, policy, selection, frozenset(resting))

    async def _entities(
        self, run: MessageRun, content: Content, selection: Selection, guardrails: MemoryGuard, tree: AgentTree
    ) -> tuple[MemoryEntry, ...]:
        """Returns the things that the message names, as guardrails let them be remembered."""
        memory = self._services.memory
        agent = tree.card(selection.agent) if selection.outcome == "chosen" and selection.agent in tree else None
        found = memory.entities(content, agent, tree, run.event_id, self._services.issuer.now())
        checked = [await guardrails.memory(entry, selection.agent) for entry in found]
        entries = tuple(entry for entry in checked if entry is not None)
        if entries and not await self._services.allowances.has_memory_room(run.key, run.config.limits, entries=len(entries)):
            log.warning("The memory of a user is full: %d entries were not stored.", len(entries))
            return ()
        return entries

    async def _still_asked(self, session: Session, content: Content, selection: Selection) -> Content | None:
        """Returns the brief for the answer to a clarifying question: the original request, plus any further content of the
        answer.

        None when the message is no such answer.
        """
        if selection.method not in RESOLVED or not session.head.offered:
            return None
        events = await self._services.store.events(session.key, last=QUESTION_EVENTS)
        unclear = next((event for event in reversed(events) if _was_answered_by_question(event)), None)
        if unclear is None or unclear.content is None:
            return None
        more = content.parts if selection.method == CLARIFIED_BY_MEANING else ()
        return unclear.content.with_parts((*unclear.content.parts, *more))

    def _check_results(self, content: Content, head: Head, context: MessageContext, tree: AgentTree) -> None:
        """Raises UnknownToolCall for a result without an open call (A8), or of an agent that this caller's roles do not
        allow.

        The refused result does not close the call.
        """
        owner = tool_result_owner(content, head)
        if owner is not None and owner[1] in tree and not tree.reachable(owner[1], context.roles):
            raise UnknownToolCall(
                f"Nobody waits for a result of the tool call {content.tool_results[0].call_id!r} from this caller.",
                fix="Send it with the roles of the user that the call was made for.",
            )

    def _check_reply(self, context: MessageContext, continues: Continuation | None) -> None:
        """Raises UnknownToolCall when the message answers a question that is not open for this caller."""
        if context.answers is not None and (continues is None or continues.answers != context.answers):
            raise UnknownToolCall(
                f"Nobody waits for a reply to {shortened(context.answers)!r} from this caller.",
                fix="Answer each question once, while its invocation waits.",
            )

    async def _expiry_events(self, session: Session, run: MessageRun, tree: AgentTree) -> list[Event]:
        now, limit = self._services.issuer.now(), run.config.limits.waits
        over = [*expired_waits(session.head, tree, now, waits=limit)]
        over += interrupted_end(session.head)
        return await ending_events(self._services, session, over)


async def ending_events(services: Services, session: Session, over: Iterable[ExpiredWait]) -> list[Event]:
    """Returns the events that end these invocations."""
    events: list[Event] = []
    for expired in over:
        end = End(reason=expired.reason, detail=expired.detail)
        steps = await steps_of(services.store, session, expired.invocation_id)
        events += closing_events(services.issuer, session.head, expired.invocation_id, expired.agent, end, steps=steps)
    return events


class _Admission:
    """Stores a message in the inbox before a slow selector runs: once accepted, a message must be stored."""

    def __init__(self, store: SessionStore, run: MessageRun, session: Session) -> None:
        self._store, self._run, self.session = store, run, session

    async def accept(self) -> None:
        """Puts the message in the inbox, unless it is in it. Raises StaleWriter when the session has changed: plan again."""
        run = self._run
        if run.queued:
            return
        # One above the limit: this message is about to be answered.
        limit = run.config.limits.queue + 1
        receipt = await self._store.inbox.accept(
            run.key, run.stored_message, create=run.config.create_session, limit=limit, revision=run.revision
        )
        opened = await self._store.open(run.key)
        # A repeated id may be of another message.
        if receipt.repeated or opened is None or opened.head != self.session.head:
            raise StaleWriter(f"Session {run.key.id!r} was written by somebody else since it was read.", fix="Plan again.")
        run.queued = True
        run.accept()
        self.session = opened


def _shadow_of(
    run: MessageRun, head: Head, content: Content, policy: DecidingPolicy, selection: Selection, resting: frozenset[str]
) -> ShadowRequest | None:
    """Returns what the shadow policy decides on after the answer; None without a shadow policy."""
    if policy.shadow is None:
        return None
    paired = policy.assigned if policy.assigned is not None and policy.assigned.shadow is not None else None
    return ShadowRequest(
        cascade=policy.shadow,
        head=head,
        message=content,
        context=run.message.context,
        noted=selection.request.noted if selection.request is not None else (),
        resting=resting,
        message_id=run.message.id,
        may_ask=policy.cascade.spec.shadow_may_ask,
        experiment=paired.experiment if paired is not None else None,
        arm=paired.shadow.name if paired is not None and paired.shadow is not None else None,
    )


def _was_answered_by_question(event: Event) -> bool:
    """Returns whether the event is a message that a clarifying question answered."""
    return event.author == USER and event.actions.selection is not None and event.actions.selection.outcome == "clarify"


class VersionRecorder:
    """Stores each version once, in the background. A failure is logged, and the next decision tries again."""

    def __init__(self, put: Callable[[str, Version], Awaitable[None]], issuer: Issuer) -> None:
        self._put_version, self._issuer = put, issuer
        self._known: set[tuple[str, VersionKind, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, app: str, selection: Selection, cascade: Cascade) -> None:
        """Starts to store the versions of a decision that the cascade just made. Returns at once."""
        names: tuple[tuple[VersionKind, str], ...] = (("policy", selection.fingerprint), ("tree", selection.tree_version))
        for kind, version in names:
            if version and (app, kind, version) not in self._known:
                self._known.add((app, kind, version))
                task = asyncio.create_task(self._put(app, kind, version, cascade))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Waits until all versions are stored, or failed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _put(self, app: str, kind: VersionKind, version: str, cascade: Cascade) -> None:
        """Stores a version with its body. A failure is logged, and the version is tried again with the next decision."""
        try:
            # A tree may have thousands of cards.
            body = await asyncio.to_thread(_body, kind, cascade)
            name = cascade.spec.name if kind == "policy" else ""
            await self._put_version(app, Version(kind, version, name, body, self._issuer.now()))
        except Exception as error:
            self._known.discard((app, kind, version))
            log.debug("The %s %s of app %s could not be stored: %s", kind, version, app, error)


def _body(kind: VersionKind, cascade: Cascade) -> str:
    if kind == "policy":
        return json.dumps(cascade.description(), ensure_ascii=False, separators=(",", ":"))
    # A tree's version is never deleted, so what users wrote is not in it.
    return f"[{','.join(card.model_dump_json(exclude_defaults=True, exclude={'learned'}) for card in cascade.tree)}]"
