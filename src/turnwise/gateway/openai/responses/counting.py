"""How many tokens a request would be: the estimate by which agents choose what of the log they read."""

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, JsonValue

from turnwise.facts.events import Event
from turnwise.gateway.openai.responses.body import Placed, Tool
from turnwise.gateway.openai.responses.input import Said
from turnwise.transcript.sizes import as_text, tokens_of, tokens_of_parts


class Count(Placed):
    """The body of `POST /v1/responses/input_tokens`."""

    tools: list[Tool] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    personality: str | None = None
    reasoning: dict[str, JsonValue] | None = None
    text: dict[str, JsonValue] | None = None
    truncation: Literal["auto", "disabled"] | None = None


class InputTokens(BaseModel):
    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


def counted(body: Count, told: Said, history: Iterable[Event]) -> InputTokens:
    """The estimate for what is said, the tools, and what was said before."""
    said = tokens_of_parts(told.content.parts)
    before = sum(tokens_of_parts(event.content.parts) for event in history if event.content)
    repeated = sum(tokens_of_parts(turn.sent.parts) + tokens_of(turn.text) for turn in told.past)
    tools = sum(tokens_of(as_text(tool.model_dump(mode="json", exclude_none=True))) for tool in body.tools or ())
    return InputTokens(input_tokens=said + before + repeated + tools)
