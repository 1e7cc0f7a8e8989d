"""A gateway, and what ADK's own clients send it: `requests` and `httpx` with bodies in camelCase."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
from gateway_play import Served, served
from google.genai import types

from turnwise import Runner, SqlSessionStore
from turnwise.facts.gateway import GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore

USER = "ada"


class Adk(NamedTuple):
    """The REST interface, for one user. headers: with every request."""

    gateway: Served
    runner: Runner
    headers: dict[str, str] = {}

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request below /adk."""
        return await self.gateway.request(method, f"/adk{path}", headers=self.headers, **options)

    async def on_session(self, method: str, path: str = "", session: str = "s", **options: Any) -> httpx.Response:
        """A request about a session."""
        return await self.ask(method, f"/apps/app/users/{USER}/sessions/{session}{path}", **options)

    async def begin(self, session: str = "s", **state: Any) -> dict[str, Any]:
        """A new session."""
        made: dict[str, Any] = read(await self.on_session("POST", session=session, json=state or None))
        return made

    async def session(self, session: str = "s") -> dict[str, Any]:
        found: dict[str, Any] = read(await self.on_session("GET", session=session))
        return found

    async def run(self, *parts: Any, session: str = "s", **more: Any) -> list[dict[str, Any]]:
        """What is answered, whole. Each part is a text, or a part of ADK's. None at all: no message."""
        found: list[dict[str, Any]] = read(await self.ask("POST", "/run", json=message(*parts, session=session, **more)))
        for event in found:
            check(event)
        return found

    async def stream(self, *parts: Any, session: str = "s", **more: Any) -> list[dict[str, Any]]:
        """The same as a stream."""
        body = message(*parts, session=session, **{"streaming": True, **more})
        answer = await self.ask("POST", "/run_sse", json=body)
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
        return events_in(answer.text)


@asynccontextmanager
async def adk(root: Any, gateway: GatewayConfig | None = None, **options: Any) -> AsyncIterator[Adk]:
    """A gateway in front of that agent, and a session `s`. Options are the runner's."""
    usual = {"store": SqlSessionStore("sqlite://"), "artifacts": InMemoryArtifactStore()}
    runner = Runner(root, **{**usual, **options})
    try:
        async with served(runner, gateway) as client:
            yield Adk(client, runner)
    finally:
        await runner.close()


def message(*parts: Any, session: str = "s", **more: Any) -> dict[str, Any]:
    """The body of a run, as ADK's clients make it of their own types."""
    body: dict[str, Any] = {"appName": "app", "userId": USER, "sessionId": session, **more}
    if parts:
        said = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
        content = types.Content(role="user", parts=said)
        body["newMessage"] = content.model_dump(mode="json", by_alias=True, exclude_none=True)
    return body


def given(call: str, response: dict[str, Any], name: str = "") -> types.Part:
    """What a call gave."""
    return types.Part(function_response=types.FunctionResponse(id=call, name=name or None, response=response))


def read(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def events_in(stream: str) -> list[dict[str, Any]]:
    """The events of a stream, read as ADK's client does: line by line."""
    found = [json.loads(line[5:]) for line in stream.splitlines() if line.startswith("data:")]
    for event in found:
        if "error" not in event:
            check(event)
    return found


def check(event: dict[str, Any]) -> None:
    """Whether ADK's types take it: they refuse fields that they do not know."""
    assert {"id", "author", "invocationId", "timestamp", "actions"} <= event.keys()
    if "content" in event:
        types.Content.model_validate(event["content"])
    if "usageMetadata" in event:
        types.GenerateContentResponseUsageMetadata.model_validate(event["usageMetadata"])
    assert None not in event.values()


def text_of(*events: dict[str, Any]) -> str:
    """What these events say, joined."""
    return "".join(part.get("text", "") for event in events for part in event.get("content", {}).get("parts", ()))


def calls_in(*events: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The calls in these events that wait for the client, by their name."""
    return {
        part["functionCall"]["name"]: part["functionCall"]
        for event in events
        for part in event.get("content", {}).get("parts", ())
        if part.get("functionCall", {}).get("id") in event.get("longRunningToolIds", ())
    }
