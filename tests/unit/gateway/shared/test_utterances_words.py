"""What of a log is said to the user."""

from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.events import Event
from turnwise.gateway.shared.stream import joined_text, shown_text


def event(*parts: Any, **more: Any) -> Event:
    fields: dict[str, Any] = {"author": "a", "invocation_id": "i", "created_at": datetime(2026, 1, 1, tzinfo=UTC), **more}
    return Event(id="e", content=Content(parts=parts), **fields)


def test_texts_and_data_that_stands_alone() -> None:
    data = DataPart(data={"a": [1]})
    assert shown_text(event(data, DataPart(data=2))) == '{"a":[1]}\n2'
    assert shown_text(event(TextPart(text="x"), data)) == "x"
    assert shown_text(event(DataPart(data=1, private=True))) == ""
    assert joined_text([event(TextPart(text="x")), event(), event(data, author="user"), event(data)]) == 'x\n{"a":[1]}'
