"""The routes `/chat`, which selects an agent, and `/execute-agent`, which addresses one (behaviour C12)."""

from fastapi import Request

from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.errors import Forbidden, NothingHere
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.messages import MessageContext
from turnwise.gateway.front import Front, TheFront, TheServices, redactor_of
from turnwise.gateway.graph_chat.schema import (
    ChatContext,
    ChatRequest,
    ChatResponse,
    ExecuteAgentRequest,
    Reply,
    error_responses,
)
from turnwise.gateway.openapi import api_router
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.messages import MessageRequest
from turnwise.runner import Result

SUCCESSFUL_ENDS = frozenset({"completed", "clarify"})
MOST_NAMED = 20
"""Maximum number of agents that an error names."""

router = api_router("graph-chat")


@router.post("/chat", summary="Ask the router", responses=error_responses(), response_description="The answer.")
async def chat(body: ChatRequest, request: Request, front: TheFront, services: TheServices) -> ChatResponse:
    """Send a message. The router selects the agent; `context.direct_agent_id` overrides it if that agent exists."""
    return await _answer(body, request, front, services, None)


@router.post("/execute-agent", summary="Ask an agent", responses=error_responses(), response_description="The answer.")
async def execute_agent(body: ExecuteAgentRequest, request: Request, front: TheFront, services: TheServices) -> ChatResponse:
    """Send a message to one agent without selection. The policy must allow it with the selector `direct`."""
    if not services.addressees.has(body.agent_id):
        raise NothingHere(
            f"There is no agent {body.agent_id[:NAME_CHARACTERS]!r} that callers may choose.",
            fix=_choices(services),
            where=("body", "agent_id"),
        )
    return await _answer(body, request, front, services, body.agent_id)


def _choices(services: Services) -> str:
    """Returns the fix that lists the agent ids that the caller may use."""
    try:
        names = services.addressees.names()
    except Forbidden:
        return "Send the id of an agent that this credential reaches."
    if not names:
        return "No agent is reached by its id: the policy has no selector 'direct'. Send the message to /chat."
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"agent_id may be: {', '.join(names[:MOST_NAMED])}{more}."


async def _answer(body: ChatRequest, request: Request, front: Front, services: Services, agent: str | None) -> ChatResponse:
    """Sends the message, waits for the result, and returns the response. Admins act for the customer that the body names."""
    session = SystemIssuer().new_id("session") if body.session_id is None else body.session_id
    if services.scope.caller.acts_for_users:
        services = services.for_user(body.known.customer_id)
    config = front.runner.config.replace(streaming=False)
    ask = MessageRequest(session, body.message, body.message_id, _context(body.known), config, agent)
    invocation = await services.messages.start(ask)
    return _response(session, body.known, await invocation.result(), redactor_of(request))


def _context(chat_context: ChatContext) -> MessageContext:
    """Converts the request's context to a message context."""
    return MessageContext(
        direct_agent_id=chat_context.direct_agent_id,
        previous_agents=tuple(chat_context.previous_agents or ()),
        channel=chat_context.channel,
        user_kind=chat_context.user_type,
        attributes=chat_context.attributes,
    )


def _response(session: str, context: ChatContext, result: Result, view: Redactor) -> ChatResponse:
    """Converts a result to the response body; any unsuccessful end becomes its `error`."""
    error = None
    if result.end is not None and result.end.reason not in SUCCESSFUL_ENDS:
        failure = view.error(result.error) if result.error else None
        error = (
            f"{failure.code}: {failure.message}"
            if failure
            else f"The answer ended {result.end.reason!r}. {result.end.detail}".rstrip()
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
