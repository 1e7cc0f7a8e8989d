"""Starts a task with a message, or answers what a waiting task waits for."""

from collections.abc import Sequence
from typing import NamedTuple

from a2a.types import SendMessageRequest
from a2a.utils.errors import UnsupportedOperationError
from pydantic import JsonValue

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.errors import InvocationMissing, MessageBlocked
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.waits import Wait
from turnwise.gateway.a2a.messages import AGENT_KEY, CALL_KEY, IncomingMessage, invalid_field
from turnwise.gateway.a2a.request import OperationRequest, TaskId
from turnwise.gateway.a2a.tasks import FINAL_STATES, TaskRecord, find_task, services_of_task
from turnwise.gateway.front import Front
from turnwise.gateway.services import Services
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.shared.packed_ids import new_session
from turnwise.runner import Invocation

APPROVED, REASON, RESULT, FAILED = "approved", "reason", "result", "failed"
"""Keys of data parts: whether a tool call is approved and why; a tool's result and whether it is an error."""


def answer_to(waits: Sequence[Wait], message: IncomingMessage) -> tuple[Content, MessageContext]:
    """Builds the message that answers a wait: the one that the message names, or the oldest.

    A reply may be any content. An approval must be data, or a plain yes. A tool result must be data, because text could come
    from anyone.

    Raises:
        RequestInvalid: The named wait is not open, or the data does not fit it.
    """
    wait, data = _select_wait(waits, message), message.data
    if wait.kind == "reply":
        return message.content, message.context.replace(answers=wait.id)
    part = ToolResultPart(call_id=wait.id, tool=wait.tool)
    if wait.kind == "confirmation":
        return _content(
            part, {"approved": _approval(data), REASON: data.get(REASON)} if APPROVED in data else message.content.text, message
        )
    if RESULT not in data:
        problem = f"The task waits for the result of the tool {wait.tool!r}."
        raise invalid_field("message.parts", problem, fix='Send it as data: {"callId": …, "result": …}.')
    return _content(part.replace(failed=data.get(FAILED) is True), data[RESULT], message)


def _select_wait(waits: Sequence[Wait], message: IncomingMessage) -> Wait:
    """Returns the wait that the message names by its call id; without an id, the first. Raises for an unknown id."""
    call_id = message.call if message.call is not None else message.data.get(CALL_KEY)
    selected = next((wait for wait in waits if call_id in (None, wait.id)), None)
    if selected is None:
        raise invalid_field(
            f"metadata.{CALL_KEY}", "The task does not wait for this call.", fix="See the open waits in its status."
        )
    return selected


def _approval(data: dict[str, JsonValue]) -> bool:
    approved = data[APPROVED]
    if not isinstance(approved, bool):
        raise invalid_field(f"data.{APPROVED}", "The value is not a boolean.")
    return approved


def _content(part: ToolResultPart, result: JsonValue, message: IncomingMessage) -> tuple[Content, MessageContext]:
    return Content(role="user", parts=(part.replace(result=result),)), message.context


class SentMessage(NamedTuple):
    """A message that was handed to the runner."""

    name: TaskId
    """The task."""
    content: Content
    """The message's content."""
    before: Sequence[Event]
    """The task's events before this message."""
    invocation: Invocation
    """The invocation that answers it."""


async def send_message(
    front: Front, operation: OperationRequest, request: SendMessageRequest, incoming: IncomingMessage, *, streaming: bool
) -> SentMessage | TaskRecord:
    """Hands a message to the runner; a repeated message id returns the same invocation.

    Returns:
        The sent message, or the rejected task if a guardrail blocked the message that would have begun it.

    Raises:
        TaskNotFoundError: The message names an unknown task.
        UnsupportedOperationError: The task is over, or does not wait for a message.
        RequestInvalid: The message does not fit the task. Errors of `Messages.start` pass through.
    """
    config = front.runner.config.replace(streaming=streaming, create_session=True)
    message = request.message
    draft = MessageRequest("", incoming.content, message.message_id, incoming.context, config)
    if message.task_id:
        return await _answer_task(operation, request, incoming, draft)
    if incoming.agent is not None and not operation.services.addressees.has(incoming.agent):
        raise invalid_field(
            f"metadata.{AGENT_KEY}",
            "No agent of that name is available to this caller.",
            fix="See the skills of the agent card.",
        )
    session = message.context_id or new_session()
    return await _start_task(operation, draft._replace(session=session, agent=incoming.agent))


async def _start_task(operation: OperationRequest, draft: MessageRequest) -> SentMessage | TaskRecord:
    """Sends the message as a new task. Returns the stored task instead if a guardrail blocked the message."""
    try:
        invocation = await operation.services.messages.start(draft)
    except MessageBlocked:
        user = operation.services.scope.user("messages:write")
        name = _name(operation, draft.session, draft.id or "", user)
        return await find_task(operation, name.id, to="messages:write")
    key = invocation.session
    assert isinstance(draft.content, Content)
    return SentMessage(_name(operation, key.id, invocation.message_id, key.user), draft.content, (), invocation)


async def _answer_task(
    operation: OperationRequest, request: SendMessageRequest, incoming: IncomingMessage, draft: MessageRequest
) -> SentMessage:
    """Sends the message as the answer to a waiting task; a repeated message finds its earlier answer.

    Raises for a task that is over, waits for nothing, or belongs to another context.
    """
    message = request.message
    record = await find_task(operation, message.task_id, to="messages:write")
    if message.context_id and message.context_id != record.name.session:
        raise invalid_field("message.contextId", "The task belongs to another context.", fix="Leave out contextId.")
    draft, services = draft._replace(session=record.name.session), services_of_task(operation, record.name)
    if (invocation := await _find_repeated(services, record, draft)) is not None:
        return SentMessage(record.name, incoming.content, record.before(invocation.message_id), invocation)
    if record.state(operation.view) in FINAL_STATES:
        raise UnsupportedOperationError("The task is over. Start another: send the message with its contextId alone.")
    waits = record.waits(operation.view)
    if not waits:
        raise UnsupportedOperationError("The task does not wait for a message. Send it with the contextId alone, or later.")
    content, context = answer_to(waits, incoming)
    invocation = await services.messages.start(draft._replace(content=content, context=context))
    return SentMessage(record.name, content, record.events, invocation)


async def _find_repeated(services: Services, record: TaskRecord, draft: MessageRequest) -> Invocation | None:
    """Returns the invocation of a message id that the task already has; None for a new id."""
    assert draft.id is not None
    try:
        known = await services.threads.known(draft.session, draft.id, to="messages:write")
    except InvocationMissing:
        return None
    result = known.reading.result if known.reading else None
    is_first = draft.id == record.name.message
    if not is_first and (result is None or not record.events or result.invocation_id != record.events[0].invocation_id):
        raise invalid_field("message.messageId", "Another message of this context has that id.", fix="Send it under a new id.")
    return await services.messages.start(draft._replace(content=known.receipt.message.content))


def _name(operation: OperationRequest, session: str, message: str, user: str) -> TaskId:
    return TaskId(session, message, None if user == operation.caller.user else user)
