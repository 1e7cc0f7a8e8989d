"""Models over real HTTP: services in each format, agents' models at them, and what was sent, in one form that people read."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from textwrap import indent
from typing import Any, NamedTuple

from llm_servers import Answer, FakeAnthropic, FakeOpenAI, FakeResponses
from llm_servers.answers import Body, Said, Sayable

from turnwise.models.by_name import ModelEndpoint, RetryingModel
from turnwise.models.provider import ProviderModel

KEY = "test-key-0123456789"
Service = FakeOpenAI | FakeAnthropic | FakeResponses
SERVICES: dict[str, type[Service]] = {"openai": FakeOpenAI, "anthropic": FakeAnthropic, "responses": FakeResponses}


class Line(NamedTuple):
    """What a model reads: role is `system`, `user`, `assistant` or `tool`. Calls and thoughts are marked in the text."""

    role: str
    text: str


class Wire:
    """A service and who asks it: all agents of a test, each by its model's name. `environment` is how they find it."""

    def __init__(self, kind: str, service: Service) -> None:
        self.kind, self.service = kind, service
        vendor = "ANTHROPIC" if kind == "anthropic" else "OPENAI"
        self.environment = {f"{vendor}_API_KEY": KEY, f"{vendor}_BASE_URL": service.url}

    def model(self, name: str | None = None) -> str | ModelEndpoint:
        """That model as a program names it; None = one that the service is likely to have."""
        name = name or ("gpt-5" if self.kind == "responses" else "small")
        if self.kind == "openai":
            return ModelEndpoint(name, self.service.url, KEY)
        return f"{'anthropic' if self.kind == 'anthropic' else 'openai-responses'}:{name}"

    def patient(self, sleep: Callable[[float], Awaitable[object]], name: str | None = None) -> RetryingModel:
        """The same, which waits by that function before it asks again."""
        spec = self.model(name)
        if isinstance(spec, ModelEndpoint):
            return RetryingModel(ProviderModel(spec.model, url=spec.url, key=spec.key), sleep=sleep)
        return RetryingModel(ProviderModel(spec), sleep=sleep)

    def say(self, *said: Sayable) -> None:
        """What the service says next, whoever asks."""
        self.service.say(*said)

    def cast(self, **parts: Sequence[Sayable]) -> None:
        """What each model says, in order, by the model's name; they may be asked in any order."""
        left = {name: deque(said) for name, said in parts.items()}

        def next_of(body: Body) -> Said:
            said = left[body["model"]].popleft()
            return said(body) if callable(said) else said

        self.service.say(*[next_of] * sum(map(len, left.values())))

    def bodies(self, model: str | None = None) -> list[Body]:
        """The requests that were taken, of that model or of all."""
        return [asked.body for asked in self.service.requests if model in (None, asked.body["model"])]

    def sent(self, model: str | None = None) -> list[list[Line]]:
        """What was read in each of these."""
        return [read(body) for body in self.bodies(model)]

    def offered(self, model: str | None = None) -> list[list[str]]:
        """The tools in each of these."""
        return [[(tool.get("function") or tool)["name"] for tool in body.get("tools", [])] for body in self.bodies(model)]

    async def was_asked(self) -> None:
        """Returns when one more request came."""
        assert await asyncio.to_thread(self.service.asked.acquire, timeout=30)


def results(lines: Iterable[Line]) -> list[str]:
    """The results of tools among these lines."""
    return [line.text for line in lines if line.role == "tool"]


def dump(lines: Iterable[Line]) -> str:
    """The lines as a text: the role, then what was said, indented where it goes on."""
    return "\n".join(f"[{line.role}] {indent(line.text, '    ').strip()}" for line in lines) + "\n"


def read(body: Body) -> list[Line]:
    """What the model reads of a request, the same whatever the format."""
    if "input" in body:
        return list(_of_responses(body))
    return list(_of_anthropic(body) if isinstance(body.get("max_tokens"), int) else _of_openai(body))


def _of_openai(body: Body) -> Iterator[Line]:
    tools: dict[str, str] = {}
    for message in body["messages"]:
        if message["role"] == "tool":
            yield _result(tools[message["tool_call_id"]], message["content"])
            continue
        if message.get("reasoning_content"):
            yield Line("assistant", f"(thinks) {message['reasoning_content']}")
        yield from (Line(message["role"], text) for text in _texts(message.get("content")))
        for call in message.get("tool_calls") or ():
            tools[call["id"]] = call["function"]["name"]
            yield _call(call["function"]["name"], call["function"]["arguments"])


def _of_anthropic(body: Body) -> Iterator[Line]:
    tools: dict[str, str] = {}
    yield from (Line("system", text) for text in _texts(body.get("system")))
    for message in body["messages"]:
        for block in message["content"]:
            match block["type"]:
                case "text":
                    yield Line(message["role"], block["text"])
                case "thinking":
                    yield Line("assistant", f"(thinks) {block['thinking']}")
                case "tool_use":
                    tools[block["id"]] = block["name"]
                    yield _call(block["name"], json.dumps(block["input"]))
                case "tool_result":
                    [text] = _texts(block["content"])
                    yield _result(tools[block["tool_use_id"]], text, failed=block.get("is_error", False))


def _of_responses(body: Body) -> Iterator[Line]:
    tools: dict[str, str] = {}
    yield from (Line("system", text) for text in _texts(body.get("instructions")))
    for item in body["input"]:
        match item.get("type", "message"):
            case "message":
                yield from (Line(item["role"], text) for text in _texts(item["content"]))
            case "reasoning":
                yield from (Line("assistant", f"(thinks) {each['text']}") for each in item["summary"])
            case "function_call":
                tools[item["call_id"]] = item["name"]
                yield _call(item["name"], item["arguments"])
            case "function_call_output":
                yield _result(tools[item["call_id"]], item["output"])


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or ()]


def _call(tool: str, arguments: str) -> Line:
    return Line("assistant", f"(calls) {tool} {json.dumps(json.loads(arguments))}")


def _result(tool: str, text: str, *, failed: bool = False) -> Line:
    return Line("tool", f"{tool}: {'failed: ' if failed else ''}{text}")


def calls(*calls: tuple[str, Any], text: str = "", **options: Any) -> Answer:
    """An answer with these calls of tools."""
    return Answer(text, calls=calls, **options)


def to(agent: str, text: str = "", **arguments: Any) -> Answer:
    """An answer that hands over."""
    return calls(("transfer_to_agent", {"agent": agent, **arguments}), text=text)
