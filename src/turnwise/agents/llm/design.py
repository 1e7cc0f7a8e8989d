"""The settings of an LLM agent."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from turnwise.agents.llm.memory import MemoryUse
from turnwise.facts.errors import AgentDefinitionError, ToolFailed
from turnwise.ports.context import AgentContext
from turnwise.ports.model import Model
from turnwise.ports.tool import Tool, ToolCall, ToolRules, Toolset, ToolSpec
from turnwise.tools import names
from turnwise.transcript.view import Budget

NAME = names.OUTPUT
MORE_TOKENS = "Raise max_tokens in the agent's settings, or ask for less in one answer."
"""The fix for an answer that hit the model's token limit."""
PROBLEMS_SHOWN = 10
_WRAPPED = "result"


class OutputTool:
    """Validates the answer as any type that pydantic knows; `run` returns the answer as JSON.

    If the type's schema is not an object, the value is the argument `result`.

    Raises:
        AgentDefinitionError: The type has no JSON schema.
    """

    def __init__(self, output_type: Any, agent: str) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(output_type)
            schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            problem = str(error).partition("\n")[0].rstrip(".")
            raise AgentDefinitionError(
                f"Agent {agent!r}: output_type {output_type!r} has no JSON schema: {problem}.",
                fix="Use a pydantic model, a dataclass, a TypedDict, or a type made of plain ones.",
            ) from None
        self._is_wrapped = schema.get("type") != "object"
        self.spec = ToolSpec(
            name=NAME,
            description="Gives your answer. Call it once, when you know the answer; it ends your turn.",
            parameters=_wrapped(schema) if self._is_wrapped else schema,
        )
        self.rules = ToolRules(recorded=False, last=True, private=True)

    async def run(self, call: ToolCall) -> JsonValue:
        """Returns the validated answer. Raises ToolFailed, which states the problems, if it does not fit the type."""
        arguments: Any = dict(call.arguments)
        if self._is_wrapped:
            if arguments.keys() != {_WRAPPED}:
                raise ToolFailed(f"The answer does not fit: it has to be {_WRAPPED!r}, and nothing besides.")
            arguments = arguments[_WRAPPED]
        try:
            value = self._adapter.validate_json(json.dumps(arguments))
        except ValidationError as error:
            raise ToolFailed(
                f"The answer does not fit: {_problems_text(error)}.", fix="Call it again with what fits."
            ) from None
        answer: JsonValue = self._adapter.dump_python(value, mode="json")
        return answer


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    properties = {_WRAPPED: schema}
    return {"type": "object", "properties": properties, "required": [_WRAPPED], "additionalProperties": False} | definitions


def _problems_text(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False)
    lines = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in problems[:PROBLEMS_SHOWN]]
    more = f" ({len(problems) - PROBLEMS_SHOWN} more)" if len(problems) > PROBLEMS_SHOWN else ""
    return "; ".join(lines) + more


Instructions = str | Callable[[AgentContext], str] | Callable[[AgentContext], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Design:
    """The settings of an LLM agent; see `LlmAgent`."""

    model: Model
    instructions: Instructions
    turn_instructions: Instructions
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
    memory: MemoryUse


def design_for_turn(design: Design, context: AgentContext) -> Design:
    """Returns the design for this turn.

    An agent that a flow gave tools reports its result with those tools. It then has no output tool and names no next
    speaker. All other agents keep both, including the parts of a composite and agents that answer through another agent.
    """
    if context.assignment is None or not context.assignment.tools:
        return design
    return replace(design, output=None, names_next=False)
