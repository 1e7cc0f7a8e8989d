"""AG-UI 1.0, below /ag-ui: the front door as the agent that a front end talks to, for `@ag-ui/client` and CopilotKit."""

from turnwise.gateway.ag_ui.errors import error_response
from turnwise.gateway.ag_ui.routes import router

__all__ = ["error_response", "router"]
