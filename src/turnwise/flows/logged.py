"""Data parts that a flow emits: the ends of tasks and turns, and its own end.

They are for programs, not for models: agents get what they need in their brief.
"""

from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.events import Event
from turnwise.flows.tasks import TaskEnd
from turnwise.flows.turns import HandoffNote

TASK, TURN_END, FLOW = "task", "turn_end", "flow"
"""Names of the data parts."""


class TurnEnd(NamedTuple):
    """The end of a turn by its agent."""

    next: str | None = None
    """The agent that it names as the next one."""
    note: HandoffNote | None = None
    """Its note for the next agent."""


def task_end_content(flow: str, task_end: TaskEnd) -> Content:
    """Returns the content that records the end of a task."""
    return hidden_data_part(TASK, {"flow": flow, **task_end.model_dump(mode="json", exclude_defaults=True)})


def task_end_of(event: Event) -> TaskEnd | None:
    """Returns the end of a task that the event records; None if there is none."""
    data = data_of(event, TASK)
    if data is None:
        return None
    try:
        return TaskEnd.model_validate({key: value for key, value in data.items() if key != "flow"}, strict=False)
    except ValidationError:
        return None  # guardrails rewrote it, or another author emitted it


def redacted_task_end(event: Event, task_end: TaskEnd) -> TaskEnd | None:
    """Returns the end with the result and the reason as guardrails rewrote them in the event; None if they removed them."""
    data = data_of(event, TASK)
    reason = data.get("reason", "") if data is not None else None
    if data is None or not isinstance(reason, str):
        return None
    return task_end.replace(result=data.get("result"), reason=reason)


def turn_end_content(flow: str, by: str, ended: TurnEnd) -> Content:
    """Returns the content that records that an agent ended its turn before its tasks were done."""
    note = ended.note.content.model_dump(mode="json") if ended.note else None
    return hidden_data_part(TURN_END, {"flow": flow, "by": by, "next": ended.next, "message": note})


def turn_end_of(event: Event) -> TurnEnd | None:
    """Returns the end of a turn that the event records; None if there is none."""
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


def flow_content(text: str, data: dict[str, JsonValue]) -> Content:
    """Returns the flow's final content: its answer, and data on its tasks."""
    parts = (TextPart(text=text),) if text else ()
    return Content(parts=(*parts, DataPart(name=FLOW, data=data, private=True)))


def data_of(event: Event, name: str) -> dict[str, JsonValue] | None:
    """Returns the data of the event's part with that name; None if there is none."""
    parts = event.content.parts if event.content else ()
    for part in parts:
        if isinstance(part, DataPart) and part.name == name and isinstance(part.data, dict):
            return part.data
    return None


def hidden_data_part(name: str, data: dict[str, JsonValue]) -> Content:
    """Returns a content with this data that no model sees."""
    return Content(parts=(DataPart(name=name, data=data, private=True),))
