"""The agents behind a gateway."""

from collections.abc import AsyncIterator

from turnwise.client.asked import escaped, get
from turnwise.client.gateway import Gateway
from turnwise.client.listing import listed
from turnwise.wire.kept import AgentPage, AgentShown


class Agents:
    """Those that this credential reaches. All of it raises what the gateway tells, and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def list(self) -> AsyncIterator[AgentShown]:
        """All, in the tree's order."""
        return listed(self._gateway, AgentPage, get("/agents"), lambda page: page.agents)

    async def get(self, name: str) -> AgentShown:
        """One of them. NothingHere."""
        return await self._gateway.ask(AgentShown, get(f"/agents/{escaped(name)}"))
