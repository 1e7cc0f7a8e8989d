"""The request and response bodies of graph-chat, the API of the router that the policy `staples` follows (behaviour C12)."""

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response

from turnwise.facts.errors import EmptyMessage, NothingHere, RequestInvalid, WrongMethod
from turnwise.facts.sizes import DEEPEST, is_deep
from turnwise.gateway.openapi import DOCUMENTATION
from turnwise.gateway.problems import Problem


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


def error_responses() -> dict[int | str, dict[str, Any]]:
    """Returns the error responses for the OpenAPI document."""
    statuses = (400, 401, 403, 404, 408, 409, 413, 422, 429, 503, 507)
    return {status: {"model": ChatResponse, "description": "The request failed; see `error`."} for status in statuses}
