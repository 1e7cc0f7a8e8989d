"""A served app whose definitions change."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cli_play import written
from gateway_play import Served, key_for

from turnwise.assemble import App, load_app
from turnwise.facts.gateway import AuthConfig, GatewayConfig, McpConfig, Protocols
from turnwise.gateway.server import front_for, serving

CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
policy: {stages: [direct, {selector: patterns}]}
"""


@asynccontextmanager
async def serving_app(folder: Path, store: str = "") -> AsyncIterator[tuple[App, Served, dict[str, str]]]:
    """A served app of turnwise.yaml, and the headers of an admin; with its usual store, or one of that URL."""
    app = load_app(written(folder, CONFIGURATION + (f"store: '{store}'\n" if store else "")))
    protocols = Protocols(mcp=McpConfig(agents=True))
    front = front_for(app.runner, GatewayConfig(auth=AuthConfig(), protocols=protocols), editor=app.editor)
    front.ready.set()
    try:
        admin = await key_for(app.runner, role="admin", user="adam")
        async with serving(front) as gateway, Served(gateway.address, front) as client:
            yield app, client, admin
    finally:
        await app.runner.close()
