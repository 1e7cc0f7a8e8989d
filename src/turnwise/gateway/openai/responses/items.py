"""What the caller is shown of an answer, item by item: what was said to the user, and calls whose results are awaited."""

from collections.abc import Iterable

from pydantic_core import to_json

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Event
from turnwise.gateway.openai.responses.names import Name
from turnwise.gateway.openai.responses.shape import CallItem, Item, MessageItem, OutputText
from turnwise.gateway.words import words_of


class Items:
    """The items of one answer, in the order of the log."""

    def __init__(self, name: Name) -> None:
        self._name = name
        self._calls: dict[str, ToolCallPart] = {}
        self._asked: set[str] = set()

    def know(self, calls: Iterable[ToolCallPart]) -> None:
        """These calls were made before, and may still be waited for."""
        self._calls |= {call.call_id: call for call in calls}

    def of(self, event: Event) -> list[Item]:
        """The items that stored event brings."""
        if event.author == USER:
            return []
        items: list[Item] = []
        if text := words_of(event):
            content = [OutputText(text=text)]
            items.append(MessageItem(id=self._name.item(event), content=content, agent=event.author))
        self.know(event.content.tool_calls if event.content else ())
        awaits = event.actions.awaits
        if awaits is not None and awaits.kind == "tool_result" and awaits.id not in self._asked:
            self._asked.add(awaits.id)
            if (call := self._calls.get(awaits.id)) is not None:
                items.append(self._call(call, event.author))
        return items

    def _call(self, call: ToolCallPart, agent: str) -> CallItem:
        id_, arguments = call.call_id, to_json(call.arguments).decode() if call.raw is None else call.raw
        return CallItem(
            id=self._name.function(id_), call_id=self._name.call(id_), name=call.tool, arguments=arguments, agent=agent
        )


def calls_in(events: Iterable[Event]) -> list[ToolCallPart]:
    """The calls that agents made in these events."""
    return [call for event in events if event.content and event.author != USER for call in event.content.tool_calls]
