import dataclasses
import datetime
import decimal
import enum
import uuid
from typing import Any

import pytest
from pydantic import BaseModel

from turnwise.facts.content import text_content
from turnwise.facts.errors import ToolFailed
from turnwise.tools.function import json_value


class Colour(enum.Enum):
    RED = "red"


class Order(BaseModel):
    number: int
    due: datetime.date


@dataclasses.dataclass
class Shop:
    name: str
    orders: list[Order]


ORDER = Order(number=7, due=datetime.date(2026, 1, 2))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        ("text", "text"),
        ((1, {2}), [1, [2]]),
        ({1: True}, {"1": True}),
        (Colour.RED, "red"),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.50"), "1.50"),
        (Shop("corner", [ORDER]), {"name": "corner", "orders": [{"number": 7, "due": "2026-01-02"}]}),
        (text_content("said"), "said"),
    ],
)
def test_values_become_json(value: Any, told: Any) -> None:
    assert json_value(value, "find") == told


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("value", [b"raw", {"photos": [b"raw"]}, bytearray(b"raw"), b"\xff", float("nan"), object(), CIRCLE])
def test_what_json_has_no_form_for_is_said(value: Any) -> None:
    with pytest.raises(ToolFailed, match=r"find gave .*JSON has no form for") as failed:
        json_value(value, "find")
    assert "artifact" in failed.value.fix
