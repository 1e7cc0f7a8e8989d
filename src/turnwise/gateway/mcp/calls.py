"""Tools, called."""

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


async def select(visit: McpRequest, given: Select) -> CallToolResult:
    """Who would answer that message. Nothing is stored and nobody runs."""
    selection = await visit.front.messages.select(
        visit.caller, given.message, session=given.session, user=visit.user, context=MessageContext()
    )
    return _result(decision_value(visit.view.selection(selection), given.session))


async def explain(visit: McpRequest, given: Explain) -> CallToolResult:
    """The recorded decision of a message, or the latest. SessionMissing, InvocationMissing."""
    found = await visit.front.decisions.of_message(visit.caller, given.session, given.message_id, visit.user)
    return _result(decision_value(visit.view.selection(found.selection), given.session))


def decision_value(selection: Selection, session: str | None) -> Decided:
    """The decision as a value of the wire; the selection is as its reader may see it."""
    return Decided(
        session=session,
        agent=selection.agent,
        outcome=selection.outcome,
        method=selection.method,
        confidence=selection.confidence,
        reason=selection.reason,
        opinions=[_opinion(verdict) for verdict in selection.verdicts],
        excluded=[Excluded(agent=each.agent, rule=each.rule, detail=each.detail) for each in selection.excluded],
    )


def decision_text(decision: Decided) -> str:
    """The decision for a reader: who and why, then what each selector said."""
    verb = "answers" if decision.outcome == "chosen" else "asks what is meant"
    first = f"{decision.agent} {verb} ({decision.method}, {decision.confidence:.2f}): {decision.reason}"
    return "\n".join([first, *_lines(decision.opinions)])


def _lines(opinions: Sequence[Opinion]) -> list[str]:
    return [
        f"- {each.selector}: {each.outcome}{f' {each.agent}' if each.agent else ''}. {each.reason}".rstrip()
        for each in opinions
    ]


def _opinion(verdict: Verdict) -> Opinion:
    return Opinion(
        selector=verdict.selector,
        outcome=verdict.outcome,
        agent=verdict.agent,
        confidence=verdict.confidence,
        reason=verdict.reason,
        candidates=[Considered(agent=each.agent, score=each.score, evidence=each.evidence) for each in verdict.candidates],
    )


def _result(decision: Decided) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=decision_text(decision))],
        structured_content=decision.model_dump(mode="json", exclude_none=True),
    )


T = TypeVar("T")

GRACE_FRACTION = 0.8
"""How much of the time that answers may still take is waited. In the rest it can be said that this one did not come."""


async def result_or_closing(front: Front, invocation: Invocation, work: Coroutine[Any, Any, T]) -> T:
    """What the work for that answer gives. Closing, which says how to come to it, when the process leaves before."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_grace_almost_over(front))
    try:
        either: set[asyncio.Future[Any]] = {working, leaving}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise Closing(
        "This process is being stopped before the answer is there.",
        fix=f"Ask again with session {invocation.session.id!r} and message_id {invocation.message_id!r}: it is answered once.",
    )


async def _grace_almost_over(front: Front) -> None:
    await front.closing.wait()
    await asyncio.sleep(front.config.grace_seconds * GRACE_FRACTION)


async def call(context: Context, visit: McpRequest, params: CallToolRequestParams, *, agents: bool) -> CallToolResult:
    """What that tool gives; what it refuses, it gives, too. agents: whether they are tools. MCPError when there is no such."""
    try:
        return await _dispatch(context, visit, params.name, params.arguments, agents=agents)
    except TurnwiseError as error:
        return tool_error(visit.problem(error))


async def _dispatch(
    context: Context, visit: McpRequest, name: str, arguments: Mapping[str, Any] | None, *, agents: bool
) -> CallToolResult:
    if name == SELECT:
        return await select(visit, parse_arguments(Select, arguments))
    if name == EXPLAIN:
        return await explain(visit, parse_arguments(Explain, arguments))
    if name == ASK:
        given = parse_arguments(Ask, arguments)
        return await _ask(context, visit, given, given.agent)
    agent = agent_of_tool(visit, name) if agents else None
    if agent is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}", {"fix": "List the tools."})
    given_to = parse_arguments(AskAgent, arguments)
    return await _ask(context, visit, given_to, None if given_to.answer_to else agent)


async def _ask(context: Context, visit: McpRequest, given: AskAgent, agent: str | None) -> CallToolResult:
    told = progress_token_from_params(context.params) is not None
    invocation = await start(visit, given, agent, streaming=told)

    async def work() -> Result:
        if told:
            await report_progress(context.session, invocation, visit.view)
        return await invocation.result()

    result = await result_or_closing(visit.front, invocation, work())
    return result_of(await _answer(visit, invocation, result))


async def _answer(visit: McpRequest, invocation: Invocation, result: Result) -> Answered:
    waits = await visit.front.invocations.waits(invocation, result)
    return answer_value(invocation, result, waits, visit.view)
