"""A gateway's decisions: who was chosen, and why."""

from collections.abc import AsyncIterator

from turnwise.client.asked import Asked, at_session, get
from turnwise.client.gateway import Gateway
from turnwise.client.listing import listed
from turnwise.wire.kept import DecisionPage, DecisionShown


class Decisions:
    """Searched, explained and labelled. All of it raises what the gateway tells, and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def search(
        self, *, session: str | None = None, agent: str | None = None, method: str | None = None
    ) -> AsyncIterator[DecisionShown]:
        """All that fit, oldest first: of the user, or of everybody for operators who name no user."""
        asked = get("/decisions", session_id=session, agent=agent, method=method)
        return listed(self._gateway, DecisionPage, asked, lambda page: page.decisions)

    async def explain(self, session: str, sequence: int) -> DecisionShown:
        """The decision that stands in the session's event of that number. InvocationMissing when there is none."""
        return await self._gateway.ask(DecisionShown, get(_at(session, sequence)))

    async def label(self, session: str, sequence: int, agent: str | None) -> None:
        """Says who should have been chosen; None takes that back. For operators. InvocationMissing."""
        await self._gateway.fetch(Asked("PUT", _at(session, sequence) + "/label", body={"agent": agent}))


def _at(session: str, sequence: int) -> str:
    return at_session(session, "decisions", str(int(sequence)))
