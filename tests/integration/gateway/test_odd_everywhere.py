"""Whatever is sent to whichever route, over real sockets: the sender is told of the mistake, and nothing breaks."""

import copy
import gzip
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from gateway_play import Served
from whose_asked import FILE, Route
from whose_play import made_up, two_users
from whose_routes import ROUTES

from turnwise.gateway.app import METHODS

ODD_JSON = (r'"\ud800"', r'{"\ud800": 1}', r'"\u0000"', "NaN", "-1e999", "9" * 5000, "null", "[[]]")
"""What stands in the place of each value of a body, one after the other."""
LARGE_JSON = (json.dumps({f"k{number}": 1 for number in range(10_000)}), "[" * 10_000 + "]" * 10_000)
"""The same in the place of one value: 10,000 keys, and 10,000 levels."""
ODD_TEXT = (
    "",
    "-1",
    "9" * 400,
    "NaN",
    "%00",
    "%ff",
    "%ED%A0%80",
    "a" * 3000,
    "%2e%2e",
    "..%2f..%2fx",
    "resp_AAAA",
    "%0d%0aX:%201",
)
ODD_HEADERS: tuple[tuple[str, bytes], ...] = (
    *((name, b"\xff\xfe") for name in ("Accept", "Range", "If-None-Match", "X-Session-ID", "Idempotency-Key", "traceparent")),
    *(
        ("Content-Type", kind)
        for kind in (b"application/json; charset=utf-16", b"text/plain", b"multipart/form-data", b";;", b"\xff")
    ),
    ("Content-Encoding", b"gzip"),
    ("Last-Event-ID", b"9" * 30),
    ("A2A-Version", b"\xff"),
    ("A2A-Version", b"9" * 5000),
    ("Range", b"bytes=9-1"),
    ("X-Session-ID", b"x" * 5000),
    ("X-Stainless-Retry-Count", b"many"),
    ("Expect", b"nonsense"),
)
CHAT: dict[str, Any] = {
    "model": "desk",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "user", "content": "hi"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "metadata": {"a": "b"},
    "user": "x",
}
RESPONSE: dict[str, Any] = {
    "model": "desk",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "[1]"},
        {"role": "user", "content": "hi"},
    ],
    "tools": [{"type": "function", "name": "f", "parameters": {}}],
    "metadata": {"a": "b"},
    "temperature": 1,
}
ADK_RUN: dict[str, Any] = {
    "appName": "app",
    "userId": "ann",
    "sessionId": "s",
    "newMessage": {
        "role": "user",
        "parts": [
            {"text": "hi"},
            {"inlineData": {"data": "aGk=", "mimeType": "text/plain", "displayName": "a"}},
            {"functionResponse": {"id": "c", "name": "f", "response": {"a": 1}}},
        ],
    },
    "streaming": True,
    "stateDelta": {"a": 1},
    "invocationId": None,
    "customMetadata": {"a": 1},
}
MCP: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "ask",
        "arguments": {"message": "hi", "session": "s", "message_id": "m", "agent": "desk"},
        "_meta": {"progressToken": 1},
    },
}
AG_UI: dict[str, Any] = {
    "threadId": "g",
    "runId": "r",
    "parentRunId": "p",
    "protocolVersion": "1.0",
    "state": {"a": {"b": 1}},
    "messages": [
        {"id": "1", "role": "system", "content": "s"},
        {"id": "2", "role": "user", "content": "hi", "name": "Ann"},
        {
            "id": "3",
            "role": "assistant",
            "content": "so",
            "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"id": "4", "role": "tool", "toolCallId": "c", "content": "x", "error": "e"},
        {
            "id": "5",
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {
                    "type": "image",
                    "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"},
                    "metadata": {"filename": "f"},
                },
                {"type": "document", "source": {"type": "url", "value": "https://example.com/f"}},
            ],
        },
    ],
    "tools": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
    "context": [{"description": "d", "value": "v"}],
    "forwardedProps": {"channel": "web", "questions": "message", "more": [1]},
    "resume": [{"interruptId": "w", "status": "resolved", "payload": {"approved": True}}],
}
A2A: dict[str, Any] = {
    "message": {
        "messageId": "m",
        "contextId": "a2a",
        "taskId": "",
        "role": "ROLE_USER",
        "parts": [
            {"text": "hi", "metadata": {"a": 1}},
            {"raw": "aGk=", "mediaType": "text/plain", "filename": "a.txt"},
            {"url": "data:text/plain,hi"},
            {"data": {"a": [1, None, True]}},
        ],
        "metadata": {"channel": "web", "call_id": "c", "a": {"b": 1.5}},
        "extensions": ["https://example.com/e"],
        "referenceTaskIds": ["task_AAAA"],
    },
    "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 1, "returnImmediately": True},
    "metadata": {"a": "b"},
    "tenant": "t",
}
BODIES: dict[str, dict[str, Any]] = {
    "/a2a": {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": A2A},
    "/a2a/": {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1, "status": "TASK_STATE_WORKING"}},
    "/a2a/rest/message:send": A2A,
    "/a2a/rest/message:stream": A2A,
    "/ag-ui": AG_UI,
    "/mcp": MCP,
    "/adk/run": ADK_RUN,
    "/adk/run_sse": ADK_RUN,
    "/adk/apps/{app_name}/users/{user_id}/sessions": {
        "sessionId": "o",
        "state": {"a": 1},
        "events": [{"author": "desk", "content": {"role": "model", "parts": [{"text": "hi"}]}, "actions": {"stateDelta": {}}}],
    },
    "/adk/apps/{app_name}/users/{user_id}/sessions/{session_id}/artifacts": {
        "filename": "a.txt",
        "artifact": {"inlineData": {"data": "aGk=", "mimeType": "text/plain"}},
    },
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSE,
    "/v1/responses/compact": {name: RESPONSE[name] for name in ("model", "input")},
    "/v1/responses/input_tokens": {name: RESPONSE[name] for name in ("model", "input", "tools")},
    "/api/v1/graph-chat/chat": {"message": "hi", "session_id": "g", "context": {"previous_agents": ["a"], "more": 1}},
    "/api/v1/sessions": {"id": None, "state": {"a": 1}},
    "/api/v1/sessions/{session_id}/state": {"state": {"a": [1], "b": None}},
    "/api/v1/sessions/{session_id}/messages": {
        "content": {"parts": [{"kind": "text", "text": "a"}, {"kind": "data", "data": {"a": 1}}]},
        "id": "m",
        "context": {"attributes": {"a": 1}},
        "deadline_seconds": 5,
    },
}
"""Bodies with more in them than `whose_routes` has."""
NAMES = {
    "session_id": "s",
    "message_id": "m",
    "invocation_id": "i",
    "response_id": "resp_1",
    "user_id": "zed",
    "sequence": "1",
    "name": FILE,
    "agent_name": "desk",
    "model": "desk",
    "app_name": "app",
    "artifact_name": FILE,
    "version_id": "0",
    "event_id": "e",
    "task_id": "task_AAAA",
    "push_id": "p",
    "hold_id": "h",
    "memory_id": "nothing",
    "policy_name": "main",
    "experiment_name": "none",
    "kind": "agent",
    "version": "1",
    "path": "app.css",
}
ENDLESS = tuple(path for (_, path), asked in ROUTES.items() if asked[0].endless)
"""Paths of streams that go on until the client leaves."""
Sent = tuple[str, str, dict[str, Any]]
"""Method, path, and the rest of a request."""


def body_of(route: Route) -> Any:
    """What is right there; bytes are no JSON, and None is nothing."""
    return BODIES.get(route[1]) or ROUTES[route][0].body(made_up("ann"))


def with_odd_bodies() -> Iterator[Sent]:
    """Each value of each JSON body replaced; and bodies that are no such thing."""
    for method, path in ROUTES:
        body = body_of((method, path))
        if not isinstance(body, dict):
            continue
        whole = json.dumps(body).encode()
        for content in (*_replaced(body), b"", b"\xff", b"[1]", b"null", b'"text"', whole[:-1], whole + b"}"):
            yield method, path.format(**NAMES), {"content": content, "headers": {"Content-Type": "application/json"}}


def _replaced(body: dict[str, Any]) -> Iterator[bytes]:
    for number, place in enumerate(_places(body)):
        odd = copy.deepcopy(body)
        inside: Any = odd
        for step in place[:-1]:
            inside = inside[step]
        inside[place[-1]] = "@here"
        for value in (*ODD_JSON, *(() if number else LARGE_JSON)):
            yield json.dumps(odd).replace('"@here"', value).encode()


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inside in items:
        yield (*before, step)
        yield from _places(inside, (*before, step))


def with_odd_names(parameters: dict[Route, list[str]]) -> Iterator[Sent]:
    """Each part of a path that may be anything, and each parameter of a query."""
    for method, path in ROUTES:
        for text in ODD_TEXT:
            for name in NAMES:
                if "{" + name + "}" in path:
                    yield method, path.format(**NAMES | {name: text}), {}
            for name in parameters.get((method, path), ()):
                yield method, f"{path.format(**NAMES)}?{name}={text}&{name}=2", {}


def with_odd_headers() -> Iterator[Sent]:
    for route in ROUTES:
        body = body_of(route)
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        for name, value in ODD_HEADERS:
            packed = gzip.compress(content) if name == "Content-Encoding" else content
            headers = {"Content-Type": b"application/json", name: value}
            yield route[0], route[1].format(**NAMES), {"content": packed, "headers": headers}


def with_every_method() -> Iterator[Sent]:
    for path in {path for _, path in ROUTES}:
        for method in (*METHODS, "OPTIONS", "TRACE", "BREW"):
            yield method, path.format(**NAMES), {}


async def parameters_of(client: Served) -> dict[Route, list[str]]:
    paths = (await client.get("/openapi.json")).json()["paths"]
    return {
        (method.upper(), path): [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
        for path, operations in paths.items()
        for method, operation in operations.items()
    }


async def answered(client: Served, method: str, path: str, **options: Any) -> tuple[int, str]:
    """Status and body; without the body of a stream that has no end."""
    async with client.stream(method, path, **options) as answer:
        if path.startswith(ENDLESS) and answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            return answer.status_code, ""
        await answer.aread()
        return answer.status_code, answer.text


@pytest.mark.parametrize("kind", ["bodies", "names", "headers", "methods"])
async def test_it_is_the_senders_mistake(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "turnwise")
    async with two_users() as (client, _, ann, _):
        every = {"bodies": with_odd_bodies, "headers": with_odd_headers, "methods": with_every_method}
        sent = with_odd_names(await parameters_of(client)) if kind == "names" else every[kind]()
        wrong, count = [], 0
        for method, path, options in sent:
            headers = {**ann, **options.get("headers", {})}
            status, text = await answered(client, method, path, content=options.get("content"), headers=headers)
            count += 1
            if status >= 500 or "Traceback" in text:
                wrong.append((method, path, options, text))
        assert not wrong, wrong[:3]
        assert [record.getMessage() for record in caplog.records] == []
        assert (await client.send_message("hi", headers=ann)).status_code == 200
        assert count > 300


async def test_nothing_is_looked_at_before_the_credential() -> None:
    async with two_users() as (client, *_):
        for method, path, options in [*with_odd_bodies()][::5]:
            assert (await client.request(method, path, **options)).status_code == 401
        for method, path, options in [*with_odd_names(await parameters_of(client))][::5]:
            answer = await client.request(method, path, **options)
            # What is no text, and what is no path of ours, is so for everybody. The console's files are public.
            assert answer.status_code in (400, 401, 404, 405) or path.startswith("/console/")
            assert answer.status_code != 404 or method == "HEAD" or "There is nothing at this path." in answer.text
