"""Tools that come with a message, as guardrails look at them: a model reads them, as it does the message. Pure."""

from collections.abc import Iterator, Sequence

from pydantic import JsonValue, ValidationError

from turnwise.facts.content import Content, DataPart
from turnwise.facts.errors import MessageError
from turnwise.facts.limits import Limits
from turnwise.facts.messages import OfferedTool
from turnwise.tools.offers import check_offers

NAME = "tools"
"""The name of the data part that guardrails are shown: a list of the tools."""


def as_content(tools: Sequence[OfferedTool]) -> Content:
    """The tools as guardrails are shown them."""
    data: list[JsonValue] = [tool.model_dump(mode="json") for tool in tools]
    return Content(role="user", parts=(DataPart(name=NAME, data=data),))


def tools_left(content: Content | None) -> tuple[OfferedTool, ...]:
    """What can still be offered of them: a tool that guardrails left no name, or no schema, is left out."""
    parts = content.parts if content is not None else ()
    data = next((part.data for part in parts if isinstance(part, DataPart) and part.name == NAME), None)
    left: dict[str, OfferedTool] = {}
    for tool in _read(data) if isinstance(data, list) else ():
        left.setdefault(tool.name, tool)
    return tuple(left.values())


def _read(data: Sequence[JsonValue]) -> Iterator[OfferedTool]:
    for each in data:
        try:
            tool = OfferedTool.model_validate(each, strict=True)
            check_offers([tool], Limits(tools=1))
        except (ValidationError, MessageError):
            continue
        yield tool
