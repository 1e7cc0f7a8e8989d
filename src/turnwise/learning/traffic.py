"""Labelled messages to learn from: out of the log of a store, or out of files of cases."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from turnwise.facts.callers import credential_digest
from turnwise.facts.errors import ConfigError
from turnwise.facts.labels import BY_USER, OPERATOR, SIGNAL, Label, LabelledDecision
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.learning.cases import Case
from turnwise.learning.evaluate import evaluate
from turnwise.learning.labelled import MOST_LABELS, Labelled
from turnwise.learning.measures import Outcome, chosen_of
from turnwise.learning.replay import Place, replay
from turnwise.learning.tune import Scored, contextual_stage
from turnwise.ports.decisions import DecisionFilter
from turnwise.ports.holds import RecordStore
from turnwise.ports.stores import SessionStore
from turnwise.selection.cascade import Cascade

_PAGE = 500


def effective(labels: Sequence[Label]) -> Label | None:
    """Returns the label that counts: the operators' newest, else the heaviest. None without any, or when it is unsure."""
    by_operators = [label for label in labels if label.source == OPERATOR]
    found: Label | None = max(
        by_operators, key=lambda label: ((label.at and label.at.timestamp()) or 0.0, label.author), default=None
    )
    if found is None:
        found = max(labels, key=lambda label: (label.weight, label.source, label.author), default=None)
    return None if found is None or found.unsure or not found.weight else found


@dataclass(frozen=True, slots=True)
class LogTraffic:
    """The labelled decisions of an app's log, with the conversations before them."""

    store: SessionStore
    places: tuple[Place, ...]
    labelled: tuple[Labelled, ...]

    @classmethod
    async def read(
        cls,
        store: SessionStore,
        app: str,
        cascade: Cascade,
        *,
        since: datetime | None = None,
        trusted: Collection[str] = (),
        most: int = MOST_LABELS,
    ) -> "LogTraffic":
        """Reads the labelled decisions that can be made again, oldest first.

        Args:
            store: The store.
            app: The app.
            cascade: Its default agent counts as nobody, in labels and in decisions.
            since: Only decisions made at this time or later.
            trusted: Ids of callers whose users are separate sources of labels, such as the app's own server. Each other caller
                is one source, whatever users it names.
            most: The most labelled decisions: the operators' newest, then the newest of others.

        Raises:
            ConfigError: The store keeps no labels.
            StoreError: The store cannot be read.
            EncoderError: A message has no vector.
        """
        default = cascade.spec.default or cascade.tree.root
        counted = await _counted_labels(store, app, since)
        shown = await _share_shown(store, app, since, counted.values())
        counted, known = _newest(counted, most), frozenset(map(credential_digest, trusted))
        places: list[Place] = []
        labelled: list[Labelled] = []
        async for each in replay(store, cascade, [Place(*at, None) for at in counted]):
            if each.before is None or each.after is None:
                continue
            decision = counted[each.place.key, each.place.sequence]
            label, expected = decision.label, None if decision.label.agent == default else decision.label.agent
            credential = _credential(label, each.before, known)
            places.append(each.place)
            labelled.append(
                Labelled(
                    text=each.text,
                    expected=expected,
                    chosen=chosen_of(each.before, default),
                    user=each.place.key.user,
                    session=each.place.key.id,
                    at=decision.decided_at.timestamp(),
                    author=_author(label, credential),
                    credential=credential,
                    by_operator=label.source == OPERATOR,
                    opens=(expected or default) != each.active_agent,
                    sequence=each.place.sequence,
                    segment=each.after.segment,
                    probability=shown if label.source == SIGNAL and label.agent == decision.agent else label.probability,
                    weight=min(label.weight, 1.0),
                )
            )
        return cls(store, tuple(places), tuple(labelled))

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        default = cascade.spec.default or cascade.tree.root
        found = await self._again(cascade, which)
        return [None if each is None else chosen_of(each, default) for each in found]

    async def weighed(self, cascade: Cascade, which: Sequence[int]) -> list[Scored]:
        """Decides these messages again and returns the scores of the contextual stage for each."""
        stage = contextual_stage(cascade)
        found: list[Scored] = []
        for each in await self._again(cascade, which):
            verdicts = each.verdicts if each is not None else ()
            verdict = next((verdict for verdict in verdicts if verdict.selector == stage), None)
            found.append({} if verdict is None else {candidate.agent: candidate.score for candidate in verdict.candidates})
        return found

    async def _again(self, cascade: Cascade, which: Sequence[int]) -> list[Selection | None]:
        """Decides these messages again. None = it cannot be decided again."""
        wanted = [self.places[index] for index in which]
        found: dict[tuple[SessionKey, int], Selection | None] = {}
        async for each in replay(self.store, cascade, wanted):
            found[each.place.key, each.place.sequence] = each.after
        return [found.get((place.key, place.sequence)) for place in wanted]


def _credential(label: Label, decided: Selection, trusted: Collection[str]) -> str:
    """Returns the digest of the credential that is the source of a rating or signal; empty without one, or if it is trusted."""
    if label.source not in (SIGNAL, BY_USER):
        return ""
    credential = decided.credential if label.source == SIGNAL else credential_digest(label.author)
    return "" if credential in trusted else credential or ""


def _author(label: Label, credential: str) -> str:
    """Returns who gave the label. Users' ratings and signals are those of the credential, which may name any user."""
    if label.source in (SIGNAL, BY_USER):
        return credential and f"credential\n{credential}"
    return f"{label.source}\n{label.author}"


async def _share_shown(
    store: SessionStore, app: str, since: datetime | None, labelled: Iterable[LabelledDecision]
) -> float | None:
    """Returns the share of decisions that signals confirm, of those and the unlabelled ones: how often a right one shows.

    The newest decisions are counted. None if signals confirm none.
    """
    confirmed = sum(each.label.source == SIGNAL and each.label.agent == each.agent for each in labelled)
    counts = await store.decisions.count(app, filter=DecisionFilter(since=since))
    open_ = sum(cell.count for cell in counts.cells if cell.label is None)
    return confirmed / (confirmed + open_) if confirmed else None


async def _counted_labels(
    store: SessionStore, app: str, since: datetime | None
) -> dict[tuple[SessionKey, int], LabelledDecision]:
    """Returns the label that counts of each decision, in the order of the decisions' times."""
    found: defaultdict[tuple[SessionKey, int], list[LabelledDecision]] = defaultdict(list)
    after = None
    if not isinstance(store, RecordStore):
        raise ConfigError("This session store keeps no labels.", fix="Use the SQL store, or learn from files.")
    while True:
        page = await store.labels.search(app, after=after, limit=_PAGE)
        for each in page.items:
            if since is None or each.decided_at >= since:
                found[each.key, each.sequence].append(each)
        after = page.next
        if after is None:
            break
    counted = {}
    for at, decisions in found.items():
        label = effective([each.label for each in decisions])
        if label is not None:
            counted[at] = decisions[0].replace(label=label)
    return dict(sorted(counted.items(), key=lambda item: (item[1].decided_at, item[0])))


def _newest(
    counted: dict[tuple[SessionKey, int], LabelledDecision], most: int
) -> dict[tuple[SessionKey, int], LabelledDecision]:
    """Returns at most that many, in the same order: the operators' newest, then of each other source its newest in turn.

    So one source with many labels cannot displace the labels of others.
    """
    if len(counted) <= most:
        return counted
    seen: Counter[tuple[str, str]] = Counter()
    rank: dict[tuple[SessionKey, int], int] = {}
    for at in sorted(counted, key=lambda at: (counted[at].decided_at, at), reverse=True):
        label = counted[at].label
        sources = [("user", at[0].user), *([("author", label.author)] if label.source == BY_USER else [])]
        seen.update(sources)
        rank[at] = 0 if label.source == OPERATOR else max(seen[source] for source in sources)
    kept = set(sorted(rank, key=rank.__getitem__)[:most])  # the newest first among equals
    return {at: each for at, each in counted.items() if at in kept}


class CaseTraffic:
    """The cases of files: each dialogue is a session of a separate user, and later cases are later in time.

    Args:
        cases: The cases.
        labelled: The scored turns.
        turns: For each of them the number of its case, and its index in the case.
    """

    def __init__(self, cases: Sequence[Case], labelled: Sequence[Labelled], turns: Sequence[tuple[int, int]]) -> None:
        self._cases, self.labelled, self._turns = tuple(cases), tuple(labelled), tuple(turns)

    @classmethod
    async def read(cls, cases: Sequence[Case], cascade: Cascade) -> "CaseTraffic":
        """Decides all cases once with this cascade: its choices are what was chosen. Raises EncoderError."""
        default = cascade.spec.default or cascade.tree.root
        labelled: list[Labelled] = []
        turns: list[tuple[int, int]] = []
        for number, case in enumerate(cases):
            before: str | None = None
            for outcome in await evaluate(cascade, [case], history="true"):
                expected = None if outcome.expected == default else outcome.expected
                if outcome.scored:
                    turns.append((number, outcome.turn))
                    labelled.append(
                        Labelled(
                            text=outcome.text,
                            expected=expected,
                            chosen=None if outcome.chosen == default else outcome.chosen,
                            user=f"case {number}",
                            session=f"case {number}",
                            at=float(number),
                            opens=expected != before,
                        )
                    )
                    before = expected
        return cls(cases, labelled[-MOST_LABELS:], turns[-MOST_LABELS:])

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        default = cascade.spec.default or cascade.tree.root
        return [None if each.chosen == default else each.chosen for each in await self._again(cascade, which)]

    async def weighed(self, cascade: Cascade, which: Sequence[int]) -> list[Scored]:
        outcomes = await self._again(cascade, which)
        return [dict(each.ranked) if each.method.startswith("contextual_") else {} for each in outcomes]

    async def _again(self, cascade: Cascade, which: Sequence[int]) -> list[Outcome]:
        found: dict[tuple[int, int], Outcome] = {}
        for number in sorted({self._turns[index][0] for index in which}):
            for outcome in await evaluate(cascade, [self._cases[number]], history="true"):
                found[number, outcome.turn] = outcome
        return [found[self._turns[index]] for index in which]
