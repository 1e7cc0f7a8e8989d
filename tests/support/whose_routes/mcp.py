"""What can be asked as clients of the Model Context Protocol do: one route, and a method in the body."""

import json
from typing import Any

import httpx
from whose_asked import FILE, Asked, Made, Routes, Things

from turnwise.facts.callers import Permission
from turnwise.gateway.problems import status_of

ACCEPT = {"Accept": "application/json, text/event-stream"}
NEW = "2026-07-28"
"""The version of the protocol that has no handshake."""
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "whose", "version": "1"},
}


def request(method: str, **params: Any) -> dict[str, Any]:
    """As the versions with a handshake have it."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def new_headers(method: str, name: str = "") -> dict[str, str]:
    """What the newest version wants beside the body."""
    return {**ACCEPT, "MCP-Protocol-Version": NEW, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})


def told(answer: httpx.Response) -> dict[str, Any]:
    """The message in an answer, whether it came as JSON or as the last event of a stream."""
    text = answer.text
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")][-1]
    found: dict[str, Any] = json.loads(text)
    return found


def status(answer: httpx.Response) -> int:
    """What is refused inside of the protocol says so by our code: in an error, or in the result of a tool."""
    if answer.status_code in (401, 429):
        return answer.status_code
    message = told(answer)
    about = message["error"].get("data") if "error" in message else None
    if message.get("result", {}).get("isError"):
        about = message["result"]["_meta"]["turnwise/error"]
    return status_of(about["code"]) if about else answer.status_code


def _tool(permission: Permission, name: str, made: Made) -> Asked:
    def body(things: Things) -> dict[str, Any]:
        return request("tools/call", name=name, arguments=made(things))

    return Asked(permission, body, headers=ACCEPT, status=status)


def _new(permission: Permission, name: str, made: Made) -> Asked:
    def body(things: Things) -> dict[str, Any]:
        return request("tools/call", name=name, arguments=made(things), _meta=ENVELOPE)

    return Asked(permission, body, headers=new_headers("tools/call", name), status=status)


def _method(permission: Permission, method: str, made: Made) -> Asked:
    return Asked(permission, lambda things: request(method, **made(things)), headers=ACCEPT, status=status)


def _in_session(things: Things) -> dict[str, Any]:
    return {"message": "hi", "session": things.session}


def _answer(things: Things) -> dict[str, Any]:
    return {**_in_session(things), "answer_to": things.call}


def _decision(things: Things) -> dict[str, Any]:
    return {"session": things.session, "message_id": things.message}


def _uri(things: Things) -> dict[str, Any]:
    return {"uri": f"turnwise://sessions/{things.session}"}


def _file(things: Things) -> dict[str, Any]:
    return {"uri": f"turnwise://sessions/{things.session}/artifacts/{FILE}"}


ROUTES: Routes = {
    ("POST", "/mcp"): (
        _tool("messages:write", "ask", lambda _: {"message": "hi"}),
        _tool("messages:write", "ask", _in_session),
        _tool("messages:write", "ask", _answer),
        _tool("sessions:read", "select", _in_session),
        _tool("decisions:read", "explain", lambda things: {"session": things.session}),
        _tool("decisions:read", "explain", _decision),
        _new("messages:write", "ask", _in_session),
        _new("messages:write", "ask", _answer),
        _new("decisions:read", "explain", _decision),
        _method("sessions:read", "resources/list", lambda _: {}),
        _method("sessions:read", "resources/read", _uri),
        _method("artifacts:read", "resources/read", _file),
    ),
    ("POST", "/mcp/"): (_tool("messages:write", "ask", _in_session), _new("messages:write", "ask", _in_session)),
}
