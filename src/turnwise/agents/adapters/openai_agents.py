"""Adapter for agents of the OpenAI Agents SDK."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_jsonable_python

from turnwise.agents.adapters.adapter import (
    HISTORY,
    PieceWriter,
    ResumedRun,
    Targets,
    TurnAnswer,
    card_of,
    error_text,
    joined,
    model_error,
    not_an_agent,
    read_conversation,
    require_library,
    resolved,
    take_turn,
    text_parts,
    too_many_steps,
    usable_parts,
)
from turnwise.agents.approval import answer_of, question_text
from turnwise.agents.members import members_of
from turnwise.facts.content import BlobPart, Content, DataPart, Part, ToolResultPart
from turnwise.facts.errors import AgentFailed, ModelAnswerInvalid, ModelRefused, ModelUnavailable, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.usage import Usage
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.tools.names import TRANSFER
from turnwise.transcript.view import Budget

MAX_TURNS = 10


class OpenAiAgent:
    """An agent of the OpenAI Agents SDK, including its model, tools, handoffs and guardrails.

    The agent gets the conversation, without its tool calls of earlier turns. An output that is not text becomes a
    DataPart named `output`. Tools that need approval lead to one question: a plain yes approves all of them. Any other
    reply rejects them and goes to the model as the reason.

    Args:
        agent: The SDK's agent.
        name: By default the agent's name.
        description: By default the agent's `handoff_description`.
        run_context: The value of `context.context` in its tools, or a function of the AgentContext, sync or async, that
            returns it.
        max_turns: The most model calls in one run.
        run_config: The SDK's RunConfig.
        tracing: Lets the SDK send traces to OpenAI.
        hands_over: Adds a tool that transfers to the agent's transfer targets. The run ends with that call, unless the
            agent sets `tool_use_behavior`.
        history: The budget of the conversation.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        ConfigError: The SDK is not installed or too old.
        AgentDefinitionError: The object is not an agent of the SDK.
    """

    def __init__(
        self,
        agent: Any,
        *,
        name: str | None = None,
        description: str | None = None,
        run_context: Any = None,
        max_turns: int = MAX_TURNS,
        run_config: Any = None,
        tracing: bool = False,
        hands_over: bool = False,
        history: Budget = HISTORY,
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        require_library("agents", "openai-agents", "openai-agents", (0, 22))
        import agents as sdk

        if not isinstance(agent, sdk.Agent):
            raise not_an_agent(agent, "an Agent of the OpenAI Agents SDK")
        about = agent.handoff_description or "" if description is None else description
        self.card = card_of(agent, name, about, card)
        self.children = members_of(self.card.name, children)
        self._agent, self._run_context, self._max_turns, self._history = agent, run_context, max_turns, history
        self._run_config, self._tracing, self._hands_over = run_config, tracing, hands_over

    def __repr__(self) -> str:
        return f"OpenAiAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await take_turn(context, partial(self._answer, context), self._explain)
        return
        yield

    async def _answer(self, context: AgentContext, writer: PieceWriter, resumed: ResumedRun | None) -> TurnAnswer:
        """Runs the SDK's agent on the conversation, or resumes it with the reply; returns answer, question or transfer."""
        from agents import Runner

        run_context = await resolved(self._run_context, context)
        targets = Targets.of(context) if self._hands_over else None
        agent = self._agent if targets is None else _with_transfer(self._agent, targets)
        run_input: Any
        if resumed is None:
            run_input = _input((await read_conversation(context, self._history)).messages)
        else:
            run_input = await self._resumed_state(agent, resumed, run_context)
        options: dict[str, Any] = {"context": run_context, "max_turns": self._max_turns, "run_config": self._config()}
        if context.config.streaming:
            result = Runner.run_streamed(agent, run_input, **options)
            await _stream_text(result, writer)
        else:
            result = await Runner.run(agent, run_input, **options)
        usage = _usage(result)
        if result.interruptions:
            return TurnAnswer(usage=usage, question=_question(result.interruptions), checkpoint=_checkpoint(result))
        if targets is not None and targets.chosen is not None:
            return TurnAnswer(usage=usage, target=targets.chosen)
        return TurnAnswer(_parts(result.final_output), usage)

    def _config(self) -> Any:
        """Returns the run's configuration, with tracing as set."""
        from dataclasses import replace

        from agents import RunConfig

        config = self._run_config or RunConfig()
        return config if self._tracing else replace(config, tracing_disabled=True)

    async def _resumed_state(self, agent: Any, resumed: ResumedRun, run_context: Any) -> Any:
        """Returns the state of the suspended run with the person's decision."""
        from agents import RunState

        state = await RunState.from_json(agent, resumed.checkpoint, context_override=run_context)
        answer = answer_of(ToolResultPart(call_id="", result=resumed.reply.text))
        for item in state.get_interruptions():
            if answer.approved:
                state.approve(item)
            else:
                state.reject(item, rejection_message=f"The person who was asked did not agree. {answer.reason}".strip())
        return state

    def _explain(self, error: Exception) -> TurnwiseError:
        """Returns our error for an error of the SDK."""
        import agents as sdk

        name = self.card.name
        if isinstance(error, sdk.MaxTurnsExceeded):
            return too_many_steps(name, error, f"max_turns of agent {name!r}")
        if isinstance(error, sdk.ModelRefusalError):
            return ModelRefused(f"Agent {name!r}: its model refused to answer.", fix="Ask in other words.")
        if isinstance(error, sdk.ModelTimeoutError):
            return ModelUnavailable(f"Agent {name!r}: its model took too long.", fix="Try again later.")
        if isinstance(error, sdk.ModelBehaviorError):
            return ModelAnswerInvalid(f"Agent {name!r}: {error_text(error)}")
        if isinstance(error, sdk.InputGuardrailTripwireTriggered | sdk.OutputGuardrailTripwireTriggered):
            guardrail = error.guardrail_result.guardrail.get_name()
            return AgentFailed(f"Agent {name!r} was stopped by its guardrail {guardrail!r}.")
        return model_error(name, error)


def _with_transfer(agent: Any, targets: Targets) -> Any:
    """Returns a copy of the agent with the transfer tool; a call of it ends the run."""
    from agents import FunctionTool, ToolsToFinalOutputResult

    async def transfer(_: Any, written: str) -> str:
        try:
            arguments = from_json(written or "{}")
        except ValueError:
            arguments = {}
        values = arguments if isinstance(arguments, dict) else {}
        return targets.choose(values.get("agent"), values.get("message")) or f"{values['agent']} takes over."

    tool = FunctionTool(TRANSFER, targets.description, targets.schema(), transfer, strict_json_schema=False)

    def ends(_context: Any, _results: Any) -> Any:
        return ToolsToFinalOutputResult(is_final_output=targets.chosen is not None, final_output="")

    behavior = agent.tool_use_behavior
    return agent.clone(tools=[*agent.tools, tool], tool_use_behavior=ends if behavior == "run_llm_again" else behavior)


async def _stream_text(result: Any, writer: PieceWriter) -> None:
    """Streams the run's text to its end. Once this returns or raises, no part of the run is still active."""
    answers = 0
    try:
        async for event in result.stream_events():
            if event.type != "raw_response_event":
                continue
            if event.data.type == "response.created":
                answers += 1
            elif event.data.type == "response.output_text.delta" and result.current_agent.output_type in (None, str):
                await writer.piece(event.data.delta, str(answers))
    finally:
        if not result.is_complete:
            result.cancel()
        if result.run_loop_task is not None:
            await asyncio.gather(result.run_loop_task, return_exceptions=True)


def _input(messages: Sequence[Content]) -> list[dict[str, Any]]:
    """Returns the conversation as the SDK's input items."""
    return [
        {"role": "user", "content": [_input_piece(piece) for piece in usable_parts(message)]}
        if message.role == "user"
        else {"role": "assistant", "content": joined(usable_parts(message))}
        for message in messages
    ]


def _input_piece(piece: str | BlobPart) -> dict[str, str]:
    """Returns a text or file as an input item; files become data URLs."""
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    from base64 import b64encode

    url = f"data:{piece.mime_type};base64,{b64encode(piece.data).decode()}"
    if piece.mime_type.startswith("image/"):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": piece.name or "file", "file_data": url}


def _parts(output: Any) -> Sequence[Part]:
    if output is None or isinstance(output, str):
        return text_parts(output or "")
    return (DataPart(name="output", data=to_jsonable_python(output)),)


def _question(interruptions: Sequence[Any]) -> str:
    return "\n".join(question_text(item.tool_name or "a tool", _arguments(item)) for item in interruptions)


def _arguments(item: Any) -> Mapping[str, JsonValue]:
    try:
        arguments = from_json(item.arguments or "{}")
    except ValueError:
        arguments = item.arguments
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _checkpoint(result: Any) -> JsonValue:
    # The tools' context is not stored: it is created again when the run resumes.
    state: JsonValue = to_jsonable_python(result.to_state().to_json(context_serializer=lambda _: {}))
    return state


def _usage(result: Any) -> Usage:
    """Returns the token counts of a run."""
    total = result.context_wrapper.usage
    model = result.last_agent.model
    name = model if isinstance(model, str) else getattr(model, "model", None)
    name = name if isinstance(name, str) else ""
    return Usage(
        model=name if ":" in name or not name else f"openai:{name}",
        input_tokens=total.input_tokens,
        cached_tokens=total.input_tokens_details.cached_tokens or 0,
        output_tokens=total.output_tokens,
        calls=total.requests,
    )
