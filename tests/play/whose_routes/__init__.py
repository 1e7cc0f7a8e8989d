"""Every route over HTTP, and what can be asked there: a file for each protocol."""

from whose_asked import Routes

from whose_routes import api, graph_chat, openai

ROUTES: Routes = {**api.ROUTES, **graph_chat.ROUTES, **openai.ROUTES}

__all__ = ["ROUTES"]
