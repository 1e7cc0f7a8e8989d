"""Messages: handed in, looked up again, or only judged."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

from turnwise.access.quotas import Quotas
from turnwise.access.rights import may_report_late_results, roles_of
from turnwise.facts.callers import Caller
from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.content import Content
from turnwise.facts.errors import Closing, Forbidden, KeyReused, NothingHere, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.services.revisions import Expected
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.gateway.services.sessions import check_state
from turnwise.runner import Invocation, Runner
from turnwise.selection.resume import tool_result_owner
from turnwise.transcript.waits import Kind, kind_of


async def check_results(
    runner: Runner, caller: Caller, key: SessionKey, content: str | Content, message_id: str | None, *, create: bool
) -> None:
    """Whether the caller is believed what the message says that calls gave. create: whether the session may be missing.

    A user gives what tools gave that came with a message, and leave for calls that need it. What a tool of an agent set
    going, others report (`may_report_late_results`): Forbidden. And as ids of calls are no secrets, a user's results for calls
    that nobody made yet are not taken into the line, where they would wait for them: UnknownToolCall. SessionMissing.
    """
    if isinstance(content, str) or not content.tool_results or may_report_late_results(caller):
        return
    if message_id is not None and await _is_begun(runner, key, message_id):
        return
    session = await runner.store.open(key, blank=create) or await runner.sessions.get(key)
    owner = tool_result_owner(content, session.head)
    assert owner is not None
    kinds = await _kinds(runner, key, owner[0])
    if any(kinds.get(result.call_id, "late") == "late" for result in content.tool_results):
        raise Forbidden(
            "This credential may not say what an agent's own tool gave.",
            fix="Let whoever did the work say so, with a key that acts for users.",
        )


async def _is_begun(runner: Runner, key: SessionKey, message_id: str) -> bool:
    """Whether that message was begun with: then it is read on, whatever comes under its id now."""
    receipt = await runner.store.inbox.receipt(key, message_id)
    return receipt is not None and receipt.state != "queued"


async def _kinds(runner: Runner, key: SessionKey, invocation_id: str) -> dict[str, Kind]:
    """Who gives the results of the calls of that invocation, whether they are waited for yet or not."""
    events = await runner.sessions.events(key, invocation_id=invocation_id)
    return {call.call_id: kind_of(call, event) for event in events if event.content for call in event.content.tool_calls}


NO_CONTEXT = MessageContext()


class MessageRequest(NamedTuple):
    """A message as a request holds it. user: whom the request names; None = the caller. id: the sender's own of the message.
    agent: who is to answer, past all selectors; None = whoever is selected. digest: of the request, see `Message`. alone:
    whether a message under the same id with another digest is refused. expected: the revisions that the message is for.
    """

    session: str
    content: str | Content
    user: str | None = None
    id: str | None = None
    context: MessageContext = NO_CONTEXT
    config: RunConfig | None = None
    agent: str | None = None
    digest: str = ""
    alone: bool = False
    expected: Expected | None = None


class Messages:
    """What can be done with messages by callers. All of it raises Forbidden, and what the runner raises."""

    def __init__(self, runner: Runner, whose: SessionScope, quotas: Quotas, closing: asyncio.Event) -> None:
        self._runner, self._whose, self._quotas, self._closing = runner, whose, quotas, closing
        self._places: set[asyncio.Task[None]] = set()

    async def start(self, caller: Caller, ask: MessageRequest) -> Invocation:
        """`Runner.start`; the answer takes one of the caller's places until it ends or waits, whoever reads it.

        Closing when this process takes nothing more; TooMany. NothingHere for an agent that does not exist, or not for this
        caller. Forbidden for results of calls that are not the caller's to give, and as of `check_state`. PreconditionFailed,
        KeyReused.
        """
        key = self._whose.session(caller, "messages:write", ask.session, ask.user)
        context = self._context(caller, ask.context, ask.agent)
        check_state(caller, context.state, self._runner.config.limits)
        create = (ask.config or self._runner.config).create_session
        await check_results(self._runner, caller, key, ask.content, ask.id, create=create)
        await self._check_conditions(key, ask)
        place = await self._place(caller, key.user)
        try:
            invocation = await self._runner.start(
                ask.content,
                user=key.user,
                session=key.id,
                message_id=ask.id,
                context=context,
                config=ask.config,
                digest=ask.digest,
            )
            if ask.alone:  # another request may have been first since
                await self._check_conditions(key, ask._replace(expected=None))
        except BaseException:
            await place.aclose()
            raise
        self._give_back(place, invocation)
        return invocation

    async def regenerate(
        self, caller: Caller, session: str, invocation_id: str, user: str | None = None, expected: Expected | None = None
    ) -> Invocation:
        """`Runner.regenerate`; as `start` for the rest. Of the roles that the message came with, those that the caller has."""
        key = self._whose.session(caller, "messages:write", session, user)
        if expected is not None:
            expected.check(await self._runner.sessions.get(key))
        context = self._narrowed(caller, (await self._runner.sessions.message_of(key, invocation_id)).context)
        place = await self._place(caller, key.user)
        try:
            invocation = await self._runner.regenerate(key, invocation_id, context=context)
        except BaseException:
            await place.aclose()
            raise
        self._give_back(place, invocation)
        return invocation

    async def find(self, caller: Caller, session: str, message_id: str, user: str | None = None) -> Invocation:
        """The handle of a message that was accepted before, to read it on. InvocationMissing."""
        key = self._whose.session(caller, "sessions:read", session, user)
        return await self._runner.attach(user=key.user, session=key.id, message_id=message_id)

    async def attach(self, caller: Caller, session: str, invocation_id: str, user: str | None = None) -> Invocation:
        """The handle of an invocation, to read it on, with all its messages. InvocationMissing."""
        key = self._whose.session(caller, "sessions:read", session, user)
        return await self._runner.attach(user=key.user, session=key.id, invocation_id=invocation_id)

    async def select(
        self, caller: Caller, message: str | Content, *, session: str | None, user: str | None, context: MessageContext
    ) -> Selection:
        """`Runner.select`: who would answer; nothing is stored and nobody runs."""
        named = self._whose.user(caller, "sessions:read", user)
        return await self._runner.select(message, user=named, session=session, context=self._context(caller, context))

    async def settled(self) -> None:
        """Returns when no answer that was started here holds a place."""
        while self._places:
            await asyncio.wait(set(self._places))

    def _context(self, caller: Caller, given: MessageContext, agent: str | None = None) -> MessageContext:
        """What the message comes with: the caller's roles instead of those that the request claims."""
        roles, tree = roles_of(caller, given.roles), self._runner.tree
        if agent is None:
            return given.model_copy(update={"roles": roles})
        if agent not in tree or not tree.reachable(agent, roles):
            raise NothingHere(f"There is no agent {agent[:NAME_CHARACTERS]!r}.", fix="See the list of agents.")
        return given.model_copy(update={"roles": roles, "direct_agent_id": agent})

    async def _check_conditions(self, key: SessionKey, ask: MessageRequest) -> None:
        """KeyReused when the id is that of another message, PreconditionFailed when the session is not as expected.

        A repeated message is read on: what it was sent after does not count again.
        """
        if ask.expected is None and not ask.alone:
            return
        receipt = None if ask.id is None else await self._runner.store.inbox.receipt(key, ask.id)
        if receipt is None:
            if ask.expected is not None:
                ask.expected.check(await self._runner.store.open(key))
        elif ask.alone and receipt.message.digest not in ("", ask.digest):
            raise KeyReused(
                "The Idempotency-Key came with another body before.",
                fix="Give each message a key of its own.",
                where=("header", "Idempotency-Key"),
            )

    def _narrowed(self, caller: Caller, before: MessageContext) -> MessageContext:
        """What the caller may do, and what the message was sent with, may both have changed since."""
        has = caller.agent_roles
        return (
            before if has is None else before.model_copy(update={"roles": tuple(role for role in before.roles if role in has)})
        )

    async def _place(self, caller: Caller, user: str) -> AsyncExitStack:
        if self._closing.is_set():
            raise Closing("This process is being stopped and takes no more messages.", fix="Send it again.")
        place = AsyncExitStack()
        await place.enter_async_context(self._quotas.runs(caller, user))
        return place

    def _give_back(self, place: AsyncExitStack, invocation: Invocation) -> None:
        async def at_its_end() -> None:
            async with place:
                with suppress(TurnwiseError):
                    await invocation.feed.closed()

        task = asyncio.create_task(at_its_end())
        self._places.add(task)
        task.add_done_callback(self._places.discard)
