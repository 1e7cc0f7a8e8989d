"""What can be asked of the reference router's paths."""

from typing import Any

from whose_asked import Asked, Routes, Things


def _graph(t: Things, **more: Any) -> dict[str, Any]:
    return {"message": "hi", "session_id": t.session, "context": {"customer_id": t.user}, **more}


ROUTES: Routes = {
    ("POST", "/api/v1/graph-chat/chat"): (Asked("messages:write", _graph, names="body"),),
    ("POST", "/api/v1/graph-chat/execute-agent"): (
        Asked("messages:write", lambda t: _graph(t, agent_id="desk"), names="body"),
    ),
}
