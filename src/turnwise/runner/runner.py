"""The front door: hand in a message, get the invocation that answers it."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any

from turnwise.agents.collect import as_agent, collect
from turnwise.facts.content import Content
from turnwise.facts.errors import ConfigError, InvocationMissing
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.limits import ProcessConfig, RunConfig
from turnwise.facts.messages import Message, MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head, SessionKey
from turnwise.ports.agent import Agent, MakesAgent
from turnwise.ports.encoder import Encoder
from turnwise.ports.guardrail import Guardrail
from turnwise.ports.hooks import Hooks
from turnwise.ports.stores import ArtifactStore, SessionStore
from turnwise.runner.admission import (
    check_arguments,
    check_config,
    check_part,
    checked_context,
    checked_id,
    checked_message,
    checked_parts,
)
from turnwise.runner.blocking_portal import BlockingPortal
from turnwise.runner.guards.check_threads import CHECKS
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.loops import LoopRuntimes
from turnwise.runner.message.invocation import Invocation, MessageRun, Result
from turnwise.runner.message.recovery_rules import message_of_orphan
from turnwise.runner.record.events import error_text, message_of_event
from turnwise.runner.sessions import Sessions
from turnwise.runner.turn.state import Runtime
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named
from turnwise.selection.policy import PolicySpec
from turnwise.selection.vectors import Progress

CLOSE_SECONDS = 30.0
"""How long one agent may take for it."""

log = logging.getLogger("turnwise.runner")


async def close_agents(agents: Iterable[Agent]) -> None:
    """Awaits `close` of every agent that has one, side by side. What it raises, or that it hangs, is logged."""
    await asyncio.gather(*(_close(agent) for agent in agents if inspect.iscoroutinefunction(getattr(agent, "close", None))))


async def _close(agent: Agent) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await agent.close()  # type: ignore[attr-defined]
    except Exception as error:
        log.error("Agent %r was not closed: %s: %s", agent.card.name, type(error).__name__, error_text(error))


NO_CONTEXT = MessageContext()
IN_MEMORY = "sqlite://"
"""The URL of a store that ends with the process."""
_IN_A_LOOP = (
    'In a notebook, or in an `async def` function: `invocation = await runner.start("hi", user="ada", session="s")`, then '
    "`result = await invocation.result()`."
)


class Runner:
    """Decides for every message who answers, runs them, and records everything.

    root: the root of the agent tree, or a task. store: where sessions are kept: a store, or the URL of a database, such as
    `sqlite:///sessions.db`; by default in memory, where they end with the process. policy: how to choose, by name or as a spec.
    custom_selectors: factories of selectors of your own, by the name they have in the policy. artifacts: where blobs are
    kept; None = nowhere. encoder: turns texts into vectors where the policy goes by meaning; None = the one that is shipped,
    loaded only if it is needed. keep: a folder for what is fitted to the agents; None = nowhere. config: how messages are run
    unless a call says otherwise. process: how this process shares the work with others on the same store. Raises ConfigError
    and below it for whatever does not fit together; nothing is read from the store or written before the first message.
    """

    def __init__(
        self,
        root: Agent | MakesAgent,
        *,
        store: SessionStore | str = IN_MEMORY,
        app: str = "app",
        policy: str | PolicySpec = "default",
        custom_selectors: Mapping[str, Callable[..., Any]] | None = None,
        artifacts: ArtifactStore | None = None,
        encoder: Encoder | None = None,
        keep: Path | str | None = None,
        config: RunConfig | None = None,
        process: ProcessConfig | None = None,
        guardrails: Sequence[Guardrail] = (),
        hooks: Sequence[Hooks] = (),
        issuer: Issuer | None = None,
    ) -> None:
        if root is None:
            raise ConfigError("A runner needs a root agent.", fix="Pass the agent that answers when nobody else does.")
        check_arguments(app=app, policy=policy, custom_selectors=custom_selectors, keep=keep, config=config, process=process)
        check_part("artifacts", artifacts, ("save", "load"), "an artifact store, such as OnDiskArtifactStore(FOLDER)")
        check_part("encoder", encoder, ("encode",), "an encoder: an object with `encode`, `dimensions` and `fingerprint`")
        check_part("issuer", issuer, ("new_id", "now"), "an issuer of ids and times")
        guardrails = checked_parts("guardrails", guardrails, ("check",), "guardrails")
        hooks = checked_parts("hooks", hooks, ("selected", "stored", "ended"), "hooks")
        keep = Path(keep) if isinstance(keep, str) else keep
        self._agents, self.tree = collect(as_agent(root))
        store = _store(store)
        self.app, self.store, self.artifacts = app, store, artifacts
        self.config = config or RunConfig()
        spec = named(policy) if isinstance(policy, str) else policy
        self.cascade = Cascade(spec, self.tree, custom_selectors or {}, encoder=encoder, keep=keep)
        self._issuer = issuer or SystemIssuer()
        runtime = Runtime(self._agents, self.tree, store, artifacts, tuple(guardrails), self._issuer)
        self.process = process or ProcessConfig()
        self._loop_runtimes = LoopRuntimes(runtime, self.cascade, tuple(hooks), app, self.config, self.process)
        self.checks = CHECKS
        self._blocking_portal = BlockingPortal()
        self.sessions = Sessions(runtime, self._loop_runtimes, tuple(hooks), app)

    async def ready(self, progress: Progress | None = None) -> None:
        """Returns when the policy can decide without preparing anything first: the encoder is loaded, and what is fitted to
        the agents is fitted. The first decision waits for it otherwise.

        progress: told of the work, as (what, done, total), in another thread. A policy that does not go by meaning is ready
        at once. EncoderError.
        """
        await self.cascade.prepare(progress)

    async def start(
        self,
        message: str | Content,
        *,
        user: str,
        session: str,
        message_id: str | None = None,
        context: MessageContext | None = None,
        config: RunConfig | None = None,
        digest: str = "",
    ) -> Invocation:
        """Accepts the message and returns when it is stored; the run goes on by itself.

        message_id: the caller's; the same id again in a session is the same message, and gives the same answer. digest: as
        of `Message`, kept with the message. Raises MessageError (nothing was stored; of one that was blocked, only by whom),
        SessionMissing, SessionBusy, QueueFull, StoreError.
        """
        run = self._run(message, self.key(user, session), message_id, context, config, digest)
        if message_id is not None and await self._known(run):
            return run.invocation
        await self._loop_runtimes.current.queues.submit(run)
        return run.invocation

    async def run(self, message: str | Content, *, user: str, session: str, **options: Any) -> AsyncIterator[Event]:
        """`start`, and the events of the invocation as they come, partial ones too.

        When the caller stops reading, the run goes on, or is cancelled if `config.when_reader_leaves` says so.
        """
        invocation = await self.start(message, user=user, session=session, **options)
        config = options.get("config") or self.config
        try:
            async for event in invocation.events():
                yield event
        finally:
            if config.when_reader_leaves == "cancel" and not invocation.feed.is_closed:
                await invocation.cancel()

    def run_sync(self, message: str | Content, *, user: str = "user", session: str | None = None, **options: Any) -> Result:
        """`start` and `result` for programs without an event loop: the one sync door, for any number of threads.

        session: None = a new one for this message. ConfigError inside a running event loop.
        """
        session = self._issuer.new_id("session") if session is None else session
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError("run_sync was called inside an event loop.", fix=_IN_A_LOOP)

        async def answered() -> Result:
            invocation = await self.start(message, user=user, session=session, **options)
            return await invocation.result()

        return self._blocking_portal.run(answered())

    async def select(
        self, message: str | Content, *, user: str = "user", session: str | None = None, context: MessageContext | None = None
    ) -> Selection:
        """Who would answer this message now, and why. Nothing is stored and nobody runs. SessionMissing."""
        content = checked_message(message, self.config.limits)
        head = Head()
        if session is not None:
            head = (await self.sessions.get(self.key(user, session))).head
        return await self.cascade.decide(head=head, message=content, context=context or MessageContext())

    async def regenerate(
        self, key: SessionKey, invocation_id: str, *, context: MessageContext | None = None, config: RunConfig | None = None
    ) -> Invocation:
        """Rewinds to before that invocation and answers its message again, in the same context unless another is given.

        If another message comes between, it is answered first: this one is never rejected for it. SessionMissing,
        InvocationMissing, SessionBusy. MessageError when it is refused now; then nothing was rewound.
        """
        asked = await self.sessions.message_of(key, invocation_id)
        config = (config or asked.config or self.config).model_copy(update={"when_busy": "queue"})
        run = self._run(asked.content, key, None, context or asked.context, config)
        await self._loop_runtimes.current.driver.prepare(run)
        if run.blocked:
            raise run.blocked
        await self.sessions.rewind(key, invocation_id)
        await self._loop_runtimes.current.queues.submit(run)
        return run.invocation

    async def attach(
        self, *, user: str, session: str, message_id: str | None = None, invocation_id: str | None = None
    ) -> Invocation:
        """A handle for a message that was accepted before, wherever it is answered, or for a whole invocation.

        Its `events(after=…)` gives what is stored above that sequence number, then what comes, until the end or a wait;
        attempts whose process died are among it. Partial events are the live ones only. InvocationMissing, SessionError
        when the message was refused.
        """
        key = self.key(user, session)
        if invocation_id is not None:
            return await self._attach_to_invocation(key, invocation_id)
        receipt = None
        if message_id is not None:
            receipt = await self.store.inbox.receipt(key, checked_id("message", message_id))
        if receipt is None:
            raise InvocationMissing(f"Session {session!r} never accepted message {message_id!r}.", fix="Check the ids.")
        run = MessageRun(key, receipt.message, receipt.message.config or self.config)
        if receipt.state == "queued":
            self._loop_runtimes.current.queues.join(run)
        else:
            self._loop_runtimes.current.queues.followers.share_or_follow(run, receipt)
        return run.invocation

    async def recover(self) -> int:
        """Takes up what other processes left: unfinished answers, messages that nobody began, and background jobs.

        Returns in how many sessions, when it is done there. What another process still holds is left alone. StoreError.
        """
        return await self._loop_runtimes.current.recovery_loop.once()

    async def work(self) -> None:
        """`recover`, again and again, until it is cancelled; what it began goes on then, see `close`.

        Any number of processes may do this; each answers at most `process.concurrency` messages at once.
        """
        await self._loop_runtimes.current.recovery_loop.forever()

    async def idle(self, *, last: bool = False) -> None:
        """Returns when no message is being answered in this process.

        last: it is to take up nothing more. What waits in inboxes is left to others, and whoever waits here for what another
        process answers is told to ask again, as by `close`.
        """
        loop_runtime = self._loop_runtimes.current
        if last:
            loop_runtime.jobs.stop()
        await (loop_runtime.queues.close() if last else loop_runtime.queues.idle())

    async def close(self) -> None:
        """Waits for what is running, then closes the agents that hold something, and the stores. Idempotent.

        Background jobs get a few seconds; one that is not done then is left to another process.
        """
        self.cascade.close()
        loop_runtime = self._loop_runtimes.current
        loop_runtime.jobs.stop()
        await loop_runtime.queues.close()
        await loop_runtime.jobs.close()
        await close_agents(self._agents.values())
        await self.store.close()
        if self.artifacts is not None:
            await self.artifacts.close()

    def key(self, user: str, session: str) -> SessionKey:
        """The session's key in this app. MessageError for an empty or overlong id."""
        return SessionKey(self.app, checked_id("user", user), checked_id("session", session))

    def _run(
        self,
        message: str | Content,
        key: SessionKey,
        message_id: str | None,
        context: MessageContext | None,
        config: RunConfig | None,
        digest: str = "",
    ) -> MessageRun:
        check_config(config)
        limits = (config or self.config).limits
        content = checked_message(message, limits)
        known = NO_CONTEXT if context is None else checked_context(context, limits)
        id_ = self._issuer.new_id("message") if message_id is None else checked_id("message", message_id)
        sent = Message(id=id_, content=content, context=known, config=config, digest=digest)
        return MessageRun(key, sent, config or self.config, copy_context())

    async def _attach_to_invocation(self, key: SessionKey, invocation_id: str) -> Invocation:
        events = await self.store.events(key, invocation_id=checked_id("invocation", invocation_id), hidden=True)
        asked = message_of_orphan(events)
        if asked is None:
            raise InvocationMissing(f"Session {key.id!r} has no invocation {invocation_id!r}.", fix="Check the ids.")
        message = await message_of_event(self.store, key, asked)
        run = MessageRun(key, message, message.config or self.config)
        self._loop_runtimes.current.queues.followers.follow_invocation(run, invocation_id, whole=True)
        return run.invocation

    async def _known(self, run: MessageRun) -> bool:
        """Whether this message was started before; then its handle gives what is, and will be, recorded of it."""
        receipt = await self.store.inbox.receipt(run.key, run.message.id)
        if receipt is None or receipt.state == "queued":
            return False
        if blocked := blocked_message(receipt.message.guarded):
            raise blocked
        self._loop_runtimes.current.queues.followers.share_or_follow(run, receipt)
        return True


def _store(given: object) -> SessionStore:
    """The store that is given, or that of the database at a URL. ConfigError, StoreError."""
    if isinstance(given, str):
        from turnwise.stores.sql import SqlSessionStore

        return SqlSessionStore(given)
    if isinstance(given, type) or not callable(getattr(given, "take", None)):
        shown = given.__name__ if isinstance(given, type) else type(given).__name__
        fix = 'Pass a URL such as "sqlite:///sessions.db", or SqlSessionStore(URL).'
        raise ConfigError(f"A runner cannot use this as its session store: {shown}.", fix=fix)
    return given  # type: ignore[return-value]
