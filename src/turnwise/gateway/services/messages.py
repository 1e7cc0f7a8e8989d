"""Sends messages, finds them again, and previews the selection."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

from turnwise.access.quotas import Quotas
from turnwise.access.rights import may_report_late_results, roles_of
from turnwise.facts.callers import Caller, credential_digest
from turnwise.facts.content import Content
from turnwise.facts.errors import Closing, Forbidden, KeyReused, NothingHere, TurnwiseError
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.facts.waits import calls_in, is_late
from turnwise.gateway.services.background import BackgroundTasks
from turnwise.gateway.services.session_admission import Expected, Prices, SessionScope, as_precondition, check_state
from turnwise.runner import Invocation, Runner
from turnwise.selection.resume import tool_result_owner


async def check_results(
    runner: Runner, caller: Caller, key: SessionKey, content: str | Content, message_id: str | None, *, create: bool
) -> None:
    """Checks whether the caller may report the tool results in the message.

    A user may send the results of tools that came with a message, and approvals. Results of an agent's own tools need
    `may_report_late_results`. Results for calls that were not made yet are rejected, because call ids can be guessed.

    Args:
        runner: The runner.
        caller: The caller.
        key: The session.
        content: The message.
        message_id: The message's id, if the request has one. A message that was started before is not checked again.
        create: Whether the session may be missing.

    Raises:
        Forbidden: A result is not the caller's to report.
        UnknownToolCall: No call has been made for a result.
        SessionMissing: There is no such session, and `create` is False.
    """
    if isinstance(content, str) or not content.tool_results or may_report_late_results(caller):
        return
    if message_id is not None and await _is_started(runner, key, message_id):
        return
    session = await runner.store.open(key, blank=create) or await runner.sessions.get(key)
    owner = tool_result_owner(content, session.head)
    assert owner is not None
    events = await runner.sessions.events(key, invocation_id=owner[0])
    callers = {call.call_id for call in calls_in(events) if not is_late(call)}
    if not callers.issuperset(result.call_id for result in content.tool_results):
        raise Forbidden(
            "This credential may not report the result of an agent's own tool.",
            fix="Report the result with a key that acts for users.",
        )


async def _is_started(runner: Runner, key: SessionKey, message_id: str) -> bool:
    """Returns whether the message was started before. If so, a repeated request only attaches to it."""
    receipt = await runner.store.inbox.receipt(key, message_id)
    return receipt is not None and receipt.state != "queued"


NO_CONTEXT = MessageContext()


class MessageRequest(NamedTuple):
    """A message as a request carries it."""

    session: str
    content: str | Content
    id: str | None = None
    """The sender's id of the message."""
    context: MessageContext = NO_CONTEXT
    config: RunConfig | None = None
    agent: str | None = None
    """The agent that has to answer, past all selectors; None to select one."""
    digest: str = ""
    """A digest of the request, see `Message`."""
    alone: bool = False
    """Whether to refuse a message with the same id and another digest."""
    expected: Expected | None = None
    """The session revisions that the request accepts; None for any."""


class RunSlots:
    """The concurrent runs that callers of one app use.

    Args:
        quotas: The quotas of callers.
        closing: Set when the process accepts no more messages.
        tasks: Where the waits for the ends of runs take place.
    """

    def __init__(self, quotas: Quotas, closing: asyncio.Event, tasks: BackgroundTasks) -> None:
        self._quotas, self._closing, self._tasks = quotas, closing, tasks

    async def acquire(self, caller: Caller, user: str) -> AsyncExitStack:
        """Returns a slot to close when the run is over. Raises Closing, TooMany."""
        if self._closing.is_set():
            raise Closing("This process is being stopped and accepts no more messages.", fix="Send it again.")
        slot = AsyncExitStack()
        await slot.enter_async_context(self._quotas.runs(caller, user))
        return slot

    def release_at_end(self, slot: AsyncExitStack, invocation: Invocation) -> None:
        """Closes the slot when the invocation has ended or waits."""

        async def release() -> None:
            async with slot:
                with suppress(TurnwiseError):
                    await invocation.feed.closed()

        self._tasks.start(release())


class Messages:
    """Sends and finds messages with the caller's rights. All methods raise Forbidden and the runner's errors."""

    def __init__(self, runner: Runner, scope: SessionScope, slots: RunSlots, prices: Prices) -> None:
        self._runner, self._scope, self._slots, self._prices = runner, scope, slots, prices

    async def start(self, request: MessageRequest) -> Invocation:
        """Starts an invocation as `Runner.start` does. It uses one of the caller's concurrent runs until it ends or
        waits.

        Raises:
            Closing: This process accepts no more messages.
            TooMany: The caller's quota of runs is used up.
            NothingHere: The named agent does not exist, or the caller may not use it.
            Forbidden: The message brings tool results or state that the caller may not write.
            PreconditionFailed: The session does not have an expected revision.
            KeyReused: The idempotency key came with another body before.
        """
        key = self._scope.session("messages:write", request.session)
        context = self._context(request.context, request.agent)
        check_state(self._scope.caller, context.state, self._runner.config.limits)
        create = (request.config or self._runner.config).create_session
        await check_results(self._runner, self._scope.caller, key, request.content, request.id, create=create)
        expected = await self._unmet(key, request)
        slot = await self._slots.acquire(self._scope.caller, key.user)
        try:
            invocation = await self._accept(key, request._replace(context=context, expected=expected))
        except BaseException:
            await slot.aclose()
            raise
        self._slots.release_at_end(slot, invocation)
        return invocation

    async def regenerate(self, session: str, invocation_id: str, expected: Expected | None = None) -> Invocation:
        """Answers a message again, as `Runner.regenerate` does. Keeps only the roles that the caller still holds.

        Raises:
            PreconditionFailed: The session does not have an expected revision.
            Closing, TooMany: As for `start`.
        """
        key = self._scope.session("messages:write", session)
        await self._prices.change(key)
        revision = None if expected is None else expected.check(await self._runner.sessions.get(key))
        context = self._with_current_roles((await self._runner.sessions.message_of(key, invocation_id)).context)
        slot = await self._slots.acquire(self._scope.caller, key.user)
        try:
            async with as_precondition(expected, self._runner.store, key):
                sender = credential_digest(self._scope.caller.id)
                invocation = await self._runner.regenerate(
                    key, invocation_id, context=context, credential=sender, revision=revision
                )
        except BaseException:
            await slot.aclose()
            raise
        self._slots.release_at_end(slot, invocation)
        return invocation

    async def find(self, session: str, message_id: str) -> Invocation:
        """Returns a handle of a message that was accepted before.

        Raises:
            InvocationMissing: There is no such message.
        """
        key = self._scope.session("sessions:read", session)
        return await self._runner.attach(user=key.user, session=key.id, message_id=message_id)

    async def attach(self, session: str, invocation_id: str) -> Invocation:
        """Returns a handle of an invocation with all its messages.

        Raises:
            InvocationMissing: There is no such invocation.
        """
        key = self._scope.session("sessions:read", session)
        return await self._runner.attach(user=key.user, session=key.id, invocation_id=invocation_id)

    async def select(self, message: str | Content, *, session: str | None, context: MessageContext) -> Selection:
        """Returns the agent that would answer, as `Runner.select` does. Stores nothing and runs no agent."""
        named = self._scope.user("sessions:read")
        return await self._runner.select(message, user=named, session=session, context=self._context(context))

    def _context(self, given: MessageContext, agent: str | None = None) -> MessageContext:
        """Returns the message's context with the roles that the caller holds, and with the named agent."""
        roles, tree = roles_of(self._scope.caller, given.roles), self._runner.tree
        if agent is None:
            return given.replace(roles=roles)
        if agent not in tree or not tree.reachable(agent, roles):
            raise NothingHere(f"There is no agent {agent[:NAME_CHARACTERS]!r}.", fix="See the list of agents.")
        return given.replace(roles=roles, direct_agent_id=agent)

    async def _unmet(self, key: SessionKey, request: MessageRequest) -> Expected | None:
        """Returns the revisions that a message has to find. None for a message that is stored already, since the session
        may have changed after it. Raises KeyReused.
        """
        if request.expected is None and not request.alone:
            return None
        receipt = None if request.id is None else await self._runner.store.inbox.receipt(key, request.id)
        if receipt is None:
            return request.expected
        if request.alone and receipt.message.digest not in ("", request.digest):
            raise KeyReused(
                "The Idempotency-Key came with another body before.",
                fix="Use a different key for each message.",
                where=("header", "Idempotency-Key"),
            )
        return None

    async def _accept(self, key: SessionKey, request: MessageRequest) -> Invocation:
        """Starts the message in the session, under the request's precondition."""
        expected, config, revision = request.expected, request.config, None
        if expected is not None:
            revision = expected.check(await self._runner.store.open(key))
            if revision is None:  # the session exists now; if it is deleted meanwhile, it is not created again
                config = config or self._runner.config.replace(create_session=False)
        async with as_precondition(expected, self._runner.store, key):
            invocation = await self._runner.start(
                request.content,
                user=key.user,
                session=key.id,
                message_id=request.id,
                context=request.context,
                config=config,
                digest=request.digest,
                credential=credential_digest(self._scope.caller.id),
                revision=revision,
            )
        if request.alone:
            # Another request with this key may have been stored in between. The stored one stays as it is.
            await self._unmet(key, request)
        return invocation

    def _with_current_roles(self, before: MessageContext) -> MessageContext:
        """Keeps only the roles of the earlier message that the caller holds now."""
        has = self._scope.caller.agent_roles
        return before if has is None else before.replace(roles=tuple(role for role in before.roles if role in has))
