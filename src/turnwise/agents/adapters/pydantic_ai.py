"""Adapter for Pydantic AI agents."""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

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
from turnwise.agents.members import members_of
from turnwise.facts.content import BlobPart, Content, DataPart, Part
from turnwise.facts.errors import AgentFailed, ModelAnswerInvalid, ModelRefused, ModelUnavailable, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.usage import Usage
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.tools.names import TRANSFER
from turnwise.transcript.view import Budget

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.usage import RunUsage, UsageLimits


class PydanticAiAgent:
    """A Pydantic AI agent, including its model, tools and instructions.

    The agent gets the conversation, without its tool calls of earlier turns. An output that is not text becomes a
    DataPart named `output`.

    Args:
        agent: The Pydantic AI agent.
        name: By default the agent's name.
        description: By default the agent's description.
        deps: The value of `ctx.deps` in its tools, or a function of the AgentContext, sync or async, that returns it.
        usage_limits: The agent's limits for one run.
        hands_over: Adds a tool that transfers to the agent's transfer targets. The run ends with that call.
        history: The budget of the conversation.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        MissingExtra: Pydantic AI is not installed.
        ConfigError: Pydantic AI is too old.
        AgentDefinitionError: The object is not a Pydantic AI agent.
    """

    def __init__(
        self,
        agent: "AbstractAgent[Any, Any]",
        *,
        name: str | None = None,
        description: str | None = None,
        deps: Any = None,
        usage_limits: "UsageLimits | None" = None,
        hands_over: bool = False,
        history: Budget = HISTORY,
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        require_library("pydantic_ai", "pydantic-ai-slim", "pydantic-ai", (2,))
        from pydantic_ai.agent import AbstractAgent

        if not isinstance(agent, AbstractAgent):
            raise not_an_agent(agent, "an Agent of Pydantic AI")
        self.card = card_of(agent, name, description, card)
        self.children = members_of(self.card.name, children)
        self._agent, self._deps, self._limits, self._history = agent, deps, usage_limits, history
        self._hands_over = hands_over

    def __repr__(self) -> str:
        return f"PydanticAiAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Runs one turn of the Pydantic AI agent. Yields nothing: `take_turn` records the answer."""

        async def work(writer: PieceWriter, _: ResumedRun | None) -> TurnAnswer:
            return await self._answer(context, writer)

        await take_turn(context, work, self._explain)
        return
        yield

    async def _answer(self, context: AgentContext, writer: PieceWriter) -> TurnAnswer:
        """Runs the agent on the conversation and returns its answer, or the transfer that it called."""
        from pydantic_ai.usage import RunUsage

        messages = (await read_conversation(context, self._history)).messages
        options: dict[str, Any] = {
            "message_history": _history(messages[:-1]),
            "deps": await resolved(self._deps, context),
            "usage_limits": self._limits,
            "infer_name": False,
        }
        targets = Targets.of(context) if self._hands_over else None
        if targets is None:
            return await self._run(messages, context, writer, options)
        options |= {"toolsets": [_transfer_tools(targets)], "usage": (used := RunUsage())}
        try:
            return await self._run(messages, context, writer, options)
        except _HandedOver:
            return TurnAnswer(usage=_usage_so_far(used), target=targets.chosen)

    async def _run(
        self, messages: Sequence[Content], context: AgentContext, writer: PieceWriter, options: dict[str, Any]
    ) -> TurnAnswer:
        """Runs the agent once, streamed or not, and returns its output and usage."""
        if context.config.streaming:
            result = await self._streamed(_prompt(messages[-1]), writer, options)
        else:
            result = await self._agent.run(_prompt(messages[-1]), **options)
        return TurnAnswer(self._parts(result.output), _usage(result))

    async def _streamed(
        self, prompt: "str | list[theirs.UserContent]", writer: PieceWriter, options: dict[str, Any]
    ) -> "AgentRunResult[Any]":
        """Runs the agent, shows pieces of its text, and returns the result."""
        from pydantic_ai import messages as theirs
        from pydantic_ai.run import AgentRunResultEvent

        is_text = _may_be_text(self._agent.output_type)
        result: AgentRunResult[Any] | None = None
        answers = 0
        async with self._agent.run_stream_events(prompt, **options) as events:
            async for event in events:
                if isinstance(event, theirs.PartStartEvent) and event.index == 0:
                    answers += 1
                match event:
                    case theirs.PartStartEvent(part=theirs.TextPart(content=text)) if is_text:
                        await writer.piece(text, str(answers))
                    case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)) if is_text:
                        await writer.piece(text, str(answers))
                    case AgentRunResultEvent():
                        result = event.result
        if result is None:
            raise AgentFailed(f"Agent {self.card.name!r} ended without a result.")
        return result

    def _parts(self, output: Any) -> Sequence[Part]:
        """Converts the agent's output. Raises AgentFailed for calls that others would have to make."""
        from pydantic_ai import DeferredToolRequests
        from pydantic_ai.messages import BinaryContent

        if isinstance(output, DeferredToolRequests):
            tools = ", ".join(call.tool_name for call in (*output.approvals, *output.calls))
            raise AgentFailed(
                f"Agent {self.card.name!r} left calls to be made by others: {tools}.",
                fix="Let its tools ask by themselves, or use a Turnwise LlmAgent with tools that need to be confirmed.",
            )
        if output is None or isinstance(output, str):
            return text_parts(output or "")
        if isinstance(output, BinaryContent):
            return (BlobPart(data=output.data, mime_type=output.media_type),)
        return (DataPart(name="output", data=to_jsonable_python(output)),)

    def _explain(self, error: Exception) -> TurnwiseError:
        """Returns our error for an error of Pydantic AI."""
        from pydantic_ai import exceptions as theirs

        name = self.card.name
        if isinstance(error, theirs.UsageLimitExceeded):
            message = error_text(error).partition(" Consider ")[0]
            if "request_limit" in message:
                return too_many_steps(name, theirs.AgentRunError(message), f"the usage_limits of agent {name!r}")
            return AgentFailed(f"Agent {name!r} reached a limit of its own: {message}", fix="Raise its usage_limits.")
        if isinstance(error, theirs.ContentFilterError):
            return ModelRefused(f"Agent {name!r}: a filter of the provider stopped its model.", fix="Ask in other words.")
        if isinstance(error, theirs.UnexpectedModelBehavior):
            return ModelAnswerInvalid(f"Agent {name!r}: {error_text(theirs.AgentRunError(error.message))}")
        if isinstance(error, theirs.ModelAPIError) and getattr(error, "status_code", None) is None:
            return ModelUnavailable(
                f"Agent {name!r}: a model is not available: {type(error).__name__}.",
                fix="Try again later.",
                retry_after=error.retry_after,
            )
        return model_error(name, error)


class _HandedOver(Exception):
    """Ends the run of an agent that transferred the conversation."""


def _transfer_tools(targets: Targets) -> Any:
    """Returns a toolset with the transfer tool; a valid call of it ends the run."""
    from pydantic_ai import ModelRetry, Tool
    from pydantic_ai.toolsets import FunctionToolset

    async def transfer(agent: object = None, message: object = None, **_: object) -> None:
        problem = targets.choose(agent, message)
        if problem is not None:
            raise ModelRetry(problem)
        raise _HandedOver

    tool = Tool.from_schema(transfer, TRANSFER, targets.description, targets.schema())
    return FunctionToolset([tool])


def _prompt(content: Content) -> "str | list[theirs.UserContent]":
    """Returns a message as a prompt of Pydantic AI."""
    from pydantic_ai.messages import BinaryContent

    pieces = usable_parts(content)
    if all(isinstance(each, str) for each in pieces):
        return joined(pieces)
    return [each if isinstance(each, str) else BinaryContent(each.data, media_type=each.mime_type) for each in pieces]


def _history(messages: Sequence[Content]) -> "list[theirs.ModelMessage]":
    """Returns the conversation as its messages."""
    from pydantic_ai import messages as theirs

    return [
        theirs.ModelRequest([theirs.UserPromptPart(_prompt(message))])
        if message.role == "user"
        else theirs.ModelResponse([theirs.TextPart(joined(usable_parts(message)))])
        for message in messages
    ]


def _may_be_text(output: Any) -> bool:
    """Checks whether an output of that type may be the model's plain text."""
    return output is str or (isinstance(output, Sequence) and any(each is str for each in output))


def _usage(result: "AgentRunResult[Any]") -> Usage:
    """Returns the token counts and the cost of a run; no cost unless all calls have one."""
    from pydantic_ai.messages import ModelResponse

    responses = [message for message in result.new_messages() if isinstance(message, ModelResponse)]
    names = {":".join(name for name in (each.provider_name, each.model_name) if name) for each in responses}
    total = result.usage
    costs = [_cost(each) for each in responses] if len(responses) == total.requests else [None]
    return Usage(
        model=names.pop() if len(names) == 1 else "",
        input_tokens=total.input_tokens,
        cached_tokens=total.cache_read_tokens,
        output_tokens=total.output_tokens,
        cost=None if any(cost is None for cost in costs) else sum(cost or 0.0 for cost in costs),
        calls=total.requests,
    )


def _usage_so_far(used: "RunUsage") -> Usage:
    """Returns the token counts of a run that a transfer ended."""
    return Usage(
        input_tokens=used.input_tokens,
        cached_tokens=used.cache_read_tokens,
        output_tokens=used.output_tokens,
        calls=used.requests,
    )


def _cost(response: "theirs.ModelResponse") -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # the model's price or the usage is unknown
        return None
