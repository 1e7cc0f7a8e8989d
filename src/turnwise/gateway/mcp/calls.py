"""Executes tool calls."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, TextContent

from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection, Verdict
from turnwise.gateway.front import Front
from turnwise.gateway.mcp.arguments import Ask, AskAgent, Explain, Select, parse_arguments
from turnwise.gateway.mcp.errors import tool_error
from turnwise.gateway.mcp.request import Context, McpRequest
from turnwise.gateway.mcp.results import answer_value, result_of
from turnwise.gateway.mcp.schema import Answered, Considered, Decided, Excluded, Opinion
from turnwise.gateway.mcp.start import start
from turnwise.gateway.mcp.stream import report_progress
from turnwise.gateway.mcp.tool_list import ASK, EXPLAIN, SELECT, agent_of_tool
from turnwise.runner import Invocation, Result

T = TypeVar("T")
GRACE_FRACTION = 0.8
"""Fraction of the shutdown grace period to wait for an answer. The rest is left to report that it did not come."""


async def call(context: Context, request: McpRequest, params: CallToolRequestParams, *, agents: bool) -> CallToolResult:
    """Calls a tool. TurnwiseErrors become error results.

    Args:
        agents: Whether each agent is a tool.

    Raises:
        MCPError: There is no such tool.
    """
    try:
        return await _dispatch(context, request, params.name, params.arguments, agents=agents)
    except TurnwiseError as error:
        return tool_error(request.problem(error))


async def _dispatch(
    context: Context, request: McpRequest, name: str, arguments: Mapping[str, Any] | None, *, agents: bool
) -> CallToolResult:
    if name == SELECT:
        return await select(request, parse_arguments(Select, arguments))
    if name == EXPLAIN:
        return await explain(request, parse_arguments(Explain, arguments))
    if name == ASK:
        ask_arguments = parse_arguments(Ask, arguments)
        return await _ask(context, request, ask_arguments, ask_arguments.agent)
    agent = agent_of_tool(request, name) if agents else None
    if agent is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}", {"fix": "List the tools."})
    agent_arguments = parse_arguments(AskAgent, arguments)
    return await _ask(context, request, agent_arguments, None if agent_arguments.answer_to else agent)


async def _ask(context: Context, request: McpRequest, arguments: AskAgent, agent: str | None) -> CallToolResult:
    wants_progress = progress_token_from_params(context.params) is not None
    invocation = await start(request, arguments, agent, streaming=wants_progress)

    async def work() -> Result:
        if wants_progress:
            await report_progress(context.session, invocation, request.view)
        return await invocation.result()

    result = await result_or_closing(request.front, invocation, work())
    return result_of(await _answer(request, invocation, result))


async def _answer(request: McpRequest, invocation: Invocation, result: Result) -> Answered:
    waits = await request.front.invocations.waits(invocation, result)
    return answer_value(invocation, result, waits, request.view)


async def result_or_closing(front: Front, invocation: Invocation, work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work`, the rest of a tool call.

    Raises:
        Closing: The process stops before the work is done. The message tells how to get the answer later.
    """
    work_task, closing_task = asyncio.create_task(work), asyncio.create_task(_grace_almost_over(front))
    try:
        tasks: set[asyncio.Future[Any]] = {work_task, closing_task}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            return work_task.result()
    finally:
        for task in (work_task, closing_task):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise Closing(
        "This process is being stopped before the answer is complete.",
        fix=f"Ask again with session {invocation.session.id!r} and message_id {invocation.message_id!r}: it is answered once.",
    )


async def _grace_almost_over(front: Front) -> None:
    await front.closing.wait()
    await asyncio.sleep(front.config.grace_seconds * GRACE_FRACTION)


async def select(request: McpRequest, arguments: Select) -> CallToolResult:
    """Selects an agent for a message without storing or running anything."""
    selection = await request.front.messages.select(
        request.caller, arguments.message, session=arguments.session, user=request.user, context=MessageContext()
    )
    return _result(decision_value(request.view.selection(selection), arguments.session))


async def explain(request: McpRequest, arguments: Explain) -> CallToolResult:
    """Returns the recorded selection of a message, or of the latest one. Raises SessionMissing, InvocationMissing."""
    decision = await request.front.decisions.of_message(request.caller, arguments.session, arguments.message_id, request.user)
    return _result(decision_value(request.view.selection(decision.selection), arguments.session))


def decision_value(selection: Selection, session: str | None) -> Decided:
    """Returns a selection, redacted for its reader, as the tool's structured result."""
    return Decided(
        session=session,
        agent=selection.agent,
        outcome=selection.outcome,
        method=selection.method,
        confidence=selection.confidence,
        reason=selection.reason,
        opinions=[_opinion(verdict) for verdict in selection.verdicts],
        excluded=[Excluded(agent=item.agent, rule=item.rule, detail=item.detail) for item in selection.excluded],
    )


def decision_text(decision: Decided) -> str:
    """Describes a decision as text: the agent and the reason, then each selector's verdict."""
    verb = "answers" if decision.outcome == "chosen" else "asks what is meant"
    first = f"{decision.agent} {verb} ({decision.method}, {decision.confidence:.2f}): {decision.reason}"
    return "\n".join([first, *_lines(decision.opinions)])


def _lines(opinions: Sequence[Opinion]) -> list[str]:
    return [
        f"- {item.selector}: {item.outcome}{f' {item.agent}' if item.agent else ''}. {item.reason}".rstrip()
        for item in opinions
    ]


def _opinion(verdict: Verdict) -> Opinion:
    return Opinion(
        selector=verdict.selector,
        outcome=verdict.outcome,
        agent=verdict.agent,
        confidence=verdict.confidence,
        reason=verdict.reason,
        candidates=[Considered(agent=item.agent, score=item.score, evidence=item.evidence) for item in verdict.candidates],
    )


def _result(decision: Decided) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=decision_text(decision))],
        structured_content=decision.model_dump(mode="json", exclude_none=True),
    )
