"""What can be asked as AG-UI's clients do."""

from typing import Any

from whose_asked import Asked, Routes, Things


def _run(t: Things, *said: str, **more: Any) -> dict[str, Any]:
    messages = [{"id": f"u{place}", "role": "user", "content": text} for place, text in enumerate(said)]
    return {"threadId": t.session, "runId": t.new, "messages": messages, "protocolVersion": "1.0", **more}


def _answers(t: Things) -> dict[str, Any]:
    return _run(t, resume=[{"interruptId": t.call, "status": "resolved", "payload": "this"}])


ASKED = (
    Asked("messages:write", lambda t: _run(t, "hi")),
    Asked("messages:write", _run),
    Asked("messages:write", lambda t: _run(t, "hi", runId=t.message)),
    Asked("messages:write", lambda t: _run(t, state={"a": 1})),
    Asked("messages:write", _answers),
    Asked("messages:write", lambda t: _run(t, "hi", threadId="")),
)
ROUTES: Routes = {("POST", "/ag-ui"): ASKED, ("POST", "/ag-ui/"): ASKED[:1]}
