"""What an append will write, worked out before its transaction begins: no database here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Head, ScopedState, Session, fold, merge, split_state, storable
from turnwise.stores.sql.rows import decision_row, event_row, event_text, job_rows, time_text


def changed_states(before: Session, after: Session, visible: Iterable[tuple[int, Event]], base: Head) -> dict[int, str]:
    """The states that an append changes, by the number of the event that began the invocation.

    visible: its events by number, but for those that it hides itself. base: the head that they were folded onto. What it takes
    back has no state any more, and is not among them.
    """
    stood, stand = _open_states(before.head), _open_states(after.head)
    changed = _end_states(visible, base)
    if stood == stand:
        return changed
    return changed | {began: state for began, state in stand.items() if stood.get(began) != state}


def _open_states(head: Head) -> Mapping[int, str]:
    return {open_.began: open_.state for open_ in head.invocations.values()}


def _end_states(events: Iterable[tuple[int, Event]], base: Head) -> dict[int, str]:
    """How the invocations ended that these events end, by where they began."""
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
        if actions.end is not None and (place := began.pop(id_, None)) is not None:
            ended[place] = actions.end.reason
    return ended


NO_DELTA = ScopedState({}, {}, {})


class AppendPlan(NamedTuple):
    """An append that fits exactly one epoch and revision of its session, those of `before`.

    after: the session once it is written. delta: the state its events change, None values remove keys; of the session's own
    only what stays visible. hide_from: the lowest sequence number of the stored log that a rewind in it hides, None when it
    hides nothing there. standings: how invocations stand from now on that began before, by the decision with which they did.
    jobs: rows of the jobs that its events ask for, but for the session's.
    """

    before: Session
    after: Session
    events: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    delta: ScopedState
    hide_from: int | None
    standings: list[dict[str, Any]]
    jobs: list[dict[str, Any]]


def first_hidden(session: Session, events: Sequence[Event]) -> int | None:
    """The lowest sequence number of the session's log that these events hide; None when they hide nothing of it."""
    lowest = min((event.actions.rewind.from_sequence for event in events if event.actions.rewind), default=None)
    return lowest if lowest is not None and lowest <= session.last_sequence else None


def plan_append(session: Session, events: Sequence[Event], rewound: Session | None = None) -> AppendPlan:
    """Numbers and folds the events. `rewound` is the fold of what stays visible, needed when they hide some of the log.

    ValueError for a partial event: those are never stored.
    """
    first = session.last_sequence + 1
    hidden = _hidden(events, first)
    rows, decisions, jobs, visible = [], [], [], []
    changed: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for sequence, event in enumerate(events, first):
        stored, body = _as_stored(event, sequence)
        rows.append(event_row(stored, sequence, body, hidden=sequence in hidden))
        if stored.actions.selection:
            decisions.append(decision_row(session, stored, sequence))
        if stored.actions.jobs and sequence not in hidden:
            jobs += job_rows(session, stored)
        if stored.actions.state_delta:
            changed |= stored.actions.state_delta
            if hidden and sequence not in hidden:
                kept |= stored.actions.state_delta
        if not hidden:
            visible.append(stored)
        elif sequence not in hidden:
            # With gaps before it, folding cannot count on its own.
            visible.append(stored.model_copy(update={"sequence": sequence}))
    delta = split_state(changed) if changed else NO_DELTA
    after = fold(rewound or session, visible).model_copy(update={"revision": session.revision + 1})
    if hidden or rewound:
        after = _with_shared_state(after, session, delta)
    if hidden:
        delta = delta._replace(session=split_state(kept).session)
    numbered = ((event.sequence or place, event) for place, event in enumerate(visible, first))
    stand = _set_states(changed_states(session, after, numbered, (rewound or session).head), after, decisions)
    return AppendPlan(session, after, rows, decisions, delta, first_hidden(session, events), stand, jobs)


def _set_states(states: Mapping[int, str], after: Session, decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Enters what is new in the rows of decisions; gives the rest."""
    if not states:
        return []
    changed_at, left = time_text(after.updated_at), dict(states)
    for row in decisions:
        if (state := left.pop(row["sequence"], None)) is not None:
            row |= {"state": state, "changed_at": changed_at}
    return [{"at_sequence": place, "state": state, "changed_at": changed_at} for place, state in left.items()]


def _as_stored(event: Event, sequence: int) -> tuple[Event, str]:
    if event.partial:
        raise ValueError(f"Event {event.id!r} is partial: it can be streamed, not stored.")
    stored = storable(event)
    if stored.sequence is not None and stored.sequence != sequence:
        stored = stored.model_copy(update={"sequence": sequence})
    body = event_text(stored)
    if stored.actions.state_delta:
        # Read back, so that the state we hand out shares nothing with the caller's dictionaries.
        stored = Event.model_validate_json(body)
    return stored, body


def _hidden(events: Sequence[Event], first: int) -> frozenset[int]:
    hidden: set[int] = set()
    for sequence, event in enumerate(events, first):
        if event.actions.rewind:
            hidden.update(range(max(first, event.actions.rewind.from_sequence), sequence))
    return frozenset(hidden)


def _with_shared_state(after: Session, session: Session, delta: ScopedState) -> Session:
    # A rewind takes back what the session holds; what it shares with others is not its own to take back.
    shared = {"app_state": merge(session.app_state, delta.app), "user_state": merge(session.user_state, delta.user)}
    return after.model_copy(update=shared)
