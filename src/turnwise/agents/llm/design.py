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
    callers_tools: bool
    result_characters: int


def design_for_turn(design: Design, context: AgentContext) -> Design:
    """The design in this turn. To whom a flow gives it, the flow says what is to be given and who goes on: there is no answer
    of a type of its own, and no colleague to name. Whose answer is to be what it always is keeps both, as do the parts of a
    composite, which works for the flow as a whole.
    """
    if context.assignment is None or not context.assignment.tools:
        return design
    return design._replace(output=None, names_next=False)
