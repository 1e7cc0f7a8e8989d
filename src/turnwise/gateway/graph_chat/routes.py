"""`/chat`, which routes, and `/execute-agent`, which does not (behaviour C12)."""

from fastapi import Request

from turnwise.facts.callers import Caller
from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.errors import Forbidden, NothingHere
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.messages import MessageContext
from turnwise.gateway.api.openapi import api_router
from turnwise.gateway.front import Front, TheCaller, TheFront, redactor_of
from turnwise.gateway.graph_chat.schema import (
    ChatContext,
    ChatRequest,
    ChatResponse,
    ExecuteAgentRequest,
    Reply,
    error_responses,
)
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.messages import MessageRequest
from turnwise.runner import Result

SUCCESSFUL_ENDS = frozenset({"completed", "clarify"})
MOST_NAMED = 20
"""How many agents a refusal names."""

router = api_router("graph-chat")


@router.post("/chat", summary="Ask the router", responses=error_responses(), response_description="What was answered.")
async def chat(body: ChatRequest, request: Request, front: TheFront, caller: TheCaller) -> ChatResponse:
    """Hand in a message; the router selects who answers, or `context.direct_agent_id` does, if there is such an agent."""
    return await _answer(body, request, front, caller, None)


@router.post("/execute-agent", summary="Ask an agent", responses=error_responses(), response_description="What was answered.")
async def execute_agent(body: ExecuteAgentRequest, request: Request, front: TheFront, caller: TheCaller) -> ChatResponse:
    """Hand in a message for that agent, past the router, if the policy lets callers choose: if it has the selector `direct`."""
    if not front.addressees.has(caller, body.agent_id):
        raise NothingHere(
            f"There is no agent {body.agent_id[:NAME_CHARACTERS]!r} that callers may choose.",
            fix=_choices(front, caller),
            where=("body", "agent_id"),
        )
    return await _answer(body, request, front, caller, body.agent_id)


def _choices(front: Front, caller: Caller) -> str:
    """Which agent ids there are for the caller."""
    try:
        names = front.addressees.names(caller)
    except Forbidden:
        return "Send the id of an agent that this credential reaches."
    if not names:
        return "No agent is reached by its id: the policy has no selector 'direct'. Send the message to /chat."
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"agent_id may be: {', '.join(names[:MOST_NAMED])}{more}."


async def _answer(body: ChatRequest, request: Request, front: Front, caller: Caller, agent: str | None) -> ChatResponse:
    session = SystemIssuer().new_id("session") if body.session_id is None else body.session_id
    user = body.known.customer_id if caller.acts_for_users else None
    config = front.runner.config.model_copy(update={"streaming": False})
    ask = MessageRequest(session, body.message, user, body.message_id, _context(body.known), config, agent)
    invocation = await front.messages.start(caller, ask)
    return _response(session, body.known, await invocation.result(), redactor_of(request))


def _context(given: ChatContext) -> MessageContext:
    return MessageContext(
        direct_agent_id=given.direct_agent_id,
        previous_agents=tuple(given.previous_agents or ()),
        channel=given.channel,
        user_kind=given.user_type,
        attributes=given.attributes,
    )


def _response(session: str, context: ChatContext, result: Result, view: Redactor) -> ChatResponse:
    error = None
    if result.end is not None and result.end.reason not in SUCCESSFUL_ENDS:
        told = view.error(result.error) if result.error else None
        error = (
            f"{told.code}: {told.message}" if told else f"The answer ended {result.end.reason!r}. {result.end.detail}".rstrip()
        )
    return ChatResponse(
        success=error is None,
        response=_reply(result) if result.text or error is None else None,
        conversation_id=session,
        external_conversation_id=context.external_conversation_id,
        observability_trace_id=result.invocation_id or None,
        error=error,
    )


def _reply(result: Result) -> Reply:
    if result.selection is not None and result.selection.outcome == "clarify":
        return Reply(message=result.text, type="clarification")
    return Reply(message=result.text, type="question" if result.waiting else "text")
