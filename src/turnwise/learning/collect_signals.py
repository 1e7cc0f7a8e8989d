"""Collects signals from the log of all sessions, and keeps them as labels (behaviour H2)."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from turnwise.facts.errors import InvocationMissing
from turnwise.facts.events import Event
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.learning.label_signals import COUNTS, NOT_ROUTED, Found, Name, SignalReader, label_of, triage_agents
from turnwise.ports.decisions import OPERATOR, SIGNAL, Decision, DecisionFilter, Label, LabelledDecision, Labels
from turnwise.ports.records import record_store_of
from turnwise.ports.stores import PAGE_BYTES, SessionStore

MAX_DECISIONS = 100_000
"""How many decisions are read by default: the newest ones."""
ACTOR = "signals"
"""The actor of these changes in the labels' log."""
_PAGE, _EVENTS = 500, 1_000
_BEFORE = 200
"""How many events before a decision tell who answered before."""

Step = Callable[[str, int, int], None]
"""Called with the description of the work, the number of sessions that are done, and their total."""


def no_step(what: str, done: int, total: int) -> None:
    """Shows nothing."""


@dataclass(slots=True, kw_only=True)
class Collected:
    """The signals of a log, and the changes of labels that they led to."""

    decisions: int = 0
    sessions: int = 0
    signals: Counter[Name] = field(default_factory=Counter)
    """How often each signal was found."""
    labels: int = 0
    """The number of labels by signals now."""
    unsure: int = 0
    """How many of them weigh too little to be learned from."""
    changed: int = 0
    """How many are new or different."""
    removed: int = 0
    triage: tuple[str, ...] = ()
    """Agents that hand over nearly everything: that is their work, so it says nothing."""

    def data(self) -> dict[str, JsonValue]:
        """Returns all as plain data."""
        counted: list[tuple[str, JsonValue]] = [*self.signals.most_common()]
        return {
            "decisions": self.decisions,
            "sessions": self.sessions,
            "signals": dict(counted),
            "labels": self.labels,
            "unsure": self.unsure,
            "changed": self.changed,
            "removed": self.removed,
            "triage": list(self.triage),
        }


@dataclass(slots=True)
class _Decided:
    """The decisions of a session that are read: when each was made."""

    at: dict[int, datetime] = field(default_factory=dict)
    chosen: Counter[str] = field(default_factory=Counter)


async def collect_signals(
    store: SessionStore,
    app: str,
    tree: AgentTree,
    *,
    default: str | None = None,
    since: datetime | None = None,
    limit: int = MAX_DECISIONS,
    step: Step = no_step,
) -> Collected:
    """Reads the log of the newest decisions, and stores a label for each decision that signals speak of.

    Running it again changes nothing, unless the log or the agents changed. A label that the log no longer supports is removed.

    Args:
        store: The store.
        app: The app.
        tree: Its agents.
        default: The default agent; None means the root.
        since: Only decisions made at this time or later.
        limit: The most decisions.
        step: Called after each session.

    Raises:
        ConfigError: The store keeps no labels.
        StoreError: The store cannot be read or written.
    """
    labels = record_store_of(store).labels
    sessions = await _decided(store, app, since, limit)
    reviewed = await _reviews(labels, app)
    found: dict[tuple[SessionKey, int], list[Found]] = {}
    chosen: Counter[str] = Counter()
    for number, (key, decided) in enumerate(sessions.items()):
        step("reading sessions", number, len(sessions))
        for each in await _read(store, key, SignalReader(tree, default), reviewed.get(key, {}), decided):
            found.setdefault((key, each.sequence), []).append(each)
        chosen.update(decided.chosen)
    triage = triage_agents(chosen, Counter(each.chosen for all_ in found.values() for each in all_ if _is_hand_over(each)))
    for place, signals in found.items():
        found[place] = [each for each in signals if not (each.chosen in triage and _is_hand_over(each))]
    collected = Collected(decisions=sum(len(each.at) for each in sessions.values()), sessions=len(sessions))
    collected.triage = tuple(sorted(triage))
    collected.signals.update(each.signal for all_ in found.values() for each in all_)
    await _store(labels, app, sessions, found, collected)
    return collected


def _is_hand_over(found: Found) -> bool:
    return found.signal == "handed_over"


async def newest_decisions(
    store: SessionStore,
    app: str,
    *,
    since: datetime | None = None,
    labelled: bool | None = None,
    limit: int = MAX_DECISIONS,
    brief: bool = False,
    labels: bool = False,
) -> AsyncIterator[Decision]:
    """Yields the newest decisions of an app, newest first; with `labelled`, only those with a label, or without.

    `brief` leaves out their records and `labels` adds their labels, as the store's search does. Raises StoreError.
    """
    count, after, wanted = 0, None, DecisionFilter(since=since, labelled=labelled)
    while count < limit:
        size = min(_PAGE, limit - count)
        page = await store.decisions.search(app, filter=wanted, after=after, limit=size, brief=brief, labels=labels)
        for each in page.items:
            yield each
        count, after = count + len(page.items), page.next
        if after is None:
            return


async def decision_signals(
    store: SessionStore, key: SessionKey, sequence: int, tree: AgentTree, default: str | None = None
) -> list[Found]:
    """Returns the signals about one decision, by the events around it. Labels, and how often an agent hands over, are not read.

    Args:
        store: The store.
        key: The session.
        sequence: The number of the event that holds the decision.
        tree: The agents.
        default: The default agent; None means the root.

    Raises:
        StoreError: The store cannot be read.
    """
    reader = SignalReader(tree, default)
    found: list[Found] = []
    last, end = max(sequence - _BEFORE, 0), sequence + _EVENTS
    while last < end and (events := await store.events(key, after=last, limit=end - last, max_bytes=PAGE_BYTES)):
        found += [each for event in events for each in reader.add(event)]
        last = events[-1].sequence or end
    return [each for each in [*found, *reader.close()] if each.sequence == sequence]


async def _decided(store: SessionStore, app: str, since: datetime | None, limit: int) -> dict[SessionKey, _Decided]:
    """Returns the newest decisions by session."""
    sessions: defaultdict[SessionKey, _Decided] = defaultdict(_Decided)
    async for each in newest_decisions(store, app, since=since, limit=limit, brief=True):
        sessions[each.key].at[each.sequence] = each.created_at
        sessions[each.key].chosen[each.selection.agent] += 1
    return dict(sessions)


async def _reviews(labels: Labels, app: str) -> dict[SessionKey, dict[int, datetime]]:
    """Returns the times of the operators' labels, by session and decision."""
    found: defaultdict[SessionKey, dict[int, datetime]] = defaultdict(dict)
    for each in await all_labels(labels, app, OPERATOR):
        if each.label.at is not None:
            found[each.key][each.sequence] = each.label.at
    return found


async def all_labels(labels: Labels, app: str, source: str | None = None) -> list[LabelledDecision]:
    """Returns all labels of an app, or those of one source. Raises StoreError."""
    found: list[LabelledDecision] = []
    after = None
    while True:
        page = await labels.search(app, source=source, after=after, limit=_PAGE)
        found += page.items
        after = page.next
        if after is None:
            return found


async def _read(
    store: SessionStore, key: SessionKey, reader: SignalReader, reviews: Mapping[int, datetime], decided: _Decided
) -> list[Found]:
    """Returns the signals about the session's own decisions."""
    found: list[Found] = []
    last, reviewed_at = 0, max(reviews.values(), default=None)
    while True:
        events = await store.events(key, after=last, limit=_EVENTS, max_bytes=PAGE_BYTES)
        if not events:
            break
        last = events[-1].sequence or last
        for event in events:
            found += reader.add(event)
            if event.sequence not in reviews and _is_reviewed(decided.at.get(event.sequence or 0), event, reviewed_at):
                chosen = event.actions.selection.agent if event.actions.selection else ""
                found.append(Found(event.sequence or 0, chosen, "not_corrected", chosen))
    found += reader.close()
    return [each for each in found if each.sequence in decided.at]


def _is_reviewed(decided_at: datetime | None, event: Event, reviewed_at: datetime | None) -> bool:
    """Returns whether an operator saw the decision in its session, and may have corrected it."""
    selection = event.actions.selection
    seen = decided_at is not None and reviewed_at is not None and decided_at <= reviewed_at
    if not seen or selection is None or selection.method in NOT_ROUTED:
        return False
    return selection.outcome == "chosen" and selection.occasion == "message"


async def _store(
    labels: Labels,
    app: str,
    sessions: Mapping[SessionKey, _Decided],
    found: Mapping[tuple[SessionKey, int], Sequence[Found]],
    collected: Collected,
) -> None:
    """Stores the labels that differ from the stored ones, and removes those that nothing supports any more."""
    before = {(each.key, each.sequence): each.label for each in await all_labels(labels, app, SIGNAL)}
    after: dict[tuple[SessionKey, int], Label] = {}
    for place, signals in found.items():
        label = label_of(signals[0].chosen, signals) if signals else None
        if label is not None:
            after[place] = label
    collected.labels, collected.unsure = len(after), sum(label.weight < COUNTS for label in after.values())
    for (key, sequence), label in after.items():
        stored = before.get((key, sequence))
        if stored is None or stored.replace(at=None) != label:
            with suppress(InvocationMissing):  # the session was deleted meanwhile
                await labels.put(key, sequence, label, actor=ACTOR)
                collected.changed += 1
    for key, sequence in before.keys() - after.keys():
        if key in sessions and sequence in sessions[key].at:
            collected.removed += await labels.remove(key, sequence, SIGNAL, "", actor=ACTOR)
