"""Tools, called."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult

from turnwise.facts.errors import TurnwiseError
from turnwise.gateway.mcp.answer import answered, result_of
from turnwise.gateway.mcp.arguments import Ask, AskAgent, Explain, Select, read
from turnwise.gateway.mcp.asking import ask
from turnwise.gateway.mcp.catalogue import ASK, EXPLAIN, SELECT, agent_behind
from turnwise.gateway.mcp.deciding import explain, select
from turnwise.gateway.mcp.form import refused
from turnwise.gateway.mcp.leaving import unless_leaving
from turnwise.gateway.mcp.shapes import Answered
from turnwise.gateway.mcp.telling import tell
from turnwise.gateway.mcp.visit import Context, Visit
from turnwise.runner import Invocation, Result


async def call(context: Context, visit: Visit, params: CallToolRequestParams, *, agents: bool) -> CallToolResult:
    """What that tool gives; what it refuses, it gives, too. agents: whether they are tools. MCPError when there is no such."""
    try:
        return await _called(context, visit, params.name, params.arguments, agents=agents)
    except TurnwiseError as error:
        return refused(visit.problem(error))


async def _called(
    context: Context, visit: Visit, name: str, arguments: Mapping[str, Any] | None, *, agents: bool
) -> CallToolResult:
    if name == SELECT:
        return await select(visit, read(Select, arguments))
    if name == EXPLAIN:
        return await explain(visit, read(Explain, arguments))
    if name == ASK:
        given = read(Ask, arguments)
        return await _asked(context, visit, given, given.agent)
    agent = agent_behind(visit, name) if agents else None
    if agent is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}", {"fix": "List the tools."})
    given_to = read(AskAgent, arguments)
    return await _asked(context, visit, given_to, None if given_to.answer_to else agent)


async def _asked(context: Context, visit: Visit, given: AskAgent, agent: str | None) -> CallToolResult:
    told = progress_token_from_params(context.params) is not None
    invocation = await ask(visit, given, agent, streaming=told)

    async def work() -> Result:
        if told:
            await tell(context.session, invocation, visit.view)
        return await invocation.result()

    result = await unless_leaving(visit.front, invocation, work())
    return result_of(await _answered(visit, invocation, result))


async def _answered(visit: Visit, invocation: Invocation, result: Result) -> Answered:
    waits = await visit.front.invocations.waits(invocation, result)
    return answered(invocation, result, waits, visit.view)
