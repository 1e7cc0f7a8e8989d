"""What an LLM agent was made of."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.agents.llm.output import OutputTool
from turnwise.ports.context import AgentContext
from turnwise.ports.model import Model
from turnwise.ports.tool import Tool, Toolset
from turnwise.transcript.view import Budget

Instructions = str | Callable[[AgentContext], str] | Callable[[AgentContext], Awaitable[str]]


class Design(NamedTuple):
    """See `LlmAgent`. output: the tool by which the model gives its answer; None when that is text."""

    model: Model
    instructions: Instructions
    tools: Sequence[Tool]
    toolsets: Sequence[Toolset]
    output: OutputTool | None
    output_key: str | None
    output_retries: int
    settings: Mapping[str, JsonValue]
    max_steps: int | None
    history: Budget
    summary_model: Model | None
    names_next: bool
    result_characters: int
