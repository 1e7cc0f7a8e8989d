"""Hands in a message, or an answer to a wait."""

from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.gateway.mcp.arguments import AskAgent
from turnwise.gateway.mcp.request import McpRequest
from turnwise.gateway.services.invocations import WaitAnswer
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.services.waits import Wait
from turnwise.gateway.shared.packed_ids import digest, new_session
from turnwise.gateway.shared.tool_calls import result_value
from turnwise.runner import Invocation


async def start(request: McpRequest, arguments: AskAgent, agent: str | None, *, streaming: bool) -> Invocation:
    """Starts the invocation that answers. A session is created if none is named.

    Args:
        agent: The agent that must answer; None = select one.

    Raises:
        RequestInvalid, NothingHere, UnknownToolCall, Forbidden: The arguments do not fit. Errors of the runner pass through.
    """
    if arguments.answer_to is not None:
        return await _answer(request, arguments, arguments.answer_to, agent)
    if arguments.approved is not None:
        raise _invalid(
            "'approved' answers a question whether a tool may be called.", "Name that question: answer_to.", "approved"
        )
    if agent is not None and not request.front.addressees.has(request.caller, agent):
        fix = "Leave out the agent; the one that fits best is selected."
        raise NothingHere(f"There is no agent {agent[:NAME_CHARACTERS]!r} for you.", fix=fix, where=("arguments", "agent"))
    usual = request.front.runner.config.model_copy(update={"streaming": streaming})
    config = usual if arguments.session is not None else usual.model_copy(update={"create_session": True})
    # Derived from the message id: a repeated message reaches the same session before its sender knows it.
    session = new_session(arguments.message_id) if arguments.session is None else arguments.session
    return await request.front.messages.start(
        request.caller,
        MessageRequest(session, arguments.message, request.user, arguments.message_id, config=config, agent=agent),
    )


async def _answer(request: McpRequest, arguments: AskAgent, call_id: str, agent: str | None) -> Invocation:
    if arguments.session is None:
        raise _invalid("The answer has no session.", "Pass the session of the wait.", "session")
    if agent is not None:
        raise _invalid("An answer goes to the agent that waits.", "Leave out the agent, or answer_to.", "agent")
    # A call is answered once, so its id identifies the answer if the caller gave none.
    invocations, id_ = request.front.invocations, arguments.message_id or f"answer-{digest(call_id)}"
    wait = await invocations.wait_for(request.caller, arguments.session, call_id, request.user)
    answer = WaitAnswer(call_id, _answer_value(arguments, wait), arguments.message, id_)
    return await invocations.answer(request.caller, arguments.session, wait.invocation_id if wait else "", answer, request.user)


def _answer_value(arguments: AskAgent, wait: Wait | None) -> str | bool | ToolResultPart:
    """Converts the arguments to the kind of answer that the wait takes."""
    if wait is not None and wait.kind == "confirmation":
        if arguments.approved is None:
            raise _invalid("The agent waits for an approval.", "Send `approved`, true or false, as the user says.", "approved")
        return arguments.approved
    if wait is not None and wait.kind == "tool_result":
        return ToolResultPart(call_id=wait.call_id, result=result_value(arguments.message))
    return arguments.message


def _invalid(problem: str, fix: str, argument: str) -> RequestInvalid:
    return RequestInvalid(problem, fix=fix, where=("arguments", argument))
