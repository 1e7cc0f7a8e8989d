"""Review of decisions: claims, labels of several decisions at once, and the log of a decision's labels."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.errors import InvocationMissing, RequestInvalid
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.learning.collect_signals import decision_signals
from turnwise.learning.label_signals import Found
from turnwise.learning.review import Queued, read_queue
from turnwise.ports.decisions import Claim, Label, LabelChange, LabelledDecision, Labels
from turnwise.ports.records import record_store_of
from turnwise.runner import Runner

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
