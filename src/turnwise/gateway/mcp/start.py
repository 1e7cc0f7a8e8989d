"""A message handed in, or an answer to what is waited for."""

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


async def start(visit: McpRequest, given: AskAgent, agent: str | None, *, streaming: bool) -> Invocation:
    """The invocation that answers. agent: who is to answer; None = whoever is selected. A session that is not named is made.

    RequestInvalid, NothingHere, UnknownToolCall, Forbidden, and what the runner raises.
    """
    if given.answer_to is not None:
        return await _answer(visit, given, given.answer_to, agent)
    if given.approved is not None:
        raise _invalid(
            "'approved' answers a question whether a tool may be called.", "Name that question: answer_to.", "approved"
        )
    if agent is not None and not visit.front.addressees.has(visit.caller, agent):
        fix = "Leave out the agent; the one that fits best is selected."
        raise NothingHere(f"There is no agent {agent[:NAME_CHARACTERS]!r} for you.", fix=fix, where=("arguments", "agent"))
    usual = visit.front.runner.config.model_copy(update={"streaming": streaming})
    config = usual if given.session is not None else usual.model_copy(update={"create_session": True})
    # The same for the same message, which may be sent again before its sender knows where it is.
    session = new_session(given.message_id) if given.session is None else given.session
    return await visit.front.messages.start(
        visit.caller, MessageRequest(session, given.message, visit.user, given.message_id, config=config, agent=agent)
    )


async def _answer(visit: McpRequest, given: AskAgent, call_id: str, agent: str | None) -> Invocation:
    if given.session is None:
        raise _invalid("It is not said where something is answered.", "Name the session in which it is waited for.", "session")
    if agent is not None:
        raise _invalid("What waits is answered to who asked.", "Leave out the agent, or answer_to.", "agent")
    # A call is answered once, so whoever has no name for the answer need not have one.
    invocations, id_ = visit.front.invocations, given.message_id or f"answer-{digest(call_id)}"
    wait = await invocations.wait_for(visit.caller, given.session, call_id, visit.user)
    told = WaitAnswer(call_id, _answer_value(given, wait), given.message, id_)
    return await invocations.answer(visit.caller, given.session, wait.invocation_id if wait else "", told, visit.user)


def _answer_value(given: AskAgent, wait: Wait | None) -> str | bool | ToolResultPart:
    """The answer as what is waited for takes it."""
    if wait is not None and wait.kind == "confirmation":
        if given.approved is None:
            raise _invalid("It waits for a person's word.", "Send `approved`, true or false, as the user says.", "approved")
        return given.approved
    if wait is not None and wait.kind == "tool_result":
        return ToolResultPart(call_id=wait.call_id, result=result_value(given.message))
    return given.message


def _invalid(problem: str, fix: str, argument: str) -> RequestInvalid:
    return RequestInvalid(problem, fix=fix, where=("arguments", argument))
