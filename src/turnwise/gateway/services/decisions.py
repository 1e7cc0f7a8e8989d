"""Selection decisions: search, lookup, labels, review, the feed of new ones, and reports."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from turnwise.facts.errors import InvocationMissing, RequestInvalid, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.background import CachedResults
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.learning.collect_signals import decision_signals
from turnwise.learning.decision_report import DecisionReport, decision_report
from turnwise.learning.evaluate import KeptEvaluation, kept_evaluations
from turnwise.learning.label_signals import Found
from turnwise.learning.review import Queued, read_queue
from turnwise.ports.decisions import (
    BY_USER,
    Claim,
    Decision,
    DecisionCounts,
    DecisionFilter,
    Label,
    LabelChange,
    LabelledDecision,
    Labels,
    Page,
)
from turnwise.ports.records import record_store_of
from turnwise.ports.stores import PAGE_BYTES
from turnwise.runner import Runner

log = logging.getLogger("turnwise.gateway")

EVENTS_PER_READ = 100
"""How many events each read fetches when looking for the newest decision."""


class Decisions:
    """Searches, returns and labels decisions with the caller's rights.

    All methods raise Forbidden and the store's errors.
    """

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    async def search(
        self,
        *,
        session: str | None,
        filter: DecisionFilter,
        after: str | None,
        limit: int,
        oldest_first: bool = False,
    ) -> Page[Decision]:
        """Returns one page of decisions, newest or oldest first.

        A caller with rights over all users, who names neither a user nor a session, gets the decisions of all users.
        A filter by label needs the permission `decisions:label`, because a label may name an agent that users do not know.

        Raises:
            CursorInvalid: `after` is not the cursor of a page.
        """
        everybody = self._scope.named is None and session is None and self._scope.reaches_all("decisions:read")
        named = self._scope.users("decisions:read", everybody=everybody)
        if filter.label is not None or filter.labelled is not None or filter.contradicted:
            self._scope.users("decisions:label", everybody=everybody)
        key = None if session is None else self._scope.session("decisions:read", session)
        return await self._runner.store.decisions.search(
            self._runner.app,
            user=None if key else named,
            key=key,
            filter=filter,
            after=after,
            limit=limit,
            oldest_first=oldest_first,
        )

    async def count(self, filter: DecisionFilter) -> DecisionCounts:
        """Returns the numbers of the newest decisions, for the same users as `search`.

        Only callers with the permission `decisions:label` get labels.
        """
        everybody = self._scope.named is None and self._scope.reaches_all("decisions:read")
        named = self._scope.users("decisions:read", everybody=everybody)
        if filter.label is not None or filter.labelled is not None or filter.contradicted:
            self._scope.users("decisions:label", everybody=everybody)
        return await self._runner.store.decisions.count(self._runner.app, user=named, filter=filter)

    def followed_user(self) -> str | None:
        """Returns the user to whose decisions a follower is limited; None for all users."""
        everybody = self._scope.named is None and self._scope.reaches_all("decisions:read")
        return self._scope.users("decisions:read", everybody=everybody)

    async def find(self, session: str, sequence: int) -> Decision:
        """Returns the decision in the event with this sequence number.

        Raises:
            InvocationMissing: There is no decision at this number.
        """
        key = self._scope.session("decisions:read", session)
        found = await self._runner.store.decisions.find(key, sequence)
        if found is None:
            raise InvocationMissing(
                f"Session {session!r} has no decision at sequence number {sequence}.",
                fix="Search its decisions for the numbers.",
            )
        return found

    async def of_message(self, session: str, message_id: str | None = None) -> Decision:
        """Returns the decision of a message; of the newest decided message if `message_id` is None.

        Raises:
            SessionMissing: There is no such session.
            InvocationMissing: There is no such message, or it has no decision yet.
        """
        key = self._scope.session("decisions:read", session)
        if message_id is None:
            place = await self._newest_sequence(key)
        else:
            result = (await self._runner.sessions.reading(key, message_id=message_id)).result
            place = _decision_sequence(result.events if result else ())
        found = await self._runner.store.decisions.find(key, place) if place else None
        if found is None:
            raise InvocationMissing("There is no decision (yet).", fix="Try again when the message is answered.")
        return found

    async def _newest_sequence(self, key: SessionKey) -> int | None:
        """Returns the sequence number of the newest message with a decision; None if there is none."""
        before = (await self._runner.sessions.get(key)).last_sequence + 1
        while before > 1:
            events = await self._runner.store.events(key, before=before, last=EVENTS_PER_READ, max_bytes=PAGE_BYTES)
            place = _decision_sequence(tuple(reversed(events)))
            if place is not None or not events:
                return place
            before = events[0].sequence or 1
        return None

    async def label(self, session: str, sequence: int, agent: str | None) -> None:
        """Stores the agent that should have been chosen; None removes the label.

        Raises:
            RequestInvalid: The tree has no such agent.
            InvocationMissing: There is no decision at this number.
        """
        key = self._scope.session("decisions:label", session)
        if agent is not None and agent not in self._runner.tree:
            raise RequestInvalid(f"There is no agent {agent[:64]!r}.", fix="Name one of the tree.", where=("body", "agent"))
        await self._runner.store.decisions.label(key, sequence, agent, actor=self._scope.caller.id)

    async def rate(self, session: str, sequence: int, rating: Literal["up", "down"] | None, agent: str | None) -> None:
        """Stores a user's rating of a decision in an own session as a label; None takes it back.

        A credential that acts for users stores one rating for each decision, under its own id. An operator's label comes first.

        Args:
            session: The session.
            sequence: The number of the event that holds the decision.
            rating: `up`: the chosen agent is right. `down`: it is wrong.
            agent: The right agent, with `down`; None if the user names none.

        Raises:
            Forbidden: The session is another user's.
            RequestInvalid: The caller reaches no such agent, or the rating is not `down`; or it is `up` for a question to the
                user.
            InvocationMissing: There is no decision at this number.
        """
        key = self._scope.session("messages:write", session)
        author, labels = self._scope.caller.id, record_store_of(self._runner.store).labels
        self._check_named(rating, agent)
        if rating is None:
            await labels.remove(key, sequence, BY_USER, author, actor=author)
            return
        found = await self._runner.store.decisions.find(key, sequence)
        if found is None:
            raise InvocationMissing(
                f"Session {session!r} has no decision at sequence number {sequence}.",
                fix="Search its decisions for the numbers.",
            )
        if rating == "up" and found.selection.outcome == "clarify":
            raise RequestInvalid(
                "A question to the user chooses no agent.", fix="Rate the next decision.", where=("body", "rating")
            )
        right = found.selection.agent if rating == "up" else agent
        label = Label(source=BY_USER, author=author, agent=right, unsure=right is None, picked="complaint")
        await labels.put(key, sequence, label, actor=author)

    def _check_named(self, rating: str | None, agent: str | None) -> None:
        """Raises RequestInvalid for an agent beside any rating but `down`, or one that the caller does not reach."""
        if agent is None:
            return
        where = ("body", "agent")
        if rating != "down":
            raise RequestInvalid("An agent is named without the rating 'down'.", fix="Leave out 'agent'.", where=where)
        if agent not in self._runner.tree or not Redactor(self._scope.caller, self._runner.tree).reaches(agent):
            raise RequestInvalid(f"There is no agent {agent[:64]!r}.", fix="Name one that you reach.", where=where)


def _decision_sequence(events: Sequence[Event]) -> int | None:
    """Returns the sequence number of the first user message with a decision; None if there is none."""
    return next((event.sequence for event in events if event.author == USER and event.actions.selection), None)


CLAIM_SECONDS = 120.0
"""How long a claim lasts without another request of the reviewer."""


class DecisionPlace(NamedTuple):
    """Where a decision is."""

    user: str | None
    """None for the caller."""
    session: str
    sequence: int
    picked: str | None = None
    """How it was picked for labelling."""
    probability: float | None = None


class Reviews:
    """Labels decisions and claims them for review. All methods need the permission `decisions:label`."""

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    @property
    def _labels(self) -> Labels:
        return record_store_of(self._runner.store).labels

    async def claim(self, session: str, sequence: int) -> Claim:
        """Claims the review of a decision. Returns the claim that holds: the caller's, or another reviewer's.

        Raises:
            InvocationMissing: There is no decision at this number.
        """
        key = self._scope.session("decisions:label", session)
        return await self._labels.claim(key, sequence, self._scope.caller.id, seconds=CLAIM_SECONDS)

    async def unclaim(self, session: str, sequence: int) -> None:
        """Releases the caller's claim. Idempotent."""
        key = self._scope.session("decisions:label", session)
        await self._labels.unclaim(key, sequence, self._scope.caller.id)

    async def labels(self, session: str, sequence: int) -> tuple[Sequence[LabelledDecision], Sequence[LabelChange]]:
        """Returns all labels of a decision, and all changes of them, oldest first."""
        key = self._scope.session("decisions:label", session)
        return await self._labels.of(key, sequence), await self._labels.changes(key, sequence)

    async def label(self, places: Sequence[DecisionPlace], agent: str | None, *, note: str = "", unsure: bool = False) -> None:
        """Labels decisions as the caller; None removes the labels of all operators.

        Checks the rights for all of them before the first is labelled.

        Raises:
            RequestInvalid: The tree has no such agent.
            InvocationMissing: There is no decision at a number. Earlier ones are labelled.
        """
        if agent is not None and agent not in self._runner.tree:
            raise RequestInvalid(f"There is no agent {agent[:64]!r}.", fix="Name one of the tree.", where=("body", "agent"))
        actor = self._scope.caller.id
        keys = [self._key(place) for place in places]
        for place, key in zip(places, keys, strict=True):
            if agent is None:
                await self._runner.store.decisions.label(key, place.sequence, None, actor=actor)
            else:
                label = Label(author=actor, agent=agent, note=note, unsure=unsure)
                label = label.replace(picked=place.picked, probability=place.probability)
                await self._labels.put(key, place.sequence, label, actor=actor)

    async def queue(self, *, size: int, share: float, seed: int, limit: int) -> list[Queued]:
        """Returns the decisions to label next, of all users.

        Args:
            size: How many.
            share: The share of random ones, 0 to 1.
            seed: The seed of the draw.
            limit: How many decisions are read, the newest ones.
        """
        self._scope.users("decisions:label", everybody=True)
        runner = self._runner
        return await read_queue(runner.store, runner.app, runner.cascade, size=size, share=share, seed=seed, limit=limit)

    async def signals(self, session: str, sequence: int) -> list[Found]:
        """Returns what followed a decision in its conversation.

        Raises:
            InvocationMissing: There is no decision at this number.
        """
        key, runner = self._scope.session("decisions:label", session), self._runner
        if await runner.store.decisions.find(key, sequence) is None:
            raise InvocationMissing(
                f"Session {session!r} has no decision at sequence number {sequence}.",
                fix="Search its decisions for the numbers.",
            )
        return await decision_signals(runner.store, key, sequence, runner.tree, runner.cascade.spec.default)

    def _key(self, place: DecisionPlace) -> SessionKey:
        scope = SessionScope(self._runner, self._scope.caller, place.user)
        return scope.session("decisions:label", place.session)


FEED_SECONDS = 0.5
"""The interval of the reads while there are followers."""
FEED_OVERLAP = timedelta(seconds=3)
"""Each read goes back so far, because a decision is stored a moment after its time."""
FEED_ROWS = 100
"""The most decisions of one read."""
FEED_WAITING = 5
"""The most reads that a slow follower has waiting."""


class DecisionBatch:
    """The new decisions of one read, oldest first. Followers of the same user share it, and what was written of it: so a
    hundred followers cost little more than one.
    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self.decisions = decisions
        self._written: dict[Hashable, bytes] = {}

    def written(self, view: Hashable, write: Callable[[Decision], bytes]) -> bytes:
        """Returns all decisions as bytes; `view` names what the follower may see of them."""
        found = self._written.get(view)
        if found is None:
            found = self._written[view] = b"".join(map(write, self.decisions))
        return found


class _Follower:
    """A reader of the feed."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.queue: asyncio.Queue[DecisionBatch] = asyncio.Queue(FEED_WAITING)

    def offer(self, batch: DecisionBatch) -> None:
        """Adds the batch; drops it if it is empty or the follower is too slow."""
        if batch.decisions:
            with suppress(asyncio.QueueFull):
                self.queue.put_nowait(batch)


class DecisionFeed:
    """The decisions that are made from now on. Reads the store only while somebody follows. For one event loop."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._followers: set[_Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[tuple[str, str, int], datetime] = {}

    async def follow(self, user: str | None) -> AsyncIterator[DecisionBatch | None]:
        """Yields None once it follows, then new decisions of the user, or of all users if `user` is None, oldest first."""
        follower = _Follower(user)
        self._followers.add(follower)
        if self._task is None:
            self._task = asyncio.create_task(self._read())
        try:
            yield None
            while True:
                yield await follower.queue.get()
        finally:
            self._followers.discard(follower)
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _read(self) -> None:
        """Reads new decisions every FEED_SECONDS until it is cancelled. Problems of the store are logged."""
        began = datetime.now(UTC)
        self._seen.clear()
        while True:
            try:
                await self._publish_new(max(began, datetime.now(UTC) - FEED_OVERLAP))
            except TurnwiseError as problem:
                log.warning("new decisions could not be read: %s", problem)
            await asyncio.sleep(FEED_SECONDS)

    async def _publish_new(self, since: datetime) -> None:
        """Reads the decisions since a time and gives each follower those that it has not seen and may follow."""
        filter_ = DecisionFilter(since=since)
        page = await self._runner.store.decisions.search(self._runner.app, filter=filter_, limit=FEED_ROWS)
        fresh = [each for each in reversed(page.items) if _name(each) not in self._seen]
        self._seen = {name: at for name, at in self._seen.items() if at >= since}
        self._seen |= {_name(each): each.created_at for each in fresh}
        batches: dict[str | None, DecisionBatch] = {None: DecisionBatch(fresh)}
        for follower in self._followers:
            user = follower.user
            if user not in batches:
                batches[user] = DecisionBatch([each for each in fresh if each.key.user == user])
            follower.offer(batches[user])


def _name(decision: Decision) -> tuple[str, str, int]:
    return (decision.key.user, decision.key.id, decision.sequence)


REPORT_SECONDS = 60.0
"""How long a report is shown again: it reads many decisions, and compares messages by meaning."""


class Reports:
    """Makes reports, one at a time in this process."""

    def __init__(self, runner: Runner, scope: SessionScope, kept: CachedResults[DecisionReport]) -> None:
        self._runner, self._scope, self._kept = runner, scope, kept

    async def evaluations(self, *, limit: int) -> Sequence[KeptEvaluation]:
        """Returns the evaluations that were kept, newest first. Needs `decisions:label`."""
        self._scope.require("decisions:label")
        return await kept_evaluations(record_store_of(self._runner.store).audit, self._runner.app, limit=limit)

    async def decisions(self, *, since: datetime | None, limit: int, sample: int, seed: int) -> DecisionReport:
        """Returns what the newest decisions of all users show. Needs `decisions:label` for all users.

        Args:
            since: Only decisions made at this time or later.
            limit: The most decisions.
            sample: The most texts to group by meaning, and to compare with patterns.
            seed: The seed of the draw of these texts.
        """
        self._scope.users("decisions:label", everybody=True)
        store, app, cascade = self._runner.store, self._runner.app, self._runner.cascade
        return await self._kept.of(
            (cascade.fingerprint, cascade.tree.version, since, limit, sample, seed),
            lambda: decision_report(store, app, cascade, since=since, limit=limit, sample=sample, seed=seed),
        )
