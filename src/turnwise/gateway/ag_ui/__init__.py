"""The AG-UI 1.0 protocol, below `/ag-ui`, for `@ag-ui/client` and CopilotKit. The gateway appears as one agent."""

from turnwise.gateway.ag_ui.routes import router
from turnwise.gateway.ag_ui.schema import error_response

__all__ = ["error_response", "router"]
