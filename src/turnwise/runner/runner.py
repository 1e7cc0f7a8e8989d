"""The runner: the entry point that takes messages and returns the invocations that answer them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any

from turnwise.agents.members import as_agent, collect
from turnwise.facts.content import Content
from turnwise.facts.errors import ConfigError, InvocationMissing
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.limits import ProcessConfig, RunConfig
from turnwise.facts.memory import MemoryConfig
from turnwise.facts.messages import Message, MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head, SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent, MakesAgent
from turnwise.ports.dispatcher import MakesDispatcher
from turnwise.ports.encoder import Encoder
from turnwise.ports.experiments import Experiment, ExperimentStore
from turnwise.ports.guardrail import Guardrail
from turnwise.ports.hooks import Hooks
from turnwise.ports.retention import Retention
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
from turnwise.runner.agent_sets import AgentSet, AgentSets
from turnwise.runner.allowances import Allowances, LimitedArtifacts
from turnwise.runner.blocking_portal import BlockingPortal
from turnwise.runner.experiments import ExperimentAssignments, deciding_policy
from turnwise.runner.guardrail_results import blocked_message
from turnwise.runner.guardrails import CHECKS
from turnwise.runner.loops import LoopRuntimes
from turnwise.runner.memory import MemoryRoom, MemoryService
from turnwise.runner.message.invocation import Invocation, MessageRun, Result
from turnwise.runner.message.open_invocations import message_of_orphan
from turnwise.runner.queue.followers import PAGE_BYTES, PAGE_EVENTS
from turnwise.runner.record.events import message_of_event
from turnwise.runner.rests import AgentRests, with_ends
from turnwise.runner.sessions import Sessions
from turnwise.runner.turn.state import Services
from turnwise.selection.alternatives import alternatives
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec
from turnwise.selection.vectors import Progress

IN_MEMORY = "sqlite://"
"""The URL of a store that lives as long as the process."""
NO_CONTEXT = MessageContext()
_IN_A_LOOP = (
    'In a notebook, or in an `async def` function: `invocation = await runner.start("hi", user="ada", session="s")`, then '
    "`result = await invocation.result()`."
)


class Runner:
    """Selects the agent that answers each message, runs it, and records everything.

    Reads and writes nothing before the first message.

    Args:
        root: The root agent of the tree, or a task.
        store: A session store, or the URL of a database such as `sqlite:///sessions.db`. By default sessions live in
            memory.
        app: The name of the app; sessions of different apps are separate.
        policy: The selection policy, by name or as a spec.
        custom_selectors: Factories of the app's own selectors, by their names in the policy.
        artifacts: The store for blobs; None means that there is none.
        encoder: Turns texts into vectors for policies that match by meaning. None means the built-in one, loaded on
            demand.
        keep: A folder that caches what is fitted to the agents; None means no cache.
        config: The default configuration of runs.
        process: How this process shares work with other processes on the same store.
        retention: How long stored data is kept. By default, it is kept forever.
        guardrails: The guardrails, in the order in which they run.
        hooks: The hooks, which observe but decide nothing.
        issuer: The source of ids and times.
        memory: The memory that the app keeps by itself. Without it, agents still have `context.memory`.
        policies: The policies that an experiment's arms and a policy's shadow may name, beside the named ones.
        experiment: The experiment; its arms decide. It starts with the first message.
        dispatcher: Makes the dispatcher that schedules the work, such as `RestateEngine(URL, app=APP).dispatcher`. By
            default, each process answers the messages that it accepts.

    Raises:
        ConfigError: The arguments are invalid or do not fit together.
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
        retention: Retention | None = None,
        guardrails: Sequence[Guardrail] = (),
        hooks: Sequence[Hooks] = (),
        issuer: Issuer | None = None,
        memory: MemoryConfig | None = None,
        policies: Mapping[str, PolicySpec] | None = None,
        experiment: Experiment | None = None,
        dispatcher: MakesDispatcher | None = None,
    ) -> None:
        if root is None:
            raise ConfigError("A runner needs a root agent.", fix="Pass the agent that answers by default.")
        check_arguments(app=app, policy=policy, custom_selectors=custom_selectors, keep=keep, config=config, process=process)
        check_part(
            "artifacts", artifacts, ("save", "load", "used_bytes"), "an artifact store, such as OnDiskArtifactStore(FOLDER)"
        )
        check_part("encoder", encoder, ("encode",), "an encoder: an object with `encode`, `dimensions` and `fingerprint`")
        check_part("issuer", issuer, ("new_id", "now"), "an issuer of ids and times")
        guardrails = checked_parts("guardrails", guardrails, ("check",), "guardrails")
        hooks = checked_parts("hooks", hooks, ("selected", "stored", "ended"), "hooks")
        keep = Path(keep) if isinstance(keep, str) else keep
        agents, tree = collect(as_agent(root))
        store = _open_store(store)
        self.app, self.store, self.config = app, store, config or RunConfig()
        allowances = Allowances(store, artifacts)
        self.artifacts = artifacts
        self.limited_artifacts = artifacts and LimitedArtifacts(artifacts, allowances, self.config.limits)
        """The artifacts, saved only while the user's storage has room."""
        spec = named_policy(policy) if isinstance(policy, str) else policy
        shared = getattr(store, "index_cache", None)
        cascade = Cascade(spec, tree, custom_selectors or {}, encoder=encoder, keep=keep, shared=shared)
        others = alternatives(cascade, experiment.policies if experiment is not None else (), policies)
        self.sets = AgentSets(AgentSet(agents, tree, cascade, policies=others))
        self._issuer = issuer or SystemIssuer()
        self.experiments = _assignments(store, app, experiment, self._issuer, self.sets)
        room = MemoryRoom(allowances, self.config.limits)
        self.memory = MemoryService(store, app, memory, room, lambda: encoder or _shipped_encoder())
        self.process = process or ProcessConfig()
        self.rests = AgentRests(store, app, self._issuer.now, seconds=self.process.rest_seconds)
        parts = (store, self.limited_artifacts, allowances, tuple(guardrails), self._issuer, self.rests, self.memory)
        services = Services(*parts, self.experiments)
        rules = retention or Retention()
        self._loop_runtimes = LoopRuntimes(services, self.sets, tuple(hooks), app, self.config, self.process, rules, dispatcher)
        self.pruning = self._loop_runtimes.pruning
        self.checks = CHECKS
        self.shadow_counts = self._loop_runtimes.shadow_counts
        self._blocking_portal = BlockingPortal(_IN_A_LOOP)
        self.sessions = Sessions(services, self.sets, self._loop_runtimes, tuple(hooks), app)

    @property
    def tree(self) -> AgentTree:
        """The agents that serve now."""
        return self.sets.current.tree

    @property
    def cascade(self) -> Cascade:
        """The policy that decides now, bound to the agents."""
        return self.sets.current.cascade

    async def ready(self, progress: Progress | None = None) -> None:
        """Prepares the policy: loads the encoder and fits what is fitted to the agents. Otherwise the first decision waits
        for it.

        A policy that does not match by meaning is ready at once. Raises EncoderError.

        Args:
            progress: Called from another thread with (what, done, total).
        """
        current = self.sets.current
        for cascade in (current.cascade, *current.policies.values()):
            await cascade.prepare(progress)

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
        credential: str = "",
        revision: int | None = None,
    ) -> Invocation:
        """Accepts the message and returns once it is stored; the run continues in the background.

        Args:
            message: The message, as text or content.
            user: The user's id.
            session: The session's id.
            message_id: The caller's id. The same id again in a session is the same message, and gets the same answer.
            context: Further facts about the message.
            config: The configuration of this run.
            digest: The digest of the request, as in `Message`; stored with it.
            credential: The digest of the credential, as in `Message`; stored with it and with the decision.
            revision: Accepts a new message only while the session has this revision and no queued messages. None
                means any.

        Raises:
            MessageError: The message is invalid or blocked. Nothing was stored, except which guardrail blocked it.
            SessionMissing: The session does not exist and may not be created.
            SessionBusy: Another message is being answered and the policy is `reject`.
            QueueFull: Too many messages wait in the session.
            SessionFull, StateFull: The session's log or state has reached its limit.
            UserLimitReached: The user has as much as one user may have.
            StaleWriter: The session does not have the revision. Nothing was stored.
            StoreError: The store failed.
        """
        key = self.key(user, session)
        run = self._run(message, key, message_id, context, config, digest=digest, credential=credential, revision=revision)
        if message_id is not None and await self._follow_if_started(run):
            return run.invocation
        await self._loop_runtimes.current.queues.submit(run)
        return run.invocation

    async def run(self, message: str | Content, *, user: str, session: str, **options: Any) -> AsyncIterator[Event]:
        """Starts a message and yields the events of its invocation live, with partial events.

        When the caller stops reading, the run continues, or is cancelled if `config.when_reader_leaves` is `cancel`.
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
        """Runs a message and returns its result, for programs without an event loop. Safe to call from any number of
        threads.

        Args:
            session: The session's id; None means a new session.

        Raises:
            ConfigError: It was called inside a running event loop.
        """
        session = self._issuer.new_id("session") if session is None else session

        async def answered() -> Result:
            invocation = await self.start(message, user=user, session=session, **options)
            return await invocation.result()

        return self._blocking_portal.run(answered())

    async def select(
        self, message: str | Content, *, user: str = "user", session: str | None = None, context: MessageContext | None = None
    ) -> Selection:
        """Returns the selection for this message without storing anything or running an agent.

        Without a session it is the first message of one that is in no experiment. Raises SessionMissing.
        """
        content, context = checked_message(message, self.config.limits), context or MessageContext()
        head, assigned = Head(), None
        if session is not None:
            found = await self.sessions.get(self.key(user, session))
            head, assigned = found.head, await self.experiments.of(found, starts=False)
        key = self.key(user, session or self._issuer.new_id("session"))
        with self.sets.hold() as hold:
            resting = self.rests.resting()
            noted = await self.memory.noted(content, key, context.roles, hold.agent_set.tree)
            policy = deciding_policy(hold.agent_set, assigned)
            decided = await policy.cascade.decide(
                head=head, message=content, context=context, noted=noted, resting=frozenset(resting)
            )
            return hold.agent_set.stamped(policy.stamped(with_ends(decided, resting)))

    async def regenerate(
        self,
        key: SessionKey,
        invocation_id: str,
        *,
        context: MessageContext | None = None,
        config: RunConfig | None = None,
        credential: str = "",
        revision: int | None = None,
    ) -> Invocation:
        """Rewinds the session to before the invocation and answers its message again, in the same context unless another is
        given.

        A message that arrives in between is answered first; the regenerated one then waits and is never rejected.

        Args:
            key: The session.
            invocation_id: The invocation.
            context: The context; None means that of the message.
            config: The configuration of the run; None means that of the message.
            credential: As of `Message`; that of whoever asks for the new answer.
            revision: As for `Sessions.rewind`.

        Raises:
            SessionMissing: The session does not exist.
            InvocationMissing: The invocation does not exist.
            SessionBusy: The session is answering a message.
            MessageError: The message is refused now. The session was not rewound.
            StaleWriter: The session does not have the revision.
        """
        asked = await self.sessions.message_of(key, invocation_id)
        config = (config or asked.config or self.config).replace(when_busy="queue")
        run = self._run(asked.content, key, None, context or asked.context, config, credential=credential)
        await self._loop_runtimes.current.driver.prepare(run)
        if run.blocked:
            raise run.blocked
        await self.sessions.rewind(key, invocation_id, revision=revision)
        await self._loop_runtimes.current.queues.submit(run)
        return run.invocation

    async def attach(
        self, *, user: str, session: str, message_id: str | None = None, invocation_id: str | None = None
    ) -> Invocation:
        """Returns a handle for an accepted message, wherever it is answered, or for a whole invocation.

        Its `events(after=…)` yields stored events above that sequence number, then new ones, until the end or a wait.
        They include the attempts of dead processes. Partial events are live only.

        Raises:
            InvocationMissing: The message or invocation is unknown.
            SessionError: The message was refused.
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
        """Recovers abandoned work once: unfinished answers, messages that were never started, and background jobs.

        Leaves alone what another process still holds. Raises StoreError.

        Returns:
            The number of sessions recovered, once their work is done.
        """
        return await self._loop_runtimes.current.recovery_loop.once()

    async def work(self) -> None:
        """Repeats `recover` until cancelled. Work in progress then continues; see `close`.

        Any number of processes may do this. Each answers at most `process.concurrency` messages at once.
        """
        await self._loop_runtimes.current.recovery_loop.forever()

    async def idle(self, *, last: bool = False) -> None:
        """Waits until no message is being answered in this process.

        Args:
            last: Also take up no further work. Queued messages are left to other processes, and readers that wait for
                another process get an error, as by `close`.
        """
        loop_runtime = self._loop_runtimes.current
        if last:
            loop_runtime.jobs.stop()
        await (loop_runtime.queues.close() if last else loop_runtime.queues.idle())

    async def close(self) -> None:
        """Waits for running answers, then closes the agents and the stores. Idempotent.

        Background jobs get a few seconds; unfinished ones are left to another process.
        """
        self.cascade.close()
        loop_runtime = self._loop_runtimes.current
        loop_runtime.jobs.stop()
        await loop_runtime.queues.close()
        await loop_runtime.jobs.close()
        await self.memory.close()
        await loop_runtime.driver.close()
        await self.sets.close()
        await self.store.close()
        if self.artifacts is not None:
            await self.artifacts.close()

    def key(self, user: str, session: str) -> SessionKey:
        """Returns the session's key in this app. Raises MessageError for an empty or overlong id."""
        return SessionKey(self.app, checked_id("user", user), checked_id("session", session))

    def _run(
        self,
        message: str | Content,
        key: SessionKey,
        message_id: str | None,
        context: MessageContext | None,
        config: RunConfig | None,
        *,
        digest: str = "",
        credential: str = "",
        revision: int | None = None,
    ) -> MessageRun:
        """Validates the message and its context and returns them as a run. Stores nothing. Raises MessageError, ConfigError."""
        check_config(config)
        limits = (config or self.config).limits
        content = checked_message(message, limits)
        known = NO_CONTEXT if context is None else checked_context(context, limits)
        id_ = self._issuer.new_id("message") if message_id is None else checked_id("message", message_id)
        sent = Message(id=id_, content=content, context=known, config=config, digest=digest, credential=credential)
        return MessageRun(key, sent, config or self.config, copy_context(), revision)

    async def _attach_to_invocation(self, key: SessionKey, invocation_id: str) -> Invocation:
        """Returns a handle that follows all messages of a stored invocation. Raises InvocationMissing."""
        checked_id("invocation", invocation_id)
        asked, before = None, None
        while asked is None and (
            page := await self.store.events(
                key, before=before, last=PAGE_EVENTS, invocation_id=invocation_id, hidden=True, max_bytes=PAGE_BYTES
            )
        ):
            asked, before = message_of_orphan(page), page[0].sequence
        if asked is None:
            raise InvocationMissing(f"Session {key.id!r} has no invocation {invocation_id!r}.", fix="Check the ids.")
        message = await message_of_event(self.store, key, asked)
        run = MessageRun(key, message, message.config or self.config)
        self._loop_runtimes.current.queues.followers.follow_invocation(run, invocation_id, whole=True)
        return run.invocation

    async def _follow_if_started(self, run: MessageRun) -> bool:
        """Follows the message if it was started before. Returns whether that was so; raises MessageBlocked if it was
        blocked.
        """
        receipt = await self.store.inbox.receipt(run.key, run.message.id)
        if receipt is None or receipt.state == "queued":
            return False
        if blocked := blocked_message(receipt.message.guarded):
            raise blocked
        self._loop_runtimes.current.queues.followers.share_or_follow(run, receipt)
        return True


def _assignments(
    store: object, app: str, experiment: Experiment | None, issuer: Issuer, sets: AgentSets
) -> ExperimentAssignments:
    """Returns what assigns sessions to arms. Raises ConfigError if the store cannot store the experiment."""
    experiments = store.experiments if isinstance(store, ExperimentStore) else None
    if experiment is not None and experiments is None:
        fix = "Use a store that has `experiments`, such as SqlSessionStore."
        raise ConfigError(f"The session store cannot store the experiment {experiment.name!r}.", fix=fix)
    return ExperimentAssignments(experiments, app, experiment, issuer.now, lambda: bool(sets.current.policies))


def _shipped_encoder() -> Encoder:
    from turnwise.matching.encoder.onnx_encoder import OnnxEncoder

    return OnnxEncoder()


def _open_store(value: object) -> SessionStore:
    """Returns the given store, or opens the database at a URL. Raises ConfigError, StoreError."""
    if isinstance(value, str):
        from turnwise.stores.sql import SqlSessionStore

        return SqlSessionStore(value)
    if isinstance(value, type) or not callable(getattr(value, "take", None)):
        shown = value.__name__ if isinstance(value, type) else type(value).__name__
        fix = 'Pass a URL such as "sqlite:///sessions.db", or SqlSessionStore(URL).'
        raise ConfigError(f"A runner cannot use this as its session store: {shown}.", fix=fix)
    return value  # type: ignore[return-value]
