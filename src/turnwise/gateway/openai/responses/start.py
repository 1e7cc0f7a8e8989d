"""Turns a request for a response into a message, and finds the session and the position that it belongs to.

previous_response_id    after that response; in a fork, if other messages follow it already
conversation            at the end of that session
items of a response     after that response, for clients that send the whole conversation with each request
a conversation          after the matching turns, as for chat completions: `gateway/services/conversations.py`
none of these           in a new session

A response that is not stored always goes to its own session, with a copy of the earlier events. The session is deleted after
the response was sent.
"""

from collections.abc import Awaitable, Container
from contextlib import suppress
from typing import NamedTuple

from turnwise.facts.errors import InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.messages import Message
from turnwise.gateway.front import Front
from turnwise.gateway.openai.errors import invalid_parameter
from turnwise.gateway.openai.models import SELECTING_MODEL, agent_of_model
from turnwise.gateway.openai.responses.input import ReadInput, read_input
from turnwise.gateway.openai.responses.response import (
    UNSTORED,
    ResponseId,
    as_missing,
    context_of,
    created_at,
    new_message,
    new_response,
    parse_response_id,
    services_of_response,
    unstored_session,
)
from turnwise.gateway.openai.responses.schema import Create, ResponseObject
from turnwise.gateway.services import Services
from turnwise.gateway.services.conversations import ConversationRequest
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.shared.exchanges import ID_PREFIX, message_ids
from turnwise.gateway.shared.packed_ids import new_session
from turnwise.runner import Invocation


class StartedResponse(NamedTuple):
    """A response that was started."""

    name: ResponseId
    blank: ResponseObject
    """The response before it has output."""
    invocation: Invocation
    services: Services
    """The services for its caller and user."""

    @property
    def is_temporary(self) -> bool:
        """Whether its session holds only unstored responses, so that it is deleted."""
        return not self.name.stored and self.name.session.startswith(UNSTORED)


async def start_response(
    front: Front, services: Services, body: Create, key: str | None = None, *, known: Container[str] = ()
) -> StartedResponse:
    """Starts the response that the request asks for.

    Args:
        front: The app.
        services: The services for the caller and the user that the request names.
        body: The request.
        key: The idempotency key: a repeated request with the same key and input is the same request.
        known: Ids of unstored responses that this caller may still continue from.

    Raises:
        RequestInvalid: The input has no new message, or is malformed.
        NothingHere: A response, conversation or agent that the request names does not exist.
        TurnwiseError: As for `Messages.start`.
    """
    received = read_input(body.input, body.instructions)
    if not received.message.parts:
        raise invalid_parameter(
            "input", "The input has no new message.", fix="End the input with a message, or the output of a call."
        )
    if key is not None:  # the same key with another input is another request
        key = "\0".join((key, message_ids(received.past, received.content)[-1]))
    agent = agent_of_model(services, SELECTING_MODEL if body.model is None else body.model)
    caller = services.scope.caller
    if services.scope.named is None and caller.acts_for_users:
        services = services.for_user(body.user or body.safety_identifier)
    config = front.runner.config.replace(streaming=bool(body.stream or body.background), create_session=False)
    draft = MessageRequest("", received.content, new_message(key, stored=not body.unstored), context_of(body), config)
    if not received.message.tool_results:  # a tool result goes to the agent that made the call, whichever the request names
        draft = draft._replace(agent=agent)
    if body.previous_response_id is not None:
        invocation = await _start_after_previous(services, body, draft, key, known)
    else:
        invocation = await _start_elsewhere(front, services, body, received, draft, key)
    session = invocation.session
    name = ResponseId(session.id, invocation.message_id, None if session.user == caller.user else session.user)
    message = Message(id=invocation.message_id, content=received.content, context=draft.context)
    begun = None if created_at(message.id) else await services.threads.begun(invocation)
    return StartedResponse(name, new_response(name, message, begun), invocation, services)


async def _start_after_previous(
    services: Services, body: Create, draft: MessageRequest, key: str | None, known: Container[str]
) -> Invocation:
    """Continues from the response that `previous_response_id` names. An unstored one is found only on its own connection."""
    given = body.previous_response_id or ""
    name = parse_response_id(given)
    if name is not None and not name.stored and given not in known:
        name = None
    copy = unstored_session(key) if body.unstored else None
    return await _naming_missing(_start_after(services, draft, name, copy), "previous_response_id", given)


async def _start_elsewhere(
    front: Front, services: Services, body: Create, received: ReadInput, draft: MessageRequest, key: str | None
) -> Invocation:
    """Starts a response without `previous_response_id`.

    In order: in the named conversation, after a response among the input items, in the session of an answered tool call, in the
    session with a log that matches the past items, in a new session.
    """
    if (conversation := body.conversation) is not None:
        draft = draft._replace(session=conversation)
        return await _naming_missing(services.messages.start(draft), "conversation", conversation)
    new = unstored_session(key) if body.unstored else None
    if received.after is not None and received.after.stored:
        with suppress(InvocationMissing, SessionMissing):
            return await _start_after(services, draft, received.after, new)
    call = received.call if received.message.tool_results else None
    if call is not None and not call.session.startswith(ID_PREFIX):
        draft = draft._replace(session=call.session)
        named = services.scope.named
        answering = services.for_user(call.user if named is None else named).messages.start(draft)
        return await _naming_missing(answering, "input", call.session)
    fresh = front.runner.config.replace(streaming=bool(body.stream or body.background), create_session=True)
    if received.past or received.message.tool_results:
        conversation_request = ConversationRequest(
            received.past, received.message, received.instructions, session=new, id=new and draft.id, key=key
        )
        conversation_request = conversation_request._replace(agent=draft.agent, context=draft.context, config=fresh)
        return await services.conversations.send(conversation_request)
    return await services.messages.start(draft._replace(session=new or new_session(key), config=fresh))


async def _start_after(services: Services, draft: MessageRequest, name: ResponseId | None, copy: str | None) -> Invocation:
    """Continues after that response, in its session or in a copy of it. Raises InvocationMissing for an unknown id."""
    if name is None:
        raise InvocationMissing("This is not the id of a response.")
    with as_missing(services.scope.named, name):
        threads = services_of_response(services, name).threads
        draft = draft._replace(session=name.session)
        return await threads.start(draft, name.message, copy=copy, apart=copy is not None and name.stored)


async def _naming_missing(starting: Awaitable[Invocation], parameter: str, id_: str) -> Invocation:
    """Awaits the invocation; converts a missing session or message to NothingHere, which names the parameter."""
    try:
        return await starting
    except (InvocationMissing, SessionMissing):
        raise NothingHere(f"{parameter}: there is no {id_[:100]!r}.", fix="Check the id.", where=("body", parameter)) from None
