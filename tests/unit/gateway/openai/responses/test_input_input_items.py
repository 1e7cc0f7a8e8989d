"""What a message held, as items, page by page."""

from typing import Any

import pytest

from turnwise.facts.content import BlobPart, Content, DataPart, TextPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.openai.responses.input import Window, items_of, page_of, read_input
from turnwise.gateway.openai.responses.response import ResponseId

NAME = ResponseId("s", "m")
PARTS = (
    DataPart(name="instructions", data="Briefly."),
    ToolResultPart(call_id="k1", result={"rain": True}),
    ToolResultPart(call_id="k2", result="sun"),
    TextPart(text="so?"),
    BlobPart(data=b"hi", mime_type="image/png"),
    BlobPart(data=b"ho", mime_type="text/plain", name="a.txt"),
)


def test_results_then_what_was_said() -> None:
    first, second, message = items_of(NAME, Content(parts=PARTS))
    assert (first["type"], first["call_id"], first["output"]) == ("function_call_output", NAME.call("k1"), '{"rain":true}')
    assert second["output"] == "sun"
    assert [part["type"] for part in message["content"]] == ["input_text", "input_image", "input_file"]
    assert message["content"][2]["filename"] == "a.txt"
    assert len({first["id"], second["id"], message["id"]}) == 3


def test_they_can_be_sent_again() -> None:
    assert read_input(items_of(NAME, Content(parts=PARTS)), "Briefly.").content.parts == PARTS


ITEMS: list[dict[str, Any]] = [{"id": each} for each in "abcde"]


@pytest.mark.parametrize(
    ("window", "ids", "more"),
    [
        (Window(), "edcba", False),
        (Window(order="asc"), "abcde", False),
        (Window(limit=2), "ed", True),
        (Window("d", 2), "cb", True),
        (Window("d", 3), "cba", False),
        (Window("b", 2, "asc"), "cd", True),
        (Window("a"), "", False),
    ],
)
def test_pages(window: Window, ids: str, *, more: bool) -> None:
    page = page_of(ITEMS, window)
    assert ("".join(item["id"] for item in page.data), page.has_more) == (ids, more)
    assert (page.first_id, page.last_id) == ((ids[0], ids[-1]) if ids else (None, None))


def test_a_page_begins_behind_what_is_there() -> None:
    with pytest.raises(RequestInvalid) as refused:
        page_of(ITEMS, Window("x"))
    assert refused.value.where == ("query", "after")
