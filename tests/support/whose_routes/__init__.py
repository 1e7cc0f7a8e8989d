"""Every route over HTTP, and what can be asked there: a file for each protocol."""

from whose_asked import Routes

from whose_routes import a2a, adk, ag_ui, api, graph_chat, mcp, openai

ROUTES: Routes = {**a2a.ROUTES, **adk.ROUTES, **ag_ui.ROUTES, **api.ROUTES, **graph_chat.ROUTES, **mcp.ROUTES, **openai.ROUTES}

__all__ = ["ROUTES"]
