"""Decides recorded messages again, without running an agent, and counts what changes (behaviours E2, H1).

A decision is a function of the session's head, the message, and the facts in its record. The head is folded from the events
before the message. Each decision can therefore be made again: by the same policy, or by another policy or other agents.
The counts say between which agents decisions change, and which changes labels call right.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.errors import NobodyEligible
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import RequestFacts, Selection, Verdict
from turnwise.facts.sessions import Session, SessionKey, fold
from turnwise.ports.decisions import ALL_DECISIONS, DecisionFilter
from turnwise.ports.stores import PAGE_BYTES, SessionStore
from turnwise.selection.cascade import Cascade

Obstacle = Literal["inside_turn", "rewound", "deleted", "no_text", "no_facts", "asked", "nobody_eligible"]
"""Why a decision cannot be made again:

- `inside_turn`: it was made inside a turn, as by a team or a flow, and not by the policy.
- `rewound`: a rewind hides its message.
- `deleted`: the session was deleted during the replay.
- `no_text`: the message has no text any more.
- `no_facts`: its record was pruned, or an older release made it.
- `asked`: a selector would ask another service, and its verdict is not in the record.
- `nobody_eligible`: none of the agents may take the message.
"""
OBSTACLES: Mapping[Obstacle, str] = {
    "inside_turn": "made inside a turn, not by the policy",
    "rewound": "hidden by a rewind",
    "deleted": "deleted meanwhile",
    "no_text": "the message was erased",
    "no_facts": "its record was pruned, or an older release made it",
    "asked": "another service would be asked, and its verdict is not kept",
    "nobody_eligible": "no agent may take the message",
}
MAX_DECISIONS = 100_000
"""How many decisions a replay makes again by default: the newest ones."""
_PAGE, _EVENTS, _BATCH = 500, 1_000, 128
_WHEN = datetime(2000, 1, 1, tzinfo=UTC)

Step = Callable[[int], None]
"""Called with the number of decisions that are done since the last call."""

CLARIFY = "(asks the user)"
"""Stands for a clarifying question in the pairs of a replay."""
KEPT, EXAMPLES, EXAMPLE_CHARACTERS = 1_000, 3, 200
COMPARED = (
    "decisions",
    "replayed",
    "equal",
    "changed",
    "changed_share",
    "labelled",
    "accuracy_before",
    "accuracy_after",
    "gain",
)
"""The figures of decisions that are made twice, which `--min` and `--max` may bound."""
FIGURES = (*COMPARED, "other_inputs")
"""The same of a replay."""


def no_step(done: int) -> None:
    """Ignores the progress."""


class Place(NamedTuple):
    """Where a decision is recorded, with its label."""

    key: SessionKey
    sequence: int
    label: str | None


@dataclass(frozen=True, slots=True)
class Redecision:
    """A recorded decision, and the one that is made now."""

    place: Place
    text: str
    """The message; empty when it is unknown."""
    before: Selection | None
    """The recorded decision, or that of `base`; None when its event is not there any more."""
    after: Selection | None
    """The decision made now; None when there is an obstacle."""
    obstacle: Obstacle | None = None
    active_agent: str | None = None
    """The agent that had answered last; None at the beginning of a session."""

    @property
    def is_equal(self) -> bool:
        """Whether both select the same agent with the same outcome."""
        return self.before is not None and self.after is not None and _choice(self.before) == _choice(self.after)

    @property
    def same_inputs(self) -> bool:
        """Whether both depend on the same policy, agents and fitted texts."""
        return self.before is not None and self.after is not None and _inputs(self.before) == _inputs(self.after)


async def places(
    store: SessionStore,
    app: str,
    *,
    user: str | None = None,
    key: SessionKey | None = None,
    wanted: DecisionFilter = ALL_DECISIONS,
    limit: int = MAX_DECISIONS,
) -> list[Place]:
    """Returns the newest decisions that match, grouped by session, in the order of their session.

    A decision that a fork inherits is returned once, for the session that made it. Raises StoreError.
    """
    found: dict[SessionKey, list[Place]] = {}
    count, after = 0, None
    while count < limit:
        size = min(_PAGE, limit - count)
        page = await store.decisions.search(app, user=user, key=key, filter=wanted, after=after, limit=size, brief=True)
        for each in page.items:
            found.setdefault(each.key, []).append(Place(each.key, each.sequence, each.label))
        count, after = count + len(page.items), page.next
        if after is None:
            break
    return [place for session in found.values() for place in sorted(session, key=lambda place: place.sequence)]


async def replay(
    store: SessionStore,
    cascade: Cascade,
    wanted: Sequence[Place],
    *,
    base: Cascade | None = None,
    step: Step = no_step,
) -> AsyncIterator[Redecision]:
    """Makes decisions again, session by session, and yields them in order. Runs no agent and asks no model.

    Args:
        store: The store with the sessions.
        cascade: Decides. It should be prepared.
        wanted: The decisions, as returned by `places`.
        base: Decides each message, too, and takes the place of the recorded decision. None = the recorded decisions count.
        step: Called after each batch.

    Raises:
        StoreError: The store cannot be read.
        EncoderError: A message has no vector.
    """
    for key, session in _by_session(wanted):
        async for batch in _replay_session(store, cascade, key, session, base):
            for each in batch:
                yield each
            step(len(batch))


def _by_session(wanted: Sequence[Place]) -> Iterator[tuple[SessionKey, dict[int, Place]]]:
    sessions: dict[SessionKey, dict[int, Place]] = {}
    for place in wanted:
        sessions.setdefault(place.key, {})[place.sequence] = place
    yield from sessions.items()


async def _replay_session(
    store: SessionStore, cascade: Cascade, key: SessionKey, wanted: dict[int, Place], base: Cascade | None
) -> AsyncIterator[list[Redecision]]:
    """Folds the session once, in order, and decides at each wanted message."""
    session = Session(app=key.app, user=key.user, id=key.id, created_at=_WHEN, updated_at=_WHEN)
    left, last = dict(wanted), 0
    while left:
        events = await store.events(key, after=last, limit=_EVENTS, max_bytes=PAGE_BYTES)
        if not events:
            break
        last = events[-1].sequence or last
        batch: list[Redecision] = []
        texts = [event.text for event in events if event.sequence in left and event.author == USER]
        for each in (cascade, base):
            await _read_together(each, texts)
        for event in events:
            place = left.pop(event.sequence or 0, None)
            if place is not None:
                batch.append(await decide_again(cascade, session, event, place, base=base))
                await asyncio.sleep(0)  # decisions may complete without awaiting; others get their turn
            session = fold(session, [event])
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch
    if left:
        obstacle: Obstacle = "rewound" if last or await store.open(key) else "deleted"
        yield [Redecision(place, "", None, None, obstacle) for place in left.values()]


async def _read_together(cascade: Cascade | None, texts: list[str]) -> None:
    """Reads messages in one batch, so that the decisions find them in the cache."""
    if cascade is not None and cascade.meaning is not None and len(texts) > 1:
        await cascade.meaning.read([text for text in texts if text.strip()])


async def decide_again(
    cascade: Cascade, session: Session, event: Event, place: Place, *, base: Cascade | None = None
) -> Redecision:
    """Makes the decision of one event again.

    Args:
        cascade: Decides.
        session: The session before the event.
        event: The event with the recorded decision.
        place: Where it is recorded.
        base: Decides it, too, in place of the recorded decision. None = the recorded decision counts.
    """
    before = event.actions.selection
    if before is None:
        return Redecision(place, event.text, None, None, "rewound")
    obstacle = _obstacle(event, before)
    if obstacle is not None:
        return Redecision(place, event.text, before, None, obstacle)
    try:
        compared = before if base is None else await _decide(base, session, event, before)
        after = await _decide(cascade, session, event, before)
    except _NotKept:
        return Redecision(place, event.text, before, None, "asked")
    except NobodyEligible:
        return Redecision(place, event.text, before, None, "nobody_eligible")
    return Redecision(place, event.text, compared, after, active_agent=session.head.active_agent)


async def _decide(cascade: Cascade, session: Session, event: Event, recorded: Selection) -> Selection:
    """Makes a recorded decision again with the given policy, from the session before it."""
    assert event.content is not None
    assert recorded.request is not None
    return await cascade.decide(
        head=session.head,
        message=event.content,
        context=_context_of(recorded.request),
        resting=frozenset(each.agent for each in recorded.excluded if each.rule == "resting"),
        recorded_verdict=_recorded_verdicts(recorded),
    )


def _obstacle(event: Event, before: Selection) -> Obstacle | None:
    if before.occasion != "message" or event.author != USER:
        return "inside_turn"
    if event.content is None:
        return "no_text"
    return "no_facts" if before.request is None else None


def _context_of(facts: RequestFacts) -> MessageContext:
    """Returns the message's context from the facts that the decision kept."""
    return MessageContext(
        direct_agent_id=facts.direct_agent_id,
        previous_agents=facts.previous_agents,
        channel=facts.channel,
        user_kind=facts.user_kind,
        roles=facts.roles,
        answers=facts.answers,
    )


class _NotKept(Exception):
    """The record has no verdict of a stage that would ask another service."""


def _recorded_verdicts(before: Selection) -> Callable[[str], Verdict]:
    """Returns a function that gives the recorded verdict of a stage. It raises _NotKept for others."""
    kept = {verdict.selector: verdict for verdict in before.verdicts}

    def verdict(stage: str) -> Verdict:
        if stage not in kept:
            raise _NotKept
        return kept[stage]

    return verdict


def _choice(selection: Selection) -> tuple[str, str]:
    return selection.agent, selection.outcome


def _inputs(selection: Selection) -> tuple[object, ...]:
    """Returns what a decision depended on, to compare with another."""
    facts = selection.request
    return (
        selection.fingerprint,
        selection.tree_version,
        facts and (facts.eligible_count, facts.eligible, facts.index),
    )


@dataclass(frozen=True, slots=True)
class Flip:
    """Messages that go from one agent to another."""

    before: str
    after: str
    count: int
    right: int
    """How many of them are right now, by their labels."""
    wrong: int
    """How many of them were right before."""
    examples: tuple[str, ...]
    """At most three messages."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The counts of a replay, and the decisions that changed."""

    policy: str
    """The name of the policy that decided now."""
    fingerprint: str
    decisions: int
    equal: int
    changed: tuple[Redecision, ...]
    """The first 1,000, in order."""
    flips: tuple[Flip, ...]
    """All changes by pair of agents, most frequent first."""
    by_method: Mapping[str, int]
    """The changes by the method that decides now."""
    obstacles: Mapping[Obstacle, int]
    other_inputs: int
    """How many decisions were recorded under another policy, other agents or other fitted texts."""
    labelled: int
    right_before: int
    right_after: int
    largest_confidence_change: float
    """Among equal decisions with equal inputs."""

    @property
    def replayed(self) -> int:
        return self.decisions - sum(self.obstacles.values())

    def data(self) -> dict[str, JsonValue]:
        """Returns the result as plain data. Shares are 0 to 1; examples have at most 200 characters."""
        flips: list[JsonValue] = [
            asdict(flip) | {"examples": [text[:EXAMPLE_CHARACTERS] for text in flip.examples]} for flip in self.flips
        ]
        return {
            "policy": self.policy,
            "fingerprint": self.fingerprint,
            "decisions": self.decisions,
            "replayed": self.replayed,
            "equal": self.equal,
            "changed": self.replayed - self.equal,
            "changed_share": self.share(self.replayed - self.equal),
            "labelled": self.labelled,
            "accuracy_before": self.accuracy(self.right_before),
            "accuracy_after": self.accuracy(self.right_after),
            "gain": self.gain,
            "flips": flips,
            "by_method": {**self.by_method},
            "not_replayed": {str(reason): count for reason, count in self.obstacles.items()},
            "other_inputs": self.other_inputs,
            "largest_confidence_change": round(self.largest_confidence_change, 6),
        }

    def share(self, count: int) -> float | None:
        """Returns the share of the replayed decisions, 0 to 1; None without any."""
        return round(count / self.replayed, 6) if self.replayed else None

    def accuracy(self, right: int) -> float | None:
        """Returns the share of the labelled decisions, 0 to 1; None without any."""
        return round(right / self.labelled, 6) if self.labelled else None

    @property
    def gain(self) -> float | None:
        """The change of the accuracy on labelled decisions; None without any."""
        return round((self.right_after - self.right_before) / self.labelled, 6) if self.labelled else None


class ReplayCounter:
    """Counts redecisions as they come. Its memory does not grow with their number."""

    def __init__(self, cascade: Cascade) -> None:
        self._policy, self._fingerprint = cascade.spec.name, cascade.fingerprint
        self._decisions = self._equal = self._other_inputs = 0
        self._labelled = self._right_before = self._right_after = 0
        self._margin = 0.0
        self._changed: list[Redecision] = []
        self._obstacles: Counter[Obstacle] = Counter()
        self._methods: Counter[str] = Counter()
        self._flips: dict[tuple[str, str], _FlipCount] = {}

    def add(self, found: Redecision) -> None:
        """Counts one redecision."""
        self._decisions += 1
        if found.obstacle is not None:
            self._obstacles[found.obstacle] += 1
            return
        assert found.before is not None
        assert found.after is not None
        self._other_inputs += not found.same_inputs
        label = found.place.label
        was, is_ = (label is not None and _is_right(each, label) for each in (found.before, found.after))
        self._labelled += label is not None
        self._right_before += was
        self._right_after += is_
        if found.is_equal:
            self._equal += 1
            if found.same_inputs:
                self._margin = max(self._margin, abs(found.before.confidence - found.after.confidence))
            return
        self._methods[found.after.method] += 1
        if len(self._changed) < KEPT:
            self._changed.append(found)
        flip = self._flips.setdefault((_shown(found.before), _shown(found.after)), _FlipCount())
        flip.add(found.text, right=is_ and not was, wrong=was and not is_)

    def result(self) -> ReplayResult:
        """Returns the counts so far."""
        flips = [Flip(*pair, each.count, each.right, each.wrong, tuple(each.examples)) for pair, each in self._flips.items()]
        return ReplayResult(
            policy=self._policy,
            fingerprint=self._fingerprint,
            decisions=self._decisions,
            equal=self._equal,
            changed=tuple(self._changed),
            flips=tuple(sorted(flips, key=lambda flip: (-flip.count, flip.before, flip.after))),
            by_method=dict(self._methods.most_common()),
            obstacles=dict(self._obstacles.most_common()),
            other_inputs=self._other_inputs,
            labelled=self._labelled,
            right_before=self._right_before,
            right_after=self._right_after,
            largest_confidence_change=self._margin,
        )


class _FlipCount:
    def __init__(self) -> None:
        self.count = self.right = self.wrong = 0
        self.examples: dict[str, None] = {}

    def add(self, text: str, *, right: bool, wrong: bool) -> None:
        self.count += 1
        self.right += right
        self.wrong += wrong
        if len(self.examples) < EXAMPLES:
            self.examples[text] = None


def _is_right(selection: Selection, label: str) -> bool:
    return selection.outcome == "chosen" and selection.agent == label


def _shown(selection: Selection) -> str:
    """Returns the agent, or the word for a question to the user."""
    return selection.agent if selection.outcome == "chosen" else CLARIFY
