"""What a flow says of itself in the log: how tasks and turns ended, and how it ended itself.

It is for programs. What an agent has to know of it, its brief tells.
"""

from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.events import Event
from turnwise.flows.tasks.progress import TaskEnd
from turnwise.flows.turns.briefs import HandoffNote

TASK, TURN_END, FLOW = "task", "turn_end", "flow"
"""The names of the data parts."""


class TurnEnd(NamedTuple):
    """That an agent ended its turn: whom it named, and its word to whoever goes on."""

    next: str | None = None
    word: HandoffNote | None = None


def task_end_content(flow: str, closing: TaskEnd) -> Content:
    """That a task came to its end."""
    return hidden_data_part(TASK, {"flow": flow, **closing.model_dump(mode="json", exclude_defaults=True)})


def task_end_of(event: Event) -> TaskEnd | None:
    """The end of a task that the event tells; None when it tells none."""
    data = data_of(event, TASK)
    if data is None:
        return None
    try:
        return TaskEnd.model_validate({key: value for key, value in data.items() if key != "flow"}, strict=False)
    except ValidationError:
        return None  # guardrails rewrote it, or somebody else said it


def redacted_task_end(event: Event, closing: TaskEnd) -> TaskEnd | None:
    """The closing with the result and the reason that guardrails left of it in the event; None when they left none."""
    data = data_of(event, TASK)
    reason = data.get("reason", "") if data is not None else None
    if data is None or not isinstance(reason, str):
        return None
    return closing.model_copy(update={"result": data.get("result"), "reason": reason})


def turn_end_content(flow: str, by: str, ended: TurnEnd) -> Content:
    """That an agent ended its turn before its tasks were done."""
    word = ended.word.content.model_dump(mode="json") if ended.word else None
    return hidden_data_part(TURN_END, {"flow": flow, "by": by, "next": ended.next, "message": word})


def turn_end_of(event: Event) -> TurnEnd | None:
    """How the event says that its turn was ended; None when it does not."""
    data = data_of(event, TURN_END)
    if data is None:
        return None
    by, named, message = data.get("by"), data.get("next"), data.get("message")
    if not isinstance(by, str) or not isinstance(named, str | None):
        return None
    try:
        return TurnEnd(named, None if message is None else HandoffNote(by, Content.model_validate(message, strict=False)))
    except ValidationError:
        return None


def flow_content(text: str, told: dict[str, JsonValue]) -> Content:
    """The flow's last word: its answer, and what became of its tasks."""
    parts = (TextPart(text=text),) if text else ()
    return Content(parts=(*parts, DataPart(name=FLOW, data=told, private=True)))


def data_of(event: Event, name: str) -> dict[str, JsonValue] | None:
    """What the event's part of that name holds; None when it has none."""
    parts = event.content.parts if event.content else ()
    for part in parts:
        if isinstance(part, DataPart) and part.name == name and isinstance(part.data, dict):
            return part.data
    return None


def hidden_data_part(name: str, data: dict[str, JsonValue]) -> Content:
    """What holds this data, and shows it to no model."""
    return Content(parts=(DataPart(name=name, data=data, private=True),))
