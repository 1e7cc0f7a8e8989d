"""Plans an append before its transaction begins. Pure: no database access."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.facts.events import USER, Event
from turnwise.facts.memory import MemoryEntry
from turnwise.facts.sessions import Head, ScopedState, Session, fold, merge, split_state, storable
from turnwise.stores.sql.rows import decision_row, event_row, event_text, job_rows, size_of, time_text
from turnwise.stores.sql.spans import Spans, without


def changed_states(before: Session, after: Session, visible: Iterable[tuple[int, Event]], base: Head) -> dict[int, str]:
    """Returns the invocation states that an append changes, by the sequence number of the invocation's first event.

    Args:
        before: The session before the append.
        after: The session after it.
        visible: The appended events by number, without those that the append itself hides.
        base: The head onto which they were folded. A rewound invocation has no state and is left out.
    """
    old, new = _open_states(before.head), _open_states(after.head)
    ended = _end_states(visible, base)
    if old == new:
        return ended
    return ended | {began: state for began, state in new.items() if old.get(began) != state}


def _open_states(head: Head) -> Mapping[int, str]:
    return {open_.began: open_.state for open_ in head.invocations.values()}


def _end_states(events: Iterable[tuple[int, Event]], base: Head) -> dict[int, str]:
    """Returns how the invocations that these events end have ended, by the number of their first event."""
    began: dict[str, int] | None = None
    ended: dict[int, str] = {}
    for sequence, event in events:
        id_, actions = event.invocation_id, event.actions
        begins = event.author == USER and actions.selection is not None
        if actions.end is None and not begins:
            continue
        if began is None:
            began = {open_id: open_.began for open_id, open_ in base.invocations.items()}
        if begins:
            began.setdefault(id_, sequence)
        if actions.end is not None and (sequence_ := began.pop(id_, None)) is not None:
            ended[sequence_] = actions.end.reason
    return ended


NO_DELTA = ScopedState({}, {}, {})


class MemoryPlan(NamedTuple):
    """The changes of an append to the user's memory."""

    remembered: list[tuple[MemoryEntry, int]]
    """The entries, with the sequence numbers of their events."""
    recalled: list[tuple[str, int]]
    """The ids of entries whose texts are in events, with the events' sequence numbers."""


class AppendPlan(NamedTuple):
    """The rows of an append. It is valid for exactly the epoch and revision of `before`."""

    before: Session
    after: Session
    """The session after the append."""
    events: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    delta: ScopedState
    """The state changes; None values remove keys. The session's own part only has what stays visible."""
    hide_from: int | None
    """The lowest stored sequence number that a rewind hides; None = it hides no stored event."""
    spans: Spans | None
    """The visible parts of the log after a rewind; None = they stay as they are."""
    size: int
    """The size of the events in bytes."""
    state_changes: list[dict[str, Any]]
    """New states of invocations that began before this append, by the sequence number of their decision."""
    jobs: list[dict[str, Any]]
    """Rows of the requested background jobs, without the session's row id."""
    memory: MemoryPlan | None = None
    """The events' changes to the user's memory."""


def hides_events(session: Session, events: Sequence[Event]) -> bool:
    """Returns whether one of these events hides others, stored ones or new ones."""
    numbered = enumerate(events, session.last_sequence + 1)
    return any(event.actions.rewind and event.actions.rewind.from_sequence < sequence for sequence, event in numbered)


def first_hidden(session: Session, events: Sequence[Event]) -> int | None:
    """Returns the lowest stored sequence number that these events hide, or None."""
    lowest = min((event.actions.rewind.from_sequence for event in events if event.actions.rewind), default=None)
    return lowest if lowest is not None and lowest <= session.last_sequence else None


class Rewound(NamedTuple):
    """The facts about the log that an append with a rewind needs."""

    session: Session
    """The fold of what stays visible."""
    spans: Spans
    """The visible parts of the log before the append."""


def plan_append(session: Session, events: Sequence[Event], log: Rewound | None = None) -> AppendPlan:
    """Numbers and folds the events.

    Args:
        session: The session before the append.
        events: The new events.
        log: Needed when an event hides others.

    Raises:
        ValueError: An event is partial. Partial events are never stored.
    """
    first = session.last_sequence + 1
    hidden = _hidden(events, first)
    rewound = log.session if log is not None else None
    rows, decisions, jobs, visible = [], [], [], []
    memory = MemoryPlan([], [])
    changed: dict[str, Any] = {}
    visible_changes: dict[str, Any] = {}
    for sequence, event in enumerate(events, first):
        stored, body = _as_stored(event, sequence)
        rows.append(event_row(stored, sequence, body))
        if stored.actions.selection:
            decisions.append(decision_row(session, stored, sequence))
        if stored.actions.jobs and sequence not in hidden:
            jobs += job_rows(session, stored)
        if stored.actions.remembered and sequence not in hidden:
            memory.remembered.extend((entry, sequence) for entry in stored.actions.remembered)
        recalled = {*stored.actions.recalled, *(id_ for step in stored.actions.steps for id_ in step.recalled)}
        memory.recalled.extend((id_, sequence) for id_ in sorted(recalled))
        if stored.actions.state_delta:
            changed |= stored.actions.state_delta
            if hidden and sequence not in hidden:
                visible_changes |= stored.actions.state_delta
        if not hidden:
            visible.append(stored)
        elif sequence not in hidden:
            # After a gap, folding cannot derive the number from the position.
            visible.append(stored.replace(sequence=sequence))
    delta = split_state(changed) if changed else NO_DELTA
    size = sum(size_of(row["body"]) for row in rows)
    after = fold(rewound or session, visible).replace(revision=session.revision + 1, bytes=session.bytes + size)
    if hidden or rewound:
        after = _with_shared_state(after, session, delta)
    if hidden:
        delta = delta._replace(session=split_state(visible_changes).session)
    numbered = ((event.sequence or place, event) for place, event in enumerate(visible, first))
    state_changes = _set_states(changed_states(session, after, numbered, (rewound or session).head), after, decisions)
    spans = _spans_after(log.spans, events, first) if log is not None else None
    hide_from = first_hidden(session, events)
    changes_memory = memory if memory.remembered or memory.recalled else None
    return AppendPlan(session, after, rows, decisions, delta, hide_from, spans, size, state_changes, jobs, changes_memory)


def _spans_after(spans: Spans, events: Sequence[Event], first: int) -> Spans:
    for sequence, event in enumerate(events, first):
        if event.actions.rewind:
            spans = without(spans, event.actions.rewind.from_sequence, sequence - 1)
    return spans


def _set_states(states: Mapping[int, str], after: Session, decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sets new states in the rows of new decisions and returns the rows for older decisions."""
    if not states:
        return []
    changed_at, remaining = time_text(after.updated_at), dict(states)
    for row in decisions:
        if (state := remaining.pop(row["sequence"], None)) is not None:
            row |= {"state": state, "changed_at": changed_at}
    return [{"at_sequence": place, "state": state, "changed_at": changed_at} for place, state in remaining.items()]


def _as_stored(event: Event, sequence: int) -> tuple[Event, str]:
    """Returns the event with its number, as stored and as text. Raises ValueError for a partial event."""
    if event.partial:
        raise ValueError(f"Event {event.id!r} is partial: it can be streamed, not stored.")
    stored = storable(event)
    if stored.sequence is not None and stored.sequence != sequence:
        stored = stored.replace(sequence=sequence)
    if stored.actions.state_delta:
        # Parsed again, so that the returned state shares nothing with the caller's dictionaries.
        stored = Event.model_validate_json(stored.model_dump_json(exclude_none=True))
    return stored, event_text(stored)


def _hidden(events: Sequence[Event], first: int) -> frozenset[int]:
    hidden: set[int] = set()
    for sequence, event in enumerate(events, first):
        if event.actions.rewind:
            hidden.update(range(max(first, event.actions.rewind.from_sequence), sequence))
    return frozenset(hidden)


def _with_shared_state(after: Session, session: Session, delta: ScopedState) -> Session:
    # A rewind restores the session's own state only, not the state that it shares with other sessions.
    app, user = merge(session.app_state, delta.app), merge(session.user_state, delta.user)
    return after.replace_valid(app_state=app, user_state=user)
