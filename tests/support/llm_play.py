"""How the tests of LLM agents look at what was said."""

from collections.abc import Iterable, Sequence
from typing import Any

from runner_play import key

from turnwise import Content, Event, Runner
from turnwise.facts.content import ToolCallPart, ToolResultPart
from turnwise.ports.model import ModelRequest
from turnwise.runner import Result
from turnwise.tools.function import FunctionTool, tool


def noted(done: list[str], name: str, result: str, **rules: Any) -> FunctionTool[[], Any]:
    """A tool that notes its name in `done` whenever it is called; `rules` are those of `tool`."""

    async def note() -> str:
        done.append(name)
        return result

    return tool(name=name, **rules)(note)


def calls_of(events: Iterable[Event]) -> list[ToolCallPart]:
    """All tool calls, in order."""
    return [call for event in events if event.content for call in event.content.tool_calls]


def results_of(events: Iterable[Event], *, user: bool = False) -> list[ToolResultPart]:
    """All tool results that agents recorded, in order; with `user`, those that came as messages."""
    return [r for e in events if e.content and (e.author == "user") is user for r in e.content.tool_results]


def told(result: Result) -> list[Any]:
    """What the model was told of its calls, in order."""
    return [part.result for part in results_of(result.events)]


def heard(request: ModelRequest) -> list[tuple[str, str]]:
    """Roles and texts of the messages of a request."""
    return [(message.role, message.text) for message in request.messages]


def last_results(request: ModelRequest) -> Sequence[ToolResultPart]:
    """The results that a request ends with."""
    return request.messages[-1].tool_results


def answering(call_id: str, result: Any, *, failed: bool = False) -> Content:
    """A message with the result of a call."""
    return Content(parts=(ToolResultPart(call_id=call_id, result=result, failed=failed),))


def waiting_call(result: Result, tool: str = "confirm") -> str:
    """The id of the last call of that tool."""
    return next(call.call_id for call in reversed(calls_of(result.events)) if call.tool == tool)


async def on_record(runner: Runner, step: str) -> None:
    """Returns when that step of the last run is on record, whichever process does it."""
    with runner.store.signals.watch(key()) as watch:
        while not any(r.key.endswith(f":{step}") for e in await runner.store.events(key()) for r in e.actions.steps):
            await watch.next(0.05)
