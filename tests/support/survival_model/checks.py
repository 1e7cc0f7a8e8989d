"""What must hold of a session at any time, and what at the end. Every check gives what is wrong, one line each."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from survival_model.programs import Walk
from survival_model.world import Reader, World
from turnwise import Event
from turnwise.facts.errors import SessionError
from turnwise.facts.events import USER
from turnwise.facts.sessions import Head, Session, fold, visible
from turnwise.ports.decisions import Decision
from turnwise.runner.message.invocation import result_of


class View(NamedTuple):
    """A session as one finds it in the store, and the walk through what is visible of it."""

    session: Session
    stored: list[Event]
    shown: list[Event]
    decisions: Sequence[Decision]
    walk: Walk

    @property
    def is_busy(self) -> bool:
        """Whether somebody answers a message, or is to."""
        return bool(self.session.holder or self.session.queued or self.walk.running)

    def told(self) -> str:
        """The log, for people to read."""
        session, shown = self.session, {event.id for event in self.shown}
        lines = [f"--- {session.id}: holder {session.holder}, {session.queued} queued, stop {session.stop}, {session.state}"]
        for event in self.stored:
            acts = event.actions.model_dump(exclude_defaults=True, exclude={"selection", "state_before"})
            mark = " " if event.id in shown else "-"
            lines.append(f"{mark}{event.sequence} {event.id} {event.author} {event.invocation_id} {event.text!r} {acts}")
        return "\n".join(lines)


def look(world: World, name: str) -> View | None:
    """The session as it is now; None before its first message."""
    key, finish = world.key(name), world.loop.finish
    session = finish(world.store.open(key))
    if session is None:
        return None
    stored, shown = finish(world.store.events(key, hidden=True)), finish(world.store.events(key))
    decisions = finish(world.store.decisions.search(world.app, key=key, limit=1_000)).items[::-1]
    return View(session, stored, shown, decisions, Walk(world.messages, stored).walk(shown))


def always(world: World, view: View, *, settled: bool) -> Iterator[str]:
    """What is wrong in the session, whatever is still going on; `settled`: nothing is until another gate is opened."""
    yield from view.walk.problems
    numbers = [event.sequence for event in view.stored]
    if numbers != list(range(1, view.session.last_sequence + 1)):
        yield f"the log is numbered {numbers}, its last is {view.session.last_sequence}"
    if view.shown != visible(view.stored):
        yield "what is read as visible is not what its rewinds leave"
    yield from _folds(view)
    yield from _takes_back(view.stored)
    asked = [event.text for event in view.stored if event.author == USER and event.content]
    accepted = [id_ for id_ in world.history.accepted[view.session.id] if id_ in asked]
    if asked != accepted:
        yield f"accepted in the order {accepted}, begun in the order {asked}"
    decided = [(e.sequence, e.invocation_id, e.actions.selection) for e in view.stored if e.actions.selection]
    if decided != [(d.sequence, d.invocation_id, d.selection) for d in view.decisions]:
        yield f"{len(view.decisions)} decisions for {len(decided)} selections, or other ones"
    tries = 1 + world.chances(view.session.id)
    yield from (f"attempt {e.attempt} at event {e.sequence}" for e in view.stored if e.attempt > min(tries, 3))
    if settled:
        yield from _behind(world, view)


def _behind(world: World, view: View) -> Iterator[str]:
    """What would have happened by itself, and did not."""
    holder = world.holder(view.session.id)
    if holder is None or not holder.up or holder.line.cut_off:
        return
    running, claimed = view.walk.running, world.history.running.get(view.session.id)
    if running is None or claimed is None or claimed.message != running.message:
        yield f"{holder.name} has the session for {claimed}, its log says {running}"
        return
    gates = running.owner.released
    if view.walk.settle(running, gates) < gates:
        yield f"{running.owner.id} stands at {running.at} although {gates} gates are open"


def waiting_ops(world: World) -> Iterator[str]:
    """Messages whose senders are kept waiting by nothing; in a process without room, who does not queue waits at the door."""
    for op in world.ops:
        if op.kind == "send" and not op.done and op.process.up and op.process.concurrency > 1:
            yield f"not accepted, and not refused: {op}"


def _folds(view: View) -> Iterator[str]:
    session = view.session
    empty = session.replace(head=Head(), state={}, last_sequence=0)
    folded = fold(empty, view.shown)
    if folded.head != session.head:
        yield f"the head is {session.head!r}, its log folds to {folded.head!r}"
    if folded.state != session.state or session.state.get("n", 0) != view.walk.n:
        yield f"the state is {session.state}, its log folds to {folded.state}, the model counts {view.walk.n}"
    waits = {id_ for id_, answer in view.walk.open.items() if answer.wait is not None}
    if waits != {id_ for id_, open_ in session.head.invocations.items() if open_.state == "waiting"}:
        yield f"the head waits for {session.head.invocations}, the model for {waits}"


def _takes_back(stored: Sequence[Event]) -> Iterator[str]:
    for event in stored:
        rewind = event.actions.rewind
        if rewind is None or event.author == USER:
            continue
        for other in stored[rewind.from_sequence - 1 : (event.sequence or 0) - 1]:
            if other.invocation_id != event.invocation_id or other.author == USER:
                yield f"attempt {event.attempt} at event {event.sequence} hides {other.author}'s event {other.sequence}"


def hidden_messages(view: View) -> set[str]:
    """Messages that a user took back."""
    shown = {event.id for event in view.shown}
    return {e.text for e in view.stored if e.author == USER and e.content and e.id not in shown}


def misread(view: View, reader: Reader) -> Iterator[str]:
    """What a reader saw instead of what is stored of its message, each event once and in order, until it ends or waits."""
    stored, shown = (_part(events, reader) for events in (view.stored, view.shown))
    seen = [event for event in reader.seen if not event.partial]
    numbers = [event.sequence or 0 for event in seen]
    if numbers != sorted(set(numbers)) or not {e.id for e in seen} <= {e.id for e in stored}:
        yield f"it saw the events {numbers} of {[event.sequence for event in stored]}"
    due: set[str] = set()
    for event in shown:
        due.add(event.id)
        if (event.actions.end or event.actions.awaits) and (event.sequence or 0) >= reader.found:
            break
    if missing := due - {event.id for event in seen}:
        yield f"it saw the events {numbers} and missed {missing} of {[event.sequence for event in shown]}"
        return
    said = [e for e in shown if e.id in {event.id for event in seen}]
    ends = [e.actions.end.reason for e in said if e.actions.end]
    result = result_of(seen)
    words = "\n".join(e.text for e in said if e.author != USER and e.text)
    if (result.text, [result.end.reason] if result.end else []) != (words, ends):
        yield f"it was told {result.text!r} and {result.end} instead of {words!r} and {ends}"


def _part(events: Sequence[Event], reader: Reader) -> list[Event]:
    """What belongs to the reader's message: from the user's event to the next one of the user in that invocation."""
    invocation = next((e.invocation_id for e in events if e.author == USER and e.text == reader.message), None)
    part: list[Event] = []
    for event in events:
        if event.invocation_id != invocation:
            continue
        by_user = event.author == USER
        if not reader.whole and part and by_user:
            break
        if part or reader.whole or (by_user and event.text == reader.message):
            part.append(event)
    return part


def finally_(world: World, views: Sequence[View]) -> Iterator[str]:
    """What is wrong when everything has had its chance to come to its end."""
    yield from (f"never done: {op}" for op in world.ops if not op.done and op.process.up)
    yield from (f"still due: {key.id}" for key in world.loop.finish(world.store.leases.due(world.app)))
    for view in views:
        session = view.session
        if session.holder or session.queued or view.walk.running:
            yield f"{session.id} is not done: held by {session.holder}, {session.queued} queued, {view.walk.running}"
        yield from _messages(world, view)
        ours = {event.invocation_id for event in view.stored}
        done = Counter((invocation, place) for _, invocation, place in world.works if invocation in ours)
        tries = 1 + world.chances(session.id) + sum(e.author == USER and e.actions.rewind is not None for e in view.stored)
        yield from (f"{place} was done {times} times" for place, times in done.items() if times > tries)
        for reader in world.readers:
            if world.messages[reader.message].session == session.id and reader.process.up:
                yield from (f"{reader.message} read in {reader.process.name}: {line}" for line in _read(view, reader))


def _messages(world: World, view: View) -> Iterator[str]:
    """What became of every message, instead of what had to."""
    accepted, hidden = world.history.accepted[view.session.id], hidden_messages(view)
    for sent in world.messages.values():
        if sent.session != view.session.id:
            continue
        receipt = world.loop.finish(world.store.inbox.receipt(view.session.key, sent.id))
        state = receipt.state if receipt else None
        sends = [op for op in world.ops if op.kind == "send" and op.message == sent.id]
        if any(op.done and op.problem is None for op in sends) and sent.id not in accepted:
            yield f"{sent.id} was acknowledged and never accepted"
        if (sent.id in accepted) != (state is not None):
            yield f"{sent.id} was accepted: {sent.id in accepted}; its receipt says {state}"
        begun = sent.id in view.walk.fates or sent.id in hidden
        if state not in (None, "started" if begun else "refused"):
            yield f"{sent.id} is {state}; begun: {begun}"
        fate = view.walk.fates.get(sent.id, state if state == "refused" else "completed")
        if fate in ("refused", "cancelled") and not _may_stop(world, sent.id):
            yield f"{sent.id} is {fate}, which nobody wanted"
        if fate not in _FATES or (fate == "limit:attempts" and world.chances(view.session.id) < 3):
            yield f"{sent.id} is {fate}"


_FATES = frozenset({"completed", "failed", "cancelled", "refused", "limit:attempts", "waiting"})


def _may_stop(world: World, message: str) -> bool:
    """Whether anybody wanted this message not to be answered."""
    invocations, session = world.history.invocations, world.messages[message].session
    for op in world.ops:
        if op.message is None or world.messages[op.message].session != session:
            continue
        if op.kind == "cancel" and (op.message == message or invocations.get(op.message) == invocations.get(message)):
            return True
        if op.policy == "interrupt" and op.message != message:
            answered = [op.found, *world.history.began[op.during]]
            if message in {each.message for each in answered if each}:
                return True
    return False


def _read(view: View, reader: Reader) -> Iterator[str]:
    if not reader.closed:
        yield "its reader still waits"
    elif reader.problem is not None:
        if not reader.process.line.cut_off and not _is_refusal(view, reader):
            yield f"its reader was told {reader.problem!r}"
    elif reader.message not in hidden_messages(view) and reader.message in view.walk.fates:
        yield from misread(view, reader)


def _is_refusal(view: View, reader: Reader) -> bool:
    return reader.message not in view.walk.fates and isinstance(reader.problem, SessionError)
