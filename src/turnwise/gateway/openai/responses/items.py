"""What the caller is shown of an answer, item by item: what was said to the user, and calls whose results are awaited."""

from collections.abc import Iterable

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Event
from turnwise.gateway.openai.responses.names import Name
from turnwise.gateway.openai.responses.shape import CallItem, Item, MessageItem, OutputText
from turnwise.gateway.shown import View
from turnwise.gateway.speech.calls import Made, arguments_of, made_in
from turnwise.gateway.speech.words import words_of


class Items:
    """The items of one answer, in the order of the log. Of the calls, those whose results are the reader's to give; pending:
    whether there are some that an agent's own tool works on.
    """

    def __init__(self, name: Name, view: View) -> None:
        self._name, self._view = name, view
        self._calls: dict[str, Made] = {}
        self._asked: set[str] = set()
        self.pending = False

    def know(self, calls: Iterable[Made]) -> None:
        """These calls were made before, and may still be waited for."""
        self._calls |= {made.call.call_id: made for made in calls}

    def of(self, event: Event) -> list[Item]:
        """The items that stored event brings."""
        if event.author == USER:
            return []
        items: list[Item] = []
        if text := words_of(event):
            content = [OutputText(text=text)]
            items.append(MessageItem(id=self._name.item(event), content=content, agent=event.author))
        self.know(made_in([event]))
        awaits = event.actions.awaits
        if awaits is not None and awaits.kind == "tool_result" and awaits.id not in self._asked:
            self._asked.add(awaits.id)
            if (made := self._calls.get(awaits.id)) is not None:
                self.pending |= made.kind == "late"
                if self._view.answers(made.kind):
                    items.append(self._call(made.call, event.author))
        return items

    def _call(self, call: ToolCallPart, agent: str) -> CallItem:
        id_, written = call.call_id, arguments_of(call)
        return CallItem(
            id=self._name.function(id_), call_id=self._name.call(id_), name=call.tool, arguments=written, agent=agent
        )
