"""The AG-UI 1.0 protocol, below `/ag-ui`, for `@ag-ui/client` and CopilotKit. The gateway appears as one agent."""

from turnwise.gateway.ag_ui.errors import error_response
from turnwise.gateway.ag_ui.routes import router

__all__ = ["error_response", "router"]
