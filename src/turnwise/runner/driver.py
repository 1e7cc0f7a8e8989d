"""One message through: accept, select, begin, run, hand over, end (behaviour A18).

start ─ open head ─ guardrails ─ save blobs ─ select ─┬─ commit: lease, user event with its selection
                                                      │
        ┌─────────────────────────────────────────────┘
        └─ turn 1: agent A ─ event ─ event ─ transfer → turn 2: agent B ─ event ─┬─ commit: last event, end, release
                                                                                 │
                                                              or it waits ───────┘
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, TextPart, ToolResultPart
from turnwise.facts.errors import LimitReached, MessageBlocked, SessionMissing, StaleWriter, TurnwiseError
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, fold
from turnwise.ports.context import Suspend
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import Lease
from turnwise.runner.continuation import Continuation, continuation_of, lapses
from turnwise.runner.elsewhere import message_event_id
from turnwise.runner.floor import Cast, Floor, Handover
from turnwise.runner.frame import Frame
from turnwise.runner.hops import stop_reason
from turnwise.runner.job import Job
from turnwise.runner.journal import EMPTY, journal_of
from turnwise.runner.recorder import Recorder
from turnwise.selection.cascade import Cascade, positions_of
from turnwise.selection.owner import tool_result_owner

LEASE_SECONDS = 30.0
BEGIN_ATTEMPTS = 5

log = logging.getLogger("turnwise.runner")


class Plan(NamedTuple):
    """What was decided for a message before anything is stored."""

    events: tuple[Event, ...]
    selection: Selection
    invocation_id: str
    holder: str
    continues: Continuation | None

    @property
    def turn(self) -> int:
        return self.continues.turn if self.continues else 1


class Driver:
    """Answers one message at a time of a session. Holds nothing between messages."""

    def __init__(self, cast: Cast, cascade: Cascade, hooks: Sequence[Hooks], holder: str) -> None:
        self._cast, self._cascade, self._hooks = cast, cascade, hooks
        self._lease = Lease(holder, LEASE_SECONDS)

    async def serve(self, job: Job) -> None:
        """Answers the message to its end or wait, on record and on the job's feed.

        SessionBusy when somebody else writes to the session: the message is then in the inbox, unless the job is to be
        rejected. Other errors are raised when nothing was stored; once the message is stored they close the feed instead.
        """
        content, versions = await self._prepare(job)
        recorder, plan = await self._begin(job, content, versions)
        job.accept()
        problem: TurnwiseError | None = None
        try:
            await self._answer(job, await self._open_floor(job, recorder, plan, content), plan)
        except TurnwiseError as error:
            problem = error
        finally:
            recorder.shut(problem or StaleWriter("The invocation has ended."))
            job.invocation.feed.close(problem)

    async def _open_floor(self, job: Job, recorder: Recorder, plan: Plan, content: Content) -> Floor:
        journal = EMPTY
        if plan.continues:
            journal = journal_of(await self._cast.store.events(job.key, invocation_id=plan.invocation_id))
        return Floor(
            self._cast,
            recorder,
            journal,
            turn=plan.turn,
            invocation_id=plan.invocation_id,
            message=content,
            context=job.message.context,
            config=job.config,
        )

    async def _prepare(self, job: Job) -> tuple[Content, dict[str, int]]:
        content = job.message.content
        for guardrail in self._cast.guardrails:
            verdict = await guardrail.check("message", content, None)
            if verdict.action == "block":
                raise MessageBlocked(f"The guardrail {guardrail.name!r} blocked the message: {verdict.reason}")
            if verdict.action == "rewrite" and verdict.content is not None:
                content = verdict.content.model_copy(update={"role": "user"})
        job.invocation.id = self._cast.issuer.new_id("invocation")
        if job.config.save_input_blobs_as_artifacts and self._cast.artifacts is not None:
            return await self._save_blobs(job, content)
        return content, {}

    async def _save_blobs(self, job: Job, content: Content) -> tuple[Content, dict[str, int]]:
        """Saves each blob as `artifact_<invocation id>_<index of the part>`, with a text in its place (behaviours A26, A27).

        References to what was saved follow all parts, so that agents need not read names out of a text.
        """
        assert self._cast.artifacts is not None
        parts, versions = list(content.parts), {}
        for index, part in enumerate(content.parts):
            if isinstance(part, BlobPart):
                name = f"artifact_{job.invocation.id}_{index}"
                info = await self._cast.artifacts.save(job.key, name, part.data, mime_type=part.mime_type)
                versions[name] = info.version
                parts[index] = TextPart(text=f"Uploaded file: {name}. It has been saved to the artifacts")
                parts.append(ArtifactPart(name=name, version=info.version, mime_type=part.mime_type, title=part.name))
        return content.model_copy(update={"parts": tuple(parts)}), versions

    async def _begin(self, job: Job, content: Content, versions: dict[str, int]) -> tuple[Recorder, Plan]:
        limit = None if job.config.when_busy == "reject" else job.config.limits.queue
        for attempt in range(BEGIN_ATTEMPTS):
            session = await self._cast.store.open(job.key, blank=job.config.create_session)
            if session is None:
                raise SessionMissing(f"Session {job.key.id!r} does not exist.", fix="Create it, or let the run create it.")
            plan = await self._plan(job, session, content, versions)
            recorder = Recorder(self._cast.store, session, self._lease, job.invocation.feed, self._hooks, plan.invocation_id)
            try:
                await recorder.begin(job.message, plan.events, queue_limit=limit)
            except StaleWriter:
                # Somebody wrote between our reading and our writing: decide again on what is there now.
                if attempt + 1 == BEGIN_ATTEMPTS:
                    raise
                continue
            return recorder, plan
        raise AssertionError("unreachable")

    async def _plan(self, job: Job, session: Session, content: Content, versions: dict[str, int]) -> Plan:
        tool_result_owner(content, session.head)
        over = self._lapsed(session, job)
        head = session.head
        if over and not content.tool_results:
            numbered = [e.model_copy(update={"sequence": session.last_sequence + 1 + i}) for i, e in enumerate(over)]
            head = fold(session, numbered).head
        selection = await self._cascade.decide(head=head, message=content, context=job.message.context)
        continues = None
        if selection.outcome == "chosen":
            continues = continuation_of(head, content, selection.agent, self._cast.tree)
        invocation_id = continues.invocation_id if continues else job.invocation.id or ""
        user = Event(
            id=message_event_id(job.message.id),
            author=USER,
            invocation_id=invocation_id,
            created_at=self._cast.issuer.now(),
            content=content,
            actions=Actions(
                artifact_versions=versions,
                selection=selection,
                positions=positions_of(selection),
                answers=continues.answers if continues else None,
            ),
        )
        events = (*(e for e in over if e.invocation_id != invocation_id), user)
        return Plan(events, selection, invocation_id, continues.agent if continues else selection.agent, continues)

    def _lapsed(self, session: Session, job: Job) -> list[Event]:
        now = self._cast.issuer.now()
        return [
            Event(
                id=self._cast.issuer.new_id("event"),
                author=lapse.agent,
                invocation_id=lapse.invocation_id,
                created_at=now,
                actions=Actions(end=End(reason=lapse.reason, detail=lapse.detail)),
            )
            for lapse in lapses(session.head, self._cast.tree, now, waits=job.config.limits.waits)
        ]

    async def _answer(self, job: Job, floor: Floor, plan: Plan) -> None:
        turn = plan.turn
        if plan.selection.outcome == "clarify":
            floor.hold(_question(Frame(floor, plan.holder, str(turn), floor.message), plan.selection))
            await self._conclude(floor, plan.holder, End(reason="clarify"))
            return
        work = asyncio.create_task(self._turns(floor, plan.holder, turn))
        stopped = asyncio.Event()

        def stop() -> None:
            stopped.set()
            work.cancel()

        job.invocation.runs(plan.invocation_id, stop)
        if job.invocation.is_cancelled:
            stop()
        late = await self._watch(work, stopped, job.config)
        await self._settle(floor, plan.holder, work, late)

    async def _watch(self, work: "asyncio.Task[End | None]", stopped: asyncio.Event, config: RunConfig) -> str:
        """Waits until the turns are over; an agent that is late, or told to stop, gets a while to do so.

        Gives why it is late, or "".
        """
        seconds = config.deadline_seconds or config.limits.invocation_seconds
        told = asyncio.create_task(stopped.wait())
        await asyncio.wait({work, told}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if work.done():
            return ""
        work.cancel()
        await asyncio.wait({work}, timeout=config.limits.grace_seconds)
        return "" if stopped.is_set() else f"It took longer than {seconds:g} s."

    async def _settle(self, floor: Floor, holder: str, work: "asyncio.Task[End | None]", late: str) -> None:
        """Records how the turns ended."""
        if floor.recorder.problem:
            work.cancel()
            raise floor.recorder.problem
        if late:
            end: End | None = End(reason="limit:invocation_seconds", detail=late)
        elif not work.done() or work.cancelled():
            end = End(reason="cancelled")
        elif error := work.exception():
            end = _failed_end(error)
        else:
            end = work.result()
        if end is None:
            held = floor.take_held()
            await (floor.recorder.append(held, release=True) if held else floor.recorder.release())
            return
        await self._conclude(floor, holder, end)

    async def _turns(self, floor: Floor, holder: str, turn: int) -> End | None:
        """Runs turn after turn until nobody hands the floor on; the end, or None when the invocation waits."""
        holders, end = [holder], End()
        message = floor.journal.messages.get(turn, floor.message)
        while True:
            frame = Frame(floor, holders[-1], str(turn), message)
            try:
                await frame.perform()
            except Suspend:
                return None
            handover = floor.handover
            if handover is None:
                return end
            reason = stop_reason(holders, handover.target, floor.config.limits.transfers)
            if reason is not None:
                end = End(reason=reason, detail=f"{' → '.join([*holders, handover.target])} was stopped.")
                floor.notice = f"Hand-overs were stopped ({reason}): {end.detail} Answer yourself, as well as you can."
                floor.transfers_allowed = False
                handover = handover._replace(target=self._cast.tree.root, brief=None)
            await self._hand_over(floor, handover, str(turn))
            holders.append(handover.target)
            turn, message = turn + 1, handover.brief or floor.message

    async def _hand_over(self, floor: Floor, handover: Handover, branch: str) -> None:
        """Stores that the floor moves, with the giver's last word if it is still held."""
        floor.handover = None
        held = floor.take_held()
        if not held or held[-1].author != handover.by or held[-1].error:
            held.append(self._bare(floor, handover.by, branch))
        held[-1] = _acting(held[-1], transfer_to=handover.target, brief=handover.brief)
        await floor.recorder.append(held)

    async def _conclude(self, floor: Floor, holder: str, end: End) -> None:
        """Stores the end with what is held, and gives up the session; open tool calls get a result (behaviour A23)."""
        held = floor.take_held()
        if end.reason != "completed":
            held += self._unanswered(floor, end.reason)
        if not held:
            held = [self._bare(floor, floor.recorder.session.head.active_agent or holder, "")]
        held[-1] = _acting(held[-1], end=end)
        await floor.recorder.append(held, release=True)

    def _unanswered(self, floor: Floor, reason: str) -> list[Event]:
        calls = floor.recorder.session.head.calls.items()
        mine = [(id_, call) for id_, call in calls if call.invocation_id == floor.invocation_id]
        return [
            self._bare(floor, call.agent, "").model_copy(
                update={
                    "content": Content(parts=(ToolResultPart(call_id=id_, tool=call.tool, result=reason, failed=True),)),
                }
            )
            for id_, call in mine
        ]

    def _bare(self, floor: Floor, author: str, branch: str) -> Event:
        issuer = self._cast.issuer
        return Event(
            id=issuer.new_id("event"),
            author=author,
            invocation_id=floor.invocation_id,
            created_at=issuer.now(),
            branch=branch,
        )


def _acting(event: Event, **actions: object) -> Event:
    return event.model_copy(update={"actions": event.actions.model_copy(update=actions)})


def _failed_end(error: BaseException) -> End:
    if isinstance(error, LimitReached):
        return End(reason=f"limit:{error.which}", detail=str(error))
    if isinstance(error, TurnwiseError):
        return End(reason="failed", detail=str(error))
    raise error


def _question(frame: Frame, selection: Selection) -> Event:
    choices = [candidate.agent for verdict in selection.verdicts for candidate in verdict.candidates]
    data = DataPart(name="choices", data=list(dict.fromkeys(choices)))
    return frame.event(Content(parts=(TextPart(text=selection.reason), data)))
