"""Converts a run request into the messages it hands to the runner.

resume          each answer is a message to its wait; an entry without an answer cancels the asking invocation
new messages    one message; in an empty session the request's earlier messages are imported first
neither         attaches to the running invocation; if there is none, returns state and messages only
known run id    attaches to the same message again
"""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents.approval import Answer
from turnwise.facts.content import Content
from turnwise.facts.errors import InvocationMissing, NothingHere, RequestInvalid, SessionMissing
from turnwise.facts.ids import ID_CHARACTERS, Issuer, SystemIssuer, is_storable_id
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.facts.sessions import Session, SessionKey
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.facts.waits import waits_of
from turnwise.gateway.ag_ui.interrupts import InterruptAnswer, read_answers, waits_for_person
from turnwise.gateway.ag_ui.messages import (
    instructions_in,
    merged_content,
    new_messages,
    past_turns,
    without_late_results,
    without_repeated,
)
from turnwise.gateway.ag_ui.schema import RunBody, changed_keys
from turnwise.gateway.front import Front
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.conversations import ConversationRequest
from turnwise.gateway.services.invocations import Step, WaitAnswer
from turnwise.gateway.shared.content import offered_tool
from turnwise.gateway.shared.exchanges import joined_instructions
from turnwise.runner import Invocation

TEXTS = ("agent", "channel", "user_kind")
QUESTIONS = "questions"
INTERRUPT, MESSAGE = "interrupt", "message"
"""How an agent's question is shown: as an interrupt, or as an answer that the next message replies to."""


class ForwardedProps(NamedTuple):
    """The fields of `forwardedProps` that Turnwise defines."""

    agent: str | None
    channel: str | None
    user_kind: str | None
    questions: bool | None
    """True if an agent's question is an interrupt; None = as configured."""
    attributes: dict[str, JsonValue]
    """All other fields, and the request's context, as attributes for agents."""


def forwarded_props(body: RunBody) -> ForwardedProps:
    """Parses `forwardedProps`. Raises RequestInvalid."""
    props = body.forwarded_props
    rest: dict[str, JsonValue] = dict(props) if isinstance(props, dict) else {}
    if props is not None and not isinstance(props, dict):
        rest = {"forwardedProps": props}
    named = {name: _text(rest.pop(name, None), name) for name in TEXTS}
    questions = rest.pop(QUESTIONS, None)
    if questions not in (None, INTERRUPT, MESSAGE):
        raise _invalid(QUESTIONS, f"Send {INTERRUPT!r} or {MESSAGE!r}.")
    if body.context:
        rest["context"] = [{"description": item.description, "value": item.value} for item in body.context]
    agent, channel, user_kind = map(named.get, TEXTS)
    return ForwardedProps(agent, channel, user_kind, None if questions is None else questions == INTERRUPT, rest)


def offered_tools(body: RunBody) -> tuple[OfferedTool, ...]:
    """Returns the application's tools. Raises RequestInvalid unless each parameter schema is an object."""
    tools = []
    for index, tool in enumerate(body.tools or ()):
        parameters: Any = tool.parameters or None
        if parameters is not None and not isinstance(parameters, dict):
            where = ("body", "tools", index, "parameters")
            raise RequestInvalid("The parameters of a tool must be a JSON schema.", fix="Send an object.", where=where)
        tools.append(offered_tool(tool.name, tool.description, parameters))
    return tuple(tools)


def _text(value: JsonValue, name: str) -> str | None:
    if not isinstance(value, str | None):
        raise _invalid(name, "Send a text.")
    return value


def _invalid(name: str, fix: str) -> RequestInvalid:
    return RequestInvalid(f"forwardedProps.{name} cannot be read.", fix=fix, where=("body", "forwardedProps", name))


class RunRequest(NamedTuple):
    """A run after its first message was handed in."""

    key: SessionKey
    run: str
    """The run's id."""
    session: Session | None
    """The session before the run; None = there is none yet."""
    first: Invocation | None
    """The invocation of the first message; None = there is no message."""
    rest: Sequence[Awaitable[Invocation]] = ()
    """The further messages, handed in one after the other."""
    unknown: Sequence[str] = ()
    """Interrupts and calls in the request that are not open."""
    skipped: Sequence[tuple[str | int, ...]] = ()
    """The places of files that cannot be read."""
    questions: bool = False
    """True if agents' questions are interrupts."""
    is_reattached: bool = False
    """True if the run attaches to an invocation of another run."""


async def start_run(
    front: Front, services: Services, body: RunBody, view: Redactor, issuer: Issuer | None = None
) -> RunRequest:
    """Validates a run request and hands in its first message. Nothing is started if it raises.

    Args:
        front: The app.
        services: The services for the caller and the user that the request names.
        body: The request.
        view: Redacts events for the caller.
        issuer: The source of ids.

    Raises:
        RequestInvalid, NothingHere: The request does not fit. Errors of the gateway's services pass through.
    """
    ids = issuer or SystemIssuer()
    props = forwarded_props(body)
    key = services.scope.session("messages:write", body.thread_id or ids.new_id("session"))
    run = body.run_id or ids.new_id("message")
    if not is_storable_id(run):
        fix = f"Use 1 to {ID_CHARACTERS} characters without NUL or unpaired surrogates."
        raise RequestInvalid("This is not a valid run id.", fix=fix, where=("body", "runId"))
    session = await current_session(services, key)
    as_configured = front.config.protocols.ag_ui.questions == INTERRUPT
    run_request = RunRequest(key, run, session, None, questions=as_configured if props.questions is None else props.questions)
    if session is not None:
        try:
            return run_request._replace(first=await services.messages.find(key.id, run))
        except InvocationMissing:
            pass
    return await _Start(front, services, body, props, view, run_request).execute()


async def current_session(services: Services, key: SessionKey) -> Session | None:
    """Returns the session; None if there is none. Raises Forbidden."""
    try:
        return await services.sessions.get(key.id)
    except SessionMissing:
        return None


class _Start:
    """Executes one run request."""

    def __init__(
        self, front: Front, services: Services, body: RunBody, props: ForwardedProps, view: Redactor, run_request: RunRequest
    ) -> None:
        self._front, self._services, self._body, self._props, self._run_request = front, services, body, props, run_request
        self._key, self._session = run_request.key, run_request.session
        self._offers = offered_tools(body)
        self._state = changed_keys(body.state, view.state(run_request.session) if run_request.session else {})

    async def execute(self) -> RunRequest:
        """Separates answers and new messages from repeated ones, and starts the first step. The others run after it."""
        body, head = self._body, self._session.head if self._session else None
        answers, unknown = read_answers(body.resume or (), waits_for_person(waits_of(head)) if head else ())
        new_input = new_messages(body.messages)
        if new_input.skipped and not new_input.new and not answers:
            where = ("body", *new_input.skipped[0])
            raise RequestInvalid("Nothing is fetched from elsewhere.", fix="Send a text, or the file as data.", where=where)
        relevant, late = without_late_results(new_input.new, head.calls) if head else (new_input.new, ())
        new = without_repeated(relevant, head.recent if head else (), rest=bool(answers))
        new = [parts for parts in new if not _repeats(merged_content([parts]), answers)]
        for answer in answers:
            if answer.answer is None:
                await self._services.invocations.cancel(self._key.id, answer.wait.invocation_id)
        steps = self._steps([answer for answer in answers if answer.answer is not None], merged_content(new) if new else None)
        run_request = self._run_request._replace(unknown=(*unknown, *late), skipped=new_input.skipped)
        if steps:
            first = await steps[0]()
            return run_request._replace(first=first, rest=self._services.invocations.run_in_order(first, steps[1:]))
        return await self._without_message(run_request, read_on=not answers)

    def _steps(self, answers: Sequence[InterruptAnswer], message: Content | None) -> list[Step]:
        """Builds the messages to hand in. The first one writes the state before it runs; the last one has the run's id."""
        last = len(answers) - (message is None)
        state: Mapping[str, JsonValue] = self._state
        steps: list[Step] = []
        for index, answer in enumerate(answers):
            id_ = self._run_request.run if index == last else _answer_id(self._run_request.run, answer.wait.id)
            steps.append(partial(self._answer, answer, id_, state))
            state = {}
        if message is not None:
            steps.append(partial(self._send, message, state))
        return steps

    async def _answer(self, interrupt_answer: InterruptAnswer, id_: str, state: Mapping[str, JsonValue]) -> Invocation:
        """Answers one wait with the text or approval of its `resume` entry."""
        answer, wait = interrupt_answer.answer, interrupt_answer.wait
        wait_answer = WaitAnswer(wait.id, "", id=id_, state=state)
        if isinstance(answer, Answer):
            wait_answer = wait_answer._replace(answer=answer.approved, reason=answer.reason)
        elif answer is not None:
            wait_answer = wait_answer._replace(answer=answer)
        return await self._services.invocations.answer(self._key.id, wait.invocation_id, wait_answer)

    async def _send(self, message: Content, state: Mapping[str, JsonValue]) -> Invocation:
        """Sends the new message; a new session also gets the past turns. Raises NothingHere for an unknown agent."""
        body, props = self._body, self._props
        agent = None if message.tool_results else props.agent  # a result goes to the agent that made the call
        if agent is not None and not self._services.addressees.has(agent):
            where = ("forwardedProps", "agent")
            raise NothingHere(f"There is no agent {agent[:NAME_CHARACTERS]!r} for you.", fix="Correct it.", where=where)
        context = MessageContext(
            channel=props.channel,
            user_kind=props.user_kind,
            attributes=props.attributes,
            tools=self._offers,
            state=dict(state),
        )
        is_new = self._session is None or not self._session.last_sequence
        conversation = ConversationRequest(
            past=past_turns(body.messages) if is_new else (),
            message=message,
            instructions=joined_instructions(instructions_in(body.messages, body.context or ())),
            session=self._key.id,
            agent=agent,
            context=context,
            config=self._front.runner.config.replace(streaming=True),
            id=self._run_request.run,
        )
        return await self._services.conversations.send(conversation)

    async def _without_message(self, run_request: RunRequest, *, read_on: bool) -> RunRequest:
        """Attaches to the running invocation, or stores the front end's state."""
        sessions, key = self._services.sessions, self._key
        open_ = self._session.head.invocations if self._session else {}
        running = [id_ for id_, each in open_.items() if each.state == "running"]
        if running and read_on:
            first = await self._services.messages.attach(key.id, running[-1])
            return run_request._replace(first=first, is_reattached=True)
        if self._state and self._session is not None:
            await sessions.write_state(key.id, self._state)
        elif self._state:
            await sessions.create(key.id, self._state)
        return run_request


def _repeats(message: Content, answers: Sequence[InterruptAnswer]) -> bool:
    """Returns whether the message repeats an answer, which some front ends send as a message too."""
    return any(isinstance(answer.answer, str) and answer.answer.strip() == message.text.strip() for answer in answers)


def _answer_id(run: str, call_id: str) -> str:
    """Returns the message id of an answer that is not the run's last message."""
    return "answer-" + sha256("\0".join((run, call_id)).encode(errors="replace")).hexdigest()
