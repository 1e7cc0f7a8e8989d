import dataclasses
import datetime
import decimal
import enum
import threading
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from turnwise.agents.llm.tool_calls import call_tool
from turnwise.facts.content import text_content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.limits import RunConfig
from turnwise.ports.tool import ToolCall, ToolRules, ToolSpec
from turnwise.tools.function import FunctionTool, json_value


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


@pytest.mark.parametrize("value", [["ab"] * 600_000, {"text": "x" * 2_100_000}, {str(i): i for i in range(400_000)}])
def test_a_result_that_is_too_large_to_convert_is_a_failure(value: Any) -> None:
    """J1: it would hold the event loop."""
    with pytest.raises(ToolFailed, match=r"find gave a (list|dict) of more than 2,097,152 bytes.*as an artifact"):
        json_value(value, "find")


async def test_a_long_result_is_converted_while_others_run() -> None:
    """J1: in a thread; a text needs no conversion."""
    threads: list[int] = []

    class Long(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.get_ident())
            return super().__iter__()

    async def find() -> Any:
        return Long(["ab"] * 50_000)

    assert len(await FunctionTool(find).run(ToolCall("1", {}, cast(Any, None)))) == 50_000  # type: ignore[arg-type]
    assert set(threads) - {threading.get_ident()}
    text = "x" * 5_000_000
    assert json_value(text, "find") is text


@pytest.mark.parametrize("texts", [100, 3_000], ids=["fits", "too large"])
@pytest.mark.parametrize("way", ["sync", "async", "awaitable", "other tool"])
async def test_a_long_result_is_freed_in_a_thread(way: str, texts: int) -> None:
    """J1: millions of objects take long to free, also when they are refused."""
    freed: list[int] = []

    class Freed(list[Any]):
        def __del__(self) -> None:
            freed.append(threading.get_ident())

    def find() -> Any:
        return Freed(["x" * 1_000] * texts)

    async def find_later() -> Any:
        return find()

    def find_awaitable() -> Any:
        return find_later()

    class Other:
        """A tool that gives its result unchecked."""

        spec, rules = ToolSpec(name="find", parameters={}), ToolRules()

        async def run(self, call: ToolCall) -> Any:
            return find()

    functions: dict[str, Any] = {"sync": find, "async": find_later, "awaitable": find_awaitable}
    tool = FunctionTool(functions[way], name="find") if way in functions else Other()
    context: Any = SimpleNamespace(config=RunConfig())
    outcome = await call_tool(tool, ToolCall("1", {}, context), characters=1_000)
    assert outcome.failed == (texts == 3_000)
    assert ("more than 2,097,152 bytes" if outcome.failed else "cut: this is the beginning of") in str(outcome.result)
    assert len(freed) == 1
    assert freed[0] != threading.get_ident()
