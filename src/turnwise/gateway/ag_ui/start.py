"""A run as what it asks for: messages of ours, one after the other.

resume          each answer is a message to what waits for it; a question that nobody answers is stopped with what asked it
new messages    one message, behind all that is in the session; if that is new, what the request tells of before comes first
neither         what is being answered in the session is read on; if nothing is, only state and messages are told
a known run id  the same message, told again
"""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents.approval import Answer
from turnwise.facts.callers import Caller
from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.content import Content
from turnwise.facts.errors import InvocationMissing, NothingHere, RequestInvalid, SessionMissing
from turnwise.facts.ids import ID_CHARACTERS, Issuer, SystemIssuer, is_storable_id
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.ag_ui.history import as_content, instructions_in, new_messages, past_of, still_wanted, unanswered
from turnwise.gateway.ag_ui.interrupts import InterruptAnswer, read_answers, waits_for_person
from turnwise.gateway.ag_ui.schema import RunBody
from turnwise.gateway.ag_ui.state import written_in
from turnwise.gateway.front import Front
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.conversations import ConversationRequest
from turnwise.gateway.services.invocations import Step, WaitAnswer
from turnwise.gateway.services.waits import waits_of
from turnwise.gateway.shared.exchanges import joined_instructions
from turnwise.gateway.shared.tool_calls import offered_tool
from turnwise.runner import Invocation

TEXTS = ("agent", "channel", "user_kind")
QUESTIONS = "questions"
INTERRUPT, MESSAGE = "interrupt", "message"
"""How a question of an agent's is put: as an interrupt, or as an answer to which the next message replies."""


class ForwardedProps(NamedTuple):
    """What stands in `forwardedProps` for us; attributes: the rest of it, and the context, for agents.

    questions: whether an agent's question is an interrupt; None = as the gateway is configured.
    """

    agent: str | None
    channel: str | None
    user_kind: str | None
    questions: bool | None
    attributes: dict[str, JsonValue]


def forwarded_props(body: RunBody) -> ForwardedProps:
    """RequestInvalid for a field of ours that holds something else."""
    given = body.forwarded_props
    rest: dict[str, JsonValue] = dict(given) if isinstance(given, dict) else {}
    if given is not None and not isinstance(given, dict):
        rest = {"forwardedProps": given}
    named = {name: _text(rest.pop(name, None), name) for name in TEXTS}
    questions = rest.pop(QUESTIONS, None)
    if questions not in (None, INTERRUPT, MESSAGE):
        raise _wrong(QUESTIONS, f"Send {INTERRUPT!r} or {MESSAGE!r}.")
    if body.context:
        rest["context"] = [{"description": each.description, "value": each.value} for each in body.context]
    agent, channel, user_kind = map(named.get, TEXTS)
    return ForwardedProps(agent, channel, user_kind, None if questions is None else questions == INTERRUPT, rest)


def offers_in(body: RunBody) -> tuple[OfferedTool, ...]:
    """The application's tools. RequestInvalid for parameters that are no schema of an object."""
    made = []
    for place, tool in enumerate(body.tools or ()):
        parameters: Any = tool.parameters or None
        if parameters is not None and not isinstance(parameters, dict):
            where = ("body", "tools", place, "parameters")
            raise RequestInvalid("The parameters of a tool are no JSON schema.", fix="Send an object.", where=where)
        made.append(offered_tool(tool.name, tool.description, parameters))
    return tuple(made)


def _text(given: JsonValue, name: str) -> str | None:
    if not isinstance(given, str | None):
        raise _wrong(name, "Send a text.")
    return given


def _wrong(name: str, fix: str) -> RequestInvalid:
    return RequestInvalid(f"forwardedProps.{name} cannot be read.", fix=fix, where=("body", "forwardedProps", name))


class RunRequest(NamedTuple):
    """What a run asks for. run: its id. session: as it was before; None = there is none yet. first: the message that was
    handed in; None = there is none. rest: those behind it, as they are handed in. unknown: interrupts and calls that nobody
    waits for; skipped: places of files that nobody here can read. questions: whether questions of agents are interrupts.
    again: whether it is an answer to a message of another run that is read on.
    """

    key: SessionKey
    run: str
    session: Session | None
    first: Invocation | None
    rest: Sequence[Awaitable[Invocation]] = ()
    unknown: Sequence[str] = ()
    skipped: Sequence[tuple[str | int, ...]] = ()
    questions: bool = False
    again: bool = False


async def start_run(
    front: Front, caller: Caller, body: RunBody, user: str | None, view: Redactor, issuer: Issuer | None = None
) -> RunRequest:
    """The run, with its first message handed in. user: whom the request names. RequestInvalid, NothingHere, and whatever
    the doors raise: then nothing was begun.
    """
    ids = issuer or SystemIssuer()
    props = forwarded_props(body)
    key = front.scope.session(caller, "messages:write", body.thread_id or ids.new_id("session"), user)
    run = body.run_id or ids.new_id("message")
    if not is_storable_id(run):
        fix = f"Use 1 to {ID_CHARACTERS} characters without NUL or unpaired surrogates."
        raise RequestInvalid("This is no id of a run.", fix=fix, where=("body", "runId"))
    session = await session_now(front, caller, key)
    as_configured = front.config.protocols.ag_ui.questions == INTERRUPT
    asked = RunRequest(key, run, session, None, questions=as_configured if props.questions is None else props.questions)
    if session is not None:
        try:
            return asked._replace(first=await front.messages.find(caller, key.id, run, key.user))
        except InvocationMissing:
            pass
    return await _Start(front, caller, body, props, view, asked).begun()


async def session_now(front: Front, caller: Caller, key: SessionKey) -> Session | None:
    """The session as it is; None when there is none. Forbidden."""
    try:
        return await front.sessions.get(caller, key.id, key.user)
    except SessionMissing:
        return None


class _Start:
    """One request, on its way to what it asks for."""

    def __init__(
        self, front: Front, caller: Caller, body: RunBody, props: ForwardedProps, view: Redactor, asked: RunRequest
    ) -> None:
        self._front, self._caller, self._body, self._props, self._asked = front, caller, body, props, asked
        self._key, self._session = asked.key, asked.session
        self._offers = offers_in(body)
        self._state = written_in(body.state, view.state(asked.session) if asked.session else {})

    async def begun(self) -> RunRequest:
        body, head = self._body, self._session.head if self._session else None
        answers, unknown = read_answers(body.resume or (), waits_for_person(waits_of(head)) if head else ())
        said = new_messages(body.messages)
        if said.skipped and not said.new and not answers:
            where = ("body", *said.skipped[0])
            raise RequestInvalid("Nothing is fetched from elsewhere.", fix="Send a text, or the file as data.", where=where)
        told, late = still_wanted(said.new, head.calls) if head else (said.new, ())
        new = unanswered(told, head.recent if head else (), rest=bool(answers))
        new = [parts for parts in new if not _repeats(as_content([parts]), answers)]
        for each in answers:
            if each.answer is None:
                await self._front.invocations.cancel(self._caller, self._key.id, each.wait.invocation_id, self._key.user)
        steps = self._steps([each for each in answers if each.answer is not None], as_content(new) if new else None)
        asked = self._asked._replace(unknown=(*unknown, *late), skipped=said.skipped)
        if steps:
            first = await steps[0]()
            return asked._replace(first=first, rest=self._front.invocations.run_in_order(first, steps[1:]))
        return await self._without_message(asked, read_on=not answers)

    def _steps(self, answers: Sequence[InterruptAnswer], message: Content | None) -> list[Step]:
        """What the first of them writes to the state is there before it is answered. The last has the run's id."""
        last = len(answers) - (message is None)
        state: Mapping[str, JsonValue] = self._state
        steps: list[Step] = []
        for place, each in enumerate(answers):
            id_ = self._asked.run if place == last else _derived(self._asked.run, each.wait.call_id)
            steps.append(partial(self._answer, each, id_, state))
            state = {}
        if message is not None:
            steps.append(partial(self._send, message, state))
        return steps

    async def _answer(self, each: InterruptAnswer, id_: str, state: Mapping[str, JsonValue]) -> Invocation:
        answer, wait = each.answer, each.wait
        given = WaitAnswer(wait.call_id, "", id=id_, state=state)
        if isinstance(answer, Answer):
            given = given._replace(answer=answer.approved, reason=answer.reason)
        elif answer is not None:
            given = given._replace(answer=answer)
        return await self._front.invocations.answer(self._caller, self._key.id, wait.invocation_id, given, self._key.user)

    async def _send(self, message: Content, state: Mapping[str, JsonValue]) -> Invocation:
        body, props = self._body, self._props
        agent = None if message.tool_results else props.agent  # a result goes to who made the call
        if agent is not None and not self._front.addressees.has(self._caller, agent):
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
        talk = ConversationRequest(
            past=past_of(body.messages) if is_new else (),
            message=message,
            instructions=joined_instructions(instructions_in(body.messages, body.context or ())),
            user=self._key.user,
            session=self._key.id,
            agent=agent,
            context=context,
            config=self._front.runner.config.model_copy(update={"streaming": True}),
            id=self._asked.run,
        )
        return await self._front.conversations.send(self._caller, talk)

    async def _without_message(self, asked: RunRequest, *, read_on: bool) -> RunRequest:
        """Nothing is said: what the front end wrote is kept, and what is being answered is read on."""
        sessions, key = self._front.sessions, self._key
        open_ = self._session.head.invocations if self._session else {}
        running = [id_ for id_, each in open_.items() if each.state == "running"]
        if running and read_on:
            first = await self._front.messages.attach(self._caller, key.id, running[-1], key.user)
            return asked._replace(first=first, again=True)
        if self._state and self._session is not None:
            await sessions.write_state(self._caller, key.id, self._state, key.user)
        elif self._state:
            await sessions.create(self._caller, key.id, self._state, key.user)
        return asked


def _repeats(message: Content, answers: Sequence[InterruptAnswer]) -> bool:
    """Whether a front end shows an answer to a question as a message, too."""
    return any(isinstance(each.answer, str) and each.answer.strip() == message.text.strip() for each in answers)


def _derived(run: str, call_id: str) -> str:
    """The id of an answer that is not the run's last message."""
    return "answer-" + sha256("\0".join((run, call_id)).encode(errors="replace")).hexdigest()
