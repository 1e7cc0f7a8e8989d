"""Kinds of results in words."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from turnwise.cli.flow_output import result_type_name
from turnwise.flows.result_types import ResultType


class Note(BaseModel):
    text: str
    within: "Note | None" = None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str, "text"),
        (["good", "bad"], "one of good, bad"),
        (int, "integer"),
        (Note, "Note"),
        (list[Note], "list of Note"),
        (list[list[int]], "list of list of integer"),
        (list[str], "list of text"),
        (list[Any], "list of data"),
        (int | None, "integer or null"),
        (Literal["a", "b"], "one of a, b"),
        (dict, "object"),
        (Any, "data"),
        ({"type": "object", "title": "Bag"}, "Bag"),
        ({"type": ["string", "null"]}, "data"),
        ({"type": "array", "items": False}, "list of data"),
        ({"$ref": "#/$defs/Note", "$defs": {"Note": {}}}, "Note"),
    ],
)
def test_each_has_a_few_words(kind: Any, words: str) -> None:
    assert result_type_name(ResultType(kind, "report")) == words


def test_kinds_within_kinds_come_to_an_end() -> None:
    kind: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        kind = {"type": "array", "items": kind}
    assert result_type_name(ResultType(kind, "report")) == "list of list of list of list of data"
