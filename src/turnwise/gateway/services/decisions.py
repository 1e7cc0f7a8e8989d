"""Search, lookup and labelling of selection decisions."""

from collections.abc import Sequence
from typing import Literal

from turnwise.facts.errors import InvocationMissing, RequestInvalid
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.ports.decisions import BY_USER, Decision, DecisionCounts, DecisionFilter, Label, Page
from turnwise.ports.records import record_store_of
from turnwise.ports.stores import PAGE_BYTES
from turnwise.runner import Runner

EVENTS_PER_READ = 100
"""How many events each read fetches when looking for the newest decision."""


class Decisions:
    """Searches, returns and labels decisions with the caller's rights.

    All methods raise Forbidden and the store's
    errors.
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
