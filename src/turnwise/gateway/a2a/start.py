"""A message becomes the beginning of a task, or the answer to what a task waits for."""

from collections.abc import Sequence
from typing import NamedTuple

from a2a.types import SendMessageRequest
from a2a.utils.errors import UnsupportedOperationError
from pydantic import JsonValue

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.errors import InvocationMissing, MessageBlocked
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.gateway.a2a.ids import TaskId
from turnwise.gateway.a2a.lookup import find_task, user_of_task
from turnwise.gateway.a2a.messages import AGENT, CALL, IncomingMessage, invalid_field
from turnwise.gateway.a2a.request import OperationRequest
from turnwise.gateway.a2a.task_state import OVER, TaskRecord
from turnwise.gateway.front import Front
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.shared.packed_ids import new_session
from turnwise.gateway.shared.waits import OpenWait
from turnwise.runner import Invocation

APPROVED, REASON, RESULT, FAILED = "approved", "reason", "result", "failed"
"""What data parts say by name: a person's word on a call, and why; what a call gave, and whether that describes an error."""


def answer_to(waits: Sequence[OpenWait], given: IncomingMessage) -> tuple[Content, MessageContext]:
    """The message that answers one of these waits: the one that it names, or the oldest. RequestInvalid.

    A reply may be anything. Leave to call a tool is given by data, or by a plain yes; what a tool gave is said by data alone:
    words could be anybody's.
    """
    wait, said = _meant(waits, given), given.data
    if wait.kind == "reply":
        return given.content, given.context.model_copy(update={"answers": wait.awaited.id})
    tool = wait.call.tool if wait.call else ""
    part = ToolResultPart(call_id=wait.awaited.id, tool=tool)
    if wait.kind == "confirmation":
        return _content(
            part, {"approved": _word(said), REASON: said.get(REASON)} if APPROVED in said else given.content.text, given
        )
    if RESULT not in said:
        problem = f"The task waits for what the tool {tool!r} gave."
        raise invalid_field("message.parts", problem, fix='Send it as data: {"callId": …, "result": …}.')
    return _content(part.model_copy(update={FAILED: said.get(FAILED) is True}), said[RESULT], given)


def _meant(waits: Sequence[OpenWait], given: IncomingMessage) -> OpenWait:
    named = given.call if given.call is not None else given.data.get(CALL)
    found = next((wait for wait in waits if named in (None, wait.awaited.id)), None)
    if found is None:
        raise invalid_field(f"metadata.{CALL}", "The task does not wait for that.", fix="See its status for what it waits for.")
    return found


def _word(said: dict[str, JsonValue]) -> bool:
    word = said[APPROVED]
    if not isinstance(word, bool):
        raise invalid_field(f"data.{APPROVED}", "It is neither true nor false.")
    return word


def _content(part: ToolResultPart, result: JsonValue, given: IncomingMessage) -> tuple[Content, MessageContext]:
    return Content(role="user", parts=(part.model_copy(update={"result": result}),)), given.context


class SentMessage(NamedTuple):
    """A message on its way. before: what was on record of its task before it."""

    name: TaskId
    content: Content
    before: Sequence[Event]
    invocation: Invocation


async def send_message(
    front: Front, asking: OperationRequest, request: SendMessageRequest, given: IncomingMessage, *, streaming: bool
) -> SentMessage | TaskRecord:
    """The message as it was handed in; or the task, if guardrails rejected the message that would have begun it. given: what
    the request says.

    TaskNotFoundError, UnsupportedOperationError, RequestInvalid, and whatever `Messages.start` raises.
    """
    update = {"streaming": streaming, "create_session": True}
    config = front.runner.config.model_copy(update=update)
    message = request.message
    ask = MessageRequest("", given.content, asking.user, message.message_id, given.context, config)
    if message.task_id:
        return await _answered(front, asking, request, given, ask)
    if given.agent is not None and not front.addressees.has(asking.caller, given.agent):
        raise invalid_field(f"metadata.{AGENT}", "There is no such agent for you.", fix="See the skills of the agent card.")
    session = message.context_id or new_session()
    return await _begun(front, asking, ask._replace(session=session, agent=given.agent))


async def _begun(front: Front, asking: OperationRequest, ask: MessageRequest) -> SentMessage | TaskRecord:
    try:
        invocation = await front.messages.start(asking.caller, ask)
    except MessageBlocked:
        user = front.scope.user(asking.caller, "messages:write", ask.user)
        name = _name(asking, ask.session, ask.id or "", user)
        return await find_task(front, asking, name.id, to="messages:write")
    key = invocation.session
    assert isinstance(ask.content, Content)
    return SentMessage(_name(asking, key.id, invocation.message_id, key.user), ask.content, (), invocation)


async def _answered(
    front: Front, asking: OperationRequest, request: SendMessageRequest, given: IncomingMessage, ask: MessageRequest
) -> SentMessage:
    message = request.message
    record = await find_task(front, asking, message.task_id, to="messages:write")
    if message.context_id and message.context_id != record.name.session:
        raise invalid_field("message.contextId", "The task belongs to another context.", fix="Leave out contextId.")
    ask = ask._replace(session=record.name.session, user=user_of_task(asking, record.name))
    if (invocation := await _again(front, asking, record, ask)) is not None:
        return SentMessage(record.name, given.content, record.before(invocation.message_id), invocation)
    if record.state(asking.view) in OVER:
        raise UnsupportedOperationError("The task is over. Begin another: send the message with its contextId alone.")
    waits = record.waits(asking.view)
    if not waits:
        raise UnsupportedOperationError("The task does not wait for a message. Send it with the contextId alone, or later.")
    content, context = answer_to(waits, given)
    invocation = await front.messages.start(asking.caller, ask._replace(content=content, context=context))
    return SentMessage(record.name, content, record.events, invocation)


async def _again(front: Front, asking: OperationRequest, record: TaskRecord, ask: MessageRequest) -> Invocation | None:
    """The handle of a message that was sent to the task before."""
    assert ask.id is not None
    try:
        known = await front.threads.known(asking.caller, ask.session, ask.id, ask.user, to="messages:write")
    except InvocationMissing:
        return None
    result = known.reading.result if known.reading else None
    is_first = ask.id == record.name.message
    if not is_first and (result is None or not record.events or result.invocation_id != record.events[0].invocation_id):
        raise invalid_field("message.messageId", "Another message of this context has that id.", fix="Send it under a new id.")
    return await front.messages.start(asking.caller, ask._replace(content=known.receipt.message.content))


def _name(asking: OperationRequest, session: str, message: str, user: str) -> TaskId:
    return TaskId(session, message, None if user == asking.caller.user else user)
