"""The graph-chat protocol: the two routes of the reference router, unchanged for its clients (behaviour C12).

The policy `staples` follows that router. `/chat` selects an agent; `/execute-agent` addresses one.
"""

import json
from typing import Any, Literal, Self

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response

from turnwise.facts.content import DEEPEST, is_deep
from turnwise.facts.errors import EmptyMessage, Forbidden, NothingHere, RequestInvalid, WrongMethod
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.messages import MessageContext
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.gateway.front import Front, TheFront, TheServices, redactor_of
from turnwise.gateway.openapi import DOCUMENTATION, api_router
from turnwise.gateway.problems import Problem
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.messages import MessageRequest
from turnwise.runner import Result


class ChatContext(BaseModel):
    """Facts about a message. Unknown fields become attributes of the message, which agents can read.

    - customer_id: the user, for a credential that acts for users; always an attribute, too.
    - direct_agent_id: the agent that must answer (behaviour C1).
    - previous_agents: agents that helped before, newest last (C17).
    - channel, user_type: select the policy's segment (C18).
    """

    model_config = ConfigDict(extra="allow")
    customer_id: str | None = None
    previous_agents: list[str] | None = None
    direct_agent_id: str | None = None
    external_conversation_id: str | None = None
    channel: str | None = None
    user_type: str | None = None

    @model_validator(mode="after")
    def _holds_json(self) -> Self:
        """Refuses unknown fields that are nested too deeply or hold NaN or infinities."""
        if is_deep(self.model_extra):
            raise PydanticCustomError("deep", f"It is nested more than {DEEPEST} levels deep")
        try:
            json.dumps(self.model_extra, allow_nan=False)
        except ValueError:
            raise PydanticCustomError("json", "The value has a number that JSON cannot represent") from None
        return self

    @property
    def attributes(self) -> dict[str, JsonValue]:
        """The customer's and the external conversation's id, and all unknown fields, for agents to read."""
        named: dict[str, JsonValue] = {
            "customer_id": self.customer_id,
            "external_conversation_id": self.external_conversation_id,
        }
        return {name: value for name, value in named.items() if value is not None} | (self.model_extra or {})


class ChatRequest(BaseModel):
    """A message of a conversation.

    - session_id: null starts a new conversation.
    - message_id: the sender's own id, so that the message can be sent again safely.
    """

    message: str = Field(examples=["Where is my order 1001?"])
    session_id: str | None = Field(default=None, examples=["s-1"])
    message_id: str | None = None
    context: ChatContext | None = None

    @property
    def known(self) -> ChatContext:
        """The context, or an empty one."""
        return self.context or ChatContext()


class ExecuteAgentRequest(ChatRequest):
    """A message for one agent, without selection."""

    agent_id: str = Field(examples=["orders"])


class Reply(BaseModel):
    """The agent's answer. type: `text`; `question` if the agent waits for a reply; `clarification` if the user must choose."""

    message: str
    type: Literal["text", "question", "clarification"]


class ChatResponse(BaseModel):
    """The result of a request.

    - conversation_id: the session's id.
    - external_conversation_id: the caller's own id of the conversation, returned unchanged.
    - observability_trace_id: the id of the invocation in logs and decisions.
    - error: null on success.
    """

    success: bool
    response: Reply | None = None
    conversation_id: str | None = None
    external_conversation_id: str | None = None
    observability_trace_id: str | None = None
    error: str | None = None


def error_responses() -> dict[int | str, dict[str, Any]]:
    """Returns the error responses for the OpenAPI document."""
    statuses = (400, 401, 403, 404, 408, 409, 413, 422, 429, 503, 507)
    return {status: {"model": ChatResponse, "description": "The request failed; see `error`."} for status in statuses}


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


def error_response(problem: Problem) -> Response:
    """Returns the protocol's response for a problem."""
    text = f"{problem.code}: {problem.problem} {_fix(problem)}".rstrip()
    body = ChatResponse(success=False, observability_trace_id=problem.request_id or None, error=text)
    return JSONResponse(body.model_dump(), problem.status, dict(problem.headers))


def _fix(problem: Problem) -> str:
    """Returns the fix in terms of this protocol's paths and fields."""
    if problem.code == EmptyMessage.code:
        return "Send a text as 'message'."
    if problem.code == WrongMethod.code:
        return "Send POST."
    if problem.code == NothingHere.code and not problem.where:
        return "There are POST /api/v1/graph-chat/chat and POST /api/v1/graph-chat/execute-agent."
    # The general fix only refers to the documentation.
    general = not problem.fix or DOCUMENTATION in problem.fix
    if problem.code == RequestInvalid.code and problem.where[:1] == ("body",) and general:
        model = ChatContext if problem.where[1:2] == ("context",) else ExecuteAgentRequest
        subject = "The fields of 'context' are" if model is ChatContext else "The fields are"
        more = "any other is for the agents" if model is ChatContext else "'agent_id' is for execute-agent alone"
        return f"{subject} {', '.join(model.model_fields)}; {more}."
    return problem.fix
