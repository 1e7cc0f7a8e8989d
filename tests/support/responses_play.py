"""How the tests of OpenAI's Responses API talk to it: with the client as it is. Responses are checked against Open Responses.

Clients are `Any`: theirs are unions of some sixty types of events and thirty of items, of which a test knows which one comes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from gateway_play import Served, served
from open_responses_play import check_event, check_object
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI
from pydantic import JsonValue

from turnwise import LlmAgent, Runner, agent
from turnwise.facts.content import ToolCallPart
from turnwise.facts.gateway import GatewayConfig
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import FunctionModel

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}


@agent
async def parrot(message: str, context: Any) -> None:
    """Says it again, word by word."""
    async with context.stream() as answer:
        await answer.write("You said")
        for word in message.split():
            await answer.write(f" {word}")
        await answer.write(".")


def remembering() -> LlmAgent:
    """An agent that says how many messages it was told, and what users said in them."""

    def told(request: ModelRequest) -> str:
        return " | ".join(message.text for message in request.messages if message.role == "user")

    return LlmAgent("memory", model=FunctionModel(told))


def caller_of_tools() -> LlmAgent:
    """An agent that calls the first tool that it is offered, and otherwise says what it was told."""

    def answers(request: ModelRequest) -> Any:
        asked = request.messages[-1]
        if request.tools and asked.role == "user" and not any(part.kind == "tool_result" for part in asked.parts):
            needed = request.tools[0].parameters.get("required") or ["city"]
            assert isinstance(needed, list)  # of texts: what does not fit the schema would never reach the caller
            arguments: dict[str, JsonValue] = {str(name): "Oslo" for name in needed}
            return ToolCallPart(call_id="c1", tool=request.tools[0].name, arguments=arguments)
        return f"Heard: {asked.text}"

    return LlmAgent("caller", model=FunctionModel(answers))


@asynccontextmanager
async def opened(runner: Runner, config: GatewayConfig | None = None, **options: Any) -> AsyncIterator[tuple[Any, Served]]:
    """A client of a gateway that is served, and what it is served by."""
    async with served(runner, config) as gateway, client_of(gateway, **options) as client:
        yield client, gateway


def client_of(gateway: Served, key: str = "none", **options: Any) -> Any:
    """The asynchronous client; it tries once."""
    checking = DefaultAsyncHttpxClient(event_hooks={"response": [_check]})
    return AsyncOpenAI(**_options(gateway, key, {"http_client": checking, **options}))


def sync_client_of(gateway: Served, key: str = "none", **options: Any) -> Any:
    """The other one, for a thread of its own."""
    return OpenAI(**_options(gateway, key, options))


async def _check(response: httpx.Response) -> None:
    if "/responses" in response.url.path and response.headers.get("content-type") == "application/json":
        await response.aread()
        if response.is_success:
            check_object(response.json())


def _options(gateway: Served, key: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"api_key": key, "base_url": f"{gateway.address}/v1", "max_retries": 0, "timeout": 30.0, **options}


def bearer(headers: dict[str, str]) -> str:
    """The key in the headers that bring it."""
    return headers["Authorization"].removeprefix("Bearer ")


def calls_in(response: Any) -> list[Any]:
    """The items that await a result."""
    return [item for item in response.output if item.type == "function_call"]


def output(call: Any, result: str) -> Any:
    """The item that brings a call's result."""
    return {"type": "function_call_output", "call_id": call.call_id, "output": result}


def texts_of(response: Any) -> list[str]:
    """What its message items say."""
    return [item.content[0].text for item in response.output if item.type == "message"]


async def read(stream: Any) -> list[Any]:
    """All events of a stream."""
    events = [event async for event in stream]
    for event in events:
        check_event(event.to_dict())
    return events


def told(event: Any) -> dict[str, Any]:
    """An event as it was on the wire."""
    wire: dict[str, Any] = event.to_dict()
    return wire
