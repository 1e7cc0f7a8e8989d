"""The bodies of the reference router (behaviour C12)."""

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response

from turnwise.facts.depth import DEEPEST, is_deep
from turnwise.facts.errors import EmptyMessage, NothingHere, RequestInvalid, WrongMethod
from turnwise.gateway.documentation import DOCUMENTATION
from turnwise.gateway.problems import Problem


class ChatContext(BaseModel):
    """What is known beside the message. Whatever else stands here is for the agents, as attributes of the message.

    customer_id: whose conversation it is, for a credential that acts for users; for any other it is an attribute.
    direct_agent_id: who is to answer (behaviour C1). previous_agents: who helped before, newest last (C17). channel,
    user_type: of the policy's segments (C18).
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
        if is_deep(self.model_extra):
            raise PydanticCustomError("deep", f"It is nested more than {DEEPEST} levels deep")
        try:
            json.dumps(self.model_extra, allow_nan=False)
        except ValueError:
            raise PydanticCustomError("json", "It holds a number that is no JSON") from None
        return self

    @property
    def attributes(self) -> dict[str, JsonValue]:
        """What agents may read of it."""
        named: dict[str, JsonValue] = {
            "customer_id": self.customer_id,
            "external_conversation_id": self.external_conversation_id,
        }
        return {name: value for name, value in named.items() if value is not None} | (self.model_extra or {})


class ChatRequest(BaseModel):
    """A message of a conversation. session_id: null begins a new one. message_id: the sender's own, so that it may be sent
    again."""

    message: str = Field(examples=["Where is my order 1001?"])
    session_id: str | None = Field(default=None, examples=["s-1"])
    message_id: str | None = None
    context: ChatContext | None = None

    @property
    def known(self) -> ChatContext:
        """The context; an empty one when there is none."""
        return self.context or ChatContext()


class ExecuteAgentRequest(ChatRequest):
    """A message for one agent, past the router."""

    agent_id: str = Field(examples=["orders"])


class Reply(BaseModel):
    """type: `text`; `question` when the agent waits for an answer to it; `clarification` when the user is to choose."""

    message: str
    type: Literal["text", "question", "clarification"]


class ChatResponse(BaseModel):
    """conversation_id: of the session. external_conversation_id: what the caller calls it. observability_trace_id: of the
    invocation, by which logs and decisions know it. error: null when all went well."""

    success: bool
    response: Reply | None = None
    conversation_id: str | None = None
    external_conversation_id: str | None = None
    observability_trace_id: str | None = None
    error: str | None = None


def error_response(problem: Problem) -> Response:
    """What went wrong with a request, as these clients know it."""
    told = f"{problem.code}: {problem.problem} {_fix(problem)}".rstrip()
    body = ChatResponse(success=False, observability_trace_id=problem.request_id or None, error=told)
    return JSONResponse(body.model_dump(), problem.status, dict(problem.headers))


def _fix(problem: Problem) -> str:
    """What to do, in the words of this protocol: its paths and its fields."""
    if problem.code == EmptyMessage.code:
        return "Send a text as 'message'."
    if problem.code == WrongMethod.code:
        return "Send POST."
    if problem.code == NothingHere.code and not problem.where:
        return "There are POST /api/v1/graph-chat/chat and POST /api/v1/graph-chat/execute-agent."
    # The general fix only says where to look, if there is such a place.
    general = not problem.fix or DOCUMENTATION in problem.fix
    if problem.code == RequestInvalid.code and problem.where[:1] == ("body",) and general:
        known = ChatContext if problem.where[1:2] == ("context",) else ExecuteAgentRequest
        place = "The fields of 'context' are" if known is ChatContext else "The fields are"
        more = "any other is for the agents" if known is ChatContext else "'agent_id' is for execute-agent alone"
        return f"{place} {', '.join(known.model_fields)}; {more}."
    return problem.fix


def error_responses() -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI says of answers that are none."""
    statuses = (400, 401, 403, 404, 408, 409, 413, 422, 429, 503, 507)
    return {status: {"model": ChatResponse, "description": "`error` says why."} for status in statuses}
