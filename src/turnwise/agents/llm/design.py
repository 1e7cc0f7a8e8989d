"""The settings of an LLM agent."""

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
    """The settings of an LLM agent; see `LlmAgent`."""

    model: Model
    instructions: Instructions
    tools: Sequence[Tool]
    toolsets: Sequence[Toolset]
    output: OutputTool | None
    """The tool by which the model gives its answer; None if the answer is text."""
    output_key: str | None
    output_retries: int
    settings: Mapping[str, JsonValue]
    max_steps: int | None
    history: Budget
    summary_model: Model | None
    names_next: bool
    callers_tools: bool
    result_characters: int


def design_for_turn(design: Design, context: AgentContext) -> Design:
    """Returns the design for this turn.

    An agent that a flow gave tools reports its result with those tools. It then has no output tool and names no next
    speaker. All other agents keep both, including agents whose answer is relayed unchanged and the parts of a
    composite.
    """
    if context.assignment is None or not context.assignment.tools:
        return design
    return design._replace(output=None, names_next=False)
