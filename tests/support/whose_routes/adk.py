"""What can be asked as the ADK's clients do, and its development page."""

from typing import Any

from whose_asked import Asked, Routes, Things

_USER = "/adk/apps/{app_name}/users/{user_id}"
_SESSION = _USER + "/sessions/{session_id}"
_FILES = _SESSION + "/artifacts"
_FILE = _FILES + "/{artifact_name}"
_DEV = "/adk/dev/apps/{app_name}"
_EMPTY = (
    "/debug/trace/session/{session_id}",
    "/debug/trace/{event_id}",
    "/tests",
    "/eval_sets",
    "/eval-sets",
    "/eval_results",
    "/eval-results",
    "/metrics-info",
    "/builder",
    "/build_graph",
    "/build_graph_image",
    "/graph",
)


def _said(t: Things, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"text": "hi"}]}
    return {"appName": "app", "userId": t.user, "sessionId": t.session, "newMessage": message, **more}


# Whose it is stands in the path, and in the body of a run: it has to be said.
_AGENTS = (Asked("agents:read", names=""),)
_READ = (Asked("sessions:read", names="path"),)
_LOOK = (Asked("artifacts:read", names="path"),)

ROUTES: Routes = {
    ("GET", "/adk/health"): (Asked(None, names=""),),
    ("GET", "/adk/version"): _AGENTS,
    ("GET", "/adk/list-apps"): (*_AGENTS, Asked("agents:read", query={"detailed": True}, names="")),
    ("GET", "/adk/apps/{app_name}/app-info"): _AGENTS,
    ("GET", "/adk/config/telemetry"): _AGENTS,
    **{("GET", _DEV + path): _AGENTS for path in _EMPTY},
    ("GET", _DEV + "/users/{user_id}/sessions/{session_id}/events/{event_id}/graph"): _READ,
    ("GET", _USER + "/sessions"): _READ,
    ("POST", _USER + "/sessions"): (
        Asked("sessions:write", lambda t: {"sessionId": t.new, "state": {"a": 1}}, names="path"),
        # Who brings in what was said elsewhere speaks for the user.
        Asked(
            "messages:write",
            lambda t: {"session_id": t.new, "events": [{"author": "user", "content": {"parts": [{"text": "hi"}]}}]},
            names="path",
        ),
    ),
    ("POST", _SESSION): (Asked("sessions:write", lambda _: {"a": 1}, names="path", ok=409),),
    ("GET", _SESSION): _READ,
    ("PATCH", _SESSION): (Asked("sessions:write", lambda _: {"stateDelta": {"a": 2}}, names="path"),),
    ("DELETE", _SESSION): (Asked("sessions:write", names="path"),),
    ("PATCH", _USER + "/memory"): (Asked("memories:write", lambda t: {"sessionId": t.session}, names="path"),),
    ("POST", "/adk/run"): (
        Asked("messages:write", _said, names="path"),
        Asked("messages:write", lambda t: _said(t, newMessage=None, invocationId=t.invocation), names="path"),
        Asked("messages:write", lambda t: _said(t, invocationId=t.invocation, stateDelta={"a": 1}), names="path"),
    ),
    ("POST", "/adk/run_sse"): (Asked("messages:write", lambda t: _said(t, streaming=True), names="path"),),
    ("GET", _FILES): _LOOK,
    ("POST", _FILES): (Asked("artifacts:write", lambda _: {"filename": "n.txt", "artifact": {"text": "hi"}}, names="path"),),
    ("GET", _FILE): (*_LOOK, Asked("artifacts:read", query={"version": 0}, names="path")),
    ("GET", _FILE + "/versions"): _LOOK,
    ("GET", _FILE + "/versions/metadata"): _LOOK,
    ("GET", _FILE + "/versions/{version_id}"): _LOOK,
    ("GET", _FILE + "/versions/{version_id}/metadata"): _LOOK,
    ("DELETE", _FILE): (Asked("artifacts:write", names="path"),),
}
