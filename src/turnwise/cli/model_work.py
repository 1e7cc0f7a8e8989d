"""What an agent that thinks with a model did, in lines: what it called, and what failed."""

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue
from rich.text import Text

from turnwise.cli import rendering
from turnwise.cli.clean import one_line
from turnwise.facts.content import ToolCallPart, ToolResultPart
from turnwise.facts.events import Event

VALUE_CHARACTERS, ARGUMENTS_CHARACTERS, RESULT_CHARACTERS = 40, 100, 200


class CallLines:
    """The calls of tools in the events of one message, a quiet line each, and why some failed.

    What is private to an agent, such as a hand-over, is told by what comes of it.
    """

    def __init__(self) -> None:
        self._private: set[str] = set()

    def of(self, event: Event) -> Iterator[Text]:
        """The lines of one event, which comes after those it belongs to."""
        for part in event.content.parts if event.content else ():
            if isinstance(part, ToolCallPart):
                if part.private:
                    self._private.add(part.call_id)
                else:
                    yield rendering.styled(f"  · {call(part)}", "dim")
            elif isinstance(part, ToolResultPart) and part.failed and part.call_id not in self._private:
                yield rendering.styled(f"  · {failure(part)}", "yellow")


def call(part: ToolCallPart) -> str:
    """`status(order="A-1")`: long values are cut; what the model wrote that is no JSON object is shown as it wrote it."""
    given = part.raw if part.raw is not None and not part.arguments else _arguments(part.arguments)
    return f"{one_line(part.tool)}({one_line(given, ARGUMENTS_CHARACTERS)})"


def failure(part: ToolResultPart) -> str:
    """That a call failed, and why."""
    why = part.result if isinstance(part.result, str) else json.dumps(part.result, ensure_ascii=False)
    return f"{one_line(part.tool or part.call_id)} failed: {one_line(why, RESULT_CHARACTERS)}"


def _arguments(arguments: Mapping[str, JsonValue]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())


def _shown(value: JsonValue) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS)
