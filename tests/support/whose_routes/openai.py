"""What can be asked as OpenAI's clients do."""

from typing import Any

from whose_asked import Asked, Routes


def _said(model: str = "desk") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}]}


ROUTES: Routes = {
    ("GET", "/v1/models"): (Asked("agents:read", names=""),),
    ("GET", "/v1/models/{model}"): (Asked("agents:read", names=""),),
    ("POST", "/v1/chat/completions"): (
        Asked("messages:write", lambda _: _said()),
        Asked("messages:write", lambda t: _said() | {"metadata": {"session_id": t.session}}),
        Asked("messages:write", lambda t: _said() | {"metadata": {"session_id": t.session}, "stream": True}),
    ),
    ("POST", "/v1/responses"): (
        Asked("messages:write", lambda _: {"input": "hi"}),
        Asked("messages:write", lambda t: {"input": "hi", "previous_response_id": t.response}),
        Asked("messages:write", lambda t: {"input": "hi", "conversation": t.session, "stream": True}),
    ),
    ("POST", "/v1/responses/compact"): (
        Asked("sessions:read", lambda t: {"model": "desk", "previous_response_id": t.response}),
    ),
    ("POST", "/v1/responses/input_tokens"): (
        Asked("sessions:read", lambda t: {"input": "hi", "previous_response_id": t.response}),
        Asked("sessions:read", lambda t: {"input": "hi", "conversation": t.session}),
    ),
    ("GET", "/v1/responses/{response_id}"): (Asked("sessions:read"), Asked("sessions:read", query={"stream": True})),
    ("POST", "/v1/responses/{response_id}/cancel"): (Asked("invocations:cancel"),),
    ("GET", "/v1/responses/{response_id}/input_items"): (Asked("sessions:read"),),
    ("DELETE", "/v1/responses/{response_id}"): (Asked("sessions:write"),),
}
