"""The cascade: runs a policy's selectors in order and records every verdict (behaviours C10, E1)."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, cast

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.errors import NobodyEligible, PolicyError
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import NotedBy, Occasion, RequestFacts, Selection, Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.matching.language import ENGLISH, language_of
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.encoder import Encoder
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.clarify import DECLINED_RULE
from turnwise.selection.conversational import Conversational, by_name
from turnwise.selection.eligibility import UNREACHABLE, Eligible, EligibleAgents, NameSet
from turnwise.selection.fixed import Default
from turnwise.selection.meaning import Meaning, warm
from turnwise.selection.policy import (
    CONDITIONS,
    SEVERAL,
    PolicySpec,
    SegmentSpec,
    StageSpec,
    fingerprint,
    reason_for,
    refuse_unfit_server,
    refuse_unknown_stages,
    requested_agents,
    version,
)
from turnwise.selection.reader import Snapshot
from turnwise.selection.resume import ToolResult
from turnwise.selection.stages import (
    BY_MEANING,
    BuildContext,
    Factory,
    Stage,
    build,
    build_context,
    meaning_of,
    refuse_unknown_agents,
)
from turnwise.selection.vectors import Progress
from turnwise.selection.verdicts import checked_verdict, run_selector

if TYPE_CHECKING:
    from turnwise.matching.disk_cache import IndexCache

_EXCLUDED_RECORDED = 50
_PREVIOUS_RECORDED = 20
_NO_CONTEXT = MessageContext()

BeforeRemoteCall = Callable[[], Awaitable[None]]
"""Awaited before a selector makes a call outside this process."""
RecordedVerdict = Callable[[str], Verdict]
"""Returns the verdict that a stage gave, by the stage's name. Its errors end the decision."""


async def _no_op() -> None:
    pass


class _StageOrder(NamedTuple):
    """The stages for one segment; `spec` is None for all other callers. The last stage is `default`."""

    spec: SegmentSpec | None
    stages: tuple[Stage, ...]
    default: Default
    default_agent: str | None


class Cascade:
    """A policy bound to a tree of agents, ready to make decisions. It holds no per-request state.

    Args:
        spec: The policy.
        tree: The agents.
        custom: Factories of custom selectors, by their name in the policy. Each is called with the tree and the
            stage's options.
        encoder: Encoder for the stages that compare meaning; None = the bundled one. It is used only if such a stage
            exists and at least one agent has examples, skills or a description.
        keep: Folder that caches fitted models; None = no cache.
        meaning: An existing `Meaning` for the same tree. `encoder` and `keep` are then ignored.
        shared: A cache of vectors and fitted heads that processes share; None = none.
        before: A cascade of earlier agents; equal patterns are not compiled again.

    Raises:
        PolicyError: The policy contains an invalid name or option.
        PatternError: A pattern is invalid.
    """

    def __init__(
        self,
        spec: PolicySpec,
        tree: AgentTree,
        custom: Mapping[str, Factory] | None = None,
        *,
        encoder: Encoder | None = None,
        keep: Path | None = None,
        meaning: Meaning | None = None,
        shared: "IndexCache | None" = None,
        before: "Cascade | None" = None,
    ) -> None:
        self.spec = spec
        self.tree = tree
        self._recreate = partial(Cascade, tree=tree, custom=custom, encoder=encoder, keep=keep, shared=shared)
        # Selectors refer to it, and it not to this object: so it is freed as soon as nobody uses it.
        make_meaning = partial(meaning_of, tree, encoder, keep, default=spec.default, shared=shared)
        self._make_meaning = make_meaning
        inputs = build_context(
            spec,
            tree,
            custom or {},
            lambda: meaning or make_meaning(),
            patterns=before._patterns if before is not None else None,
        )
        refuse_unknown_agents(inputs, "'default'", (spec.default,))
        refuse_unknown_agents(inputs, "'several'", (spec.several,))
        refuse_unfit_server(spec, tree)
        self._tool_result_stage = Stage("tool_result", "tool_result", ToolResult(), {})
        self._stage_orders = (
            *[self._segment(inputs, each) for each in spec.segments],
            _build_stage_order(inputs, spec, None),
        )
        self._eligible: EligibleAgents = EligibleAgents(tree, before._eligible if before is not None else None)
        self.meaning = inputs.made()
        self._spare: Meaning | None = None  # what the first agent with words needs, so that it need not wait for it
        self._patterns: PatternIndex | None = inputs.made_patterns()
        self._resolved: list[object] = [_resolved(order) for order in self._stage_orders]
        self._resolved += [["several", spec.several]] if spec.several is not None else []
        self._fingerprints: dict[str, str] = {}
        self._tree_version = tree.version  # hashes every card: once, not in the first turn

    def _segment(self, inputs: BuildContext, segment: SegmentSpec) -> _StageOrder:
        """Builds the stages of one segment with its changed options. Raises PolicyError for an invalid one."""
        where = f"Policy {self.spec.name!r}, segment {segment.label!r}"
        if not segment.when or (wrong := [key for key in segment.when if key not in CONDITIONS]):
            cause = f"{wrong[0]!r} is not a condition" if segment.when else "it has no condition"
            raise PolicyError(f"{where}: {cause}.", fix=f"Conditions: {', '.join(CONDITIONS)}.")
        refuse_unknown_stages(self.spec, segment.options)
        refuse_unknown_agents(inputs, f"segment {segment.label!r}, 'default'", (segment.default,))
        spec = self.spec.with_options(segment.options)
        return _build_stage_order(replace(inputs, default=segment.default or inputs.default), spec, segment)

    @property
    def fingerprint(self) -> str:
        """Identifies everything that decisions depend on, except the tree and the request.

        It covers the policy and its options. For policies that compare meaning it also covers the encoder, the fitted models,
        and this release's rules and weights; it changes when `prepare` finishes.
        """
        return self._fingerprint_with(self.meaning.fingerprint if self.meaning else "")

    def _fingerprint_with(self, meaning: str) -> str:
        if meaning not in self._fingerprints:
            # Policies without meaning keep the fingerprint of earlier releases.
            self._fingerprints[meaning] = fingerprint([*self._resolved, meaning, version()] if self.meaning else self._resolved)
        return self._fingerprints[meaning]

    def with_policy(self, spec: PolicySpec, *, tree: AgentTree | None = None, meaning: Meaning | None = None) -> "Cascade":
        """Returns a cascade for another policy, with the same encoder and custom selectors.

        Args:
            spec: The other policy.
            tree: Other agents; None = the same ones.
            meaning: Replaces the fitted models. None = share them if the agents and the default agent are the same.

        Raises the same errors as the constructor.
        """
        if meaning is None and tree is None and spec.default == self.spec.default:
            meaning = self.meaning
        return self._recreate(spec, tree=tree or self.tree, meaning=meaning)

    def changed(self, spec: PolicySpec, tree: AgentTree, *, aside: bool = False) -> "Cascade":
        """Returns a cascade for changed agents or a changed policy. It shares what did not change, such as fitted heads.

        With `aside`, they are only tried: preparing and closing it does not touch this one. Raises as the constructor.
        """
        meaning = self.meaning or self._spare
        if meaning is not None and (aside or tree is not self.tree or spec.default != self.spec.default):
            meaning = meaning.changed(tree, default=spec.default, aside=aside)
        made = self._recreate(spec, tree=tree, meaning=meaning, before=self)
        made._spare = self._spare if made.meaning is None else None
        return made

    async def warm(self) -> None:
        """Prepares what a first decision needs, without waiting for heads. Raises EncoderError."""
        await warm(self.meaning)

    async def warm_spare(self) -> None:
        """Prepares what the first agent with words will need, if there is none yet. Raises EncoderError."""
        if self.meaning is None and any(stage.kind in BY_MEANING for order in self._stage_orders for stage in order.stages):
            self._spare = self._spare or self._make_meaning()
            await warm(self._spare)

    def options(self, segment: str | None = None) -> dict[str, JsonValue]:
        """Returns every stage's options with defaults filled in, by stage name.

        Args:
            segment: A segment's label; None = the options outside all segments.
        """
        orders = [each for each in self._stage_orders if (each.spec.label if each.spec else None) == segment]
        return {stage.name: stage.options for order in orders[:1] for stage in order.stages}

    def description(self) -> JsonValue:
        """Returns the policy as plain data: for each segment its stages with all options. The last is the base policy."""
        segments = [
            {
                "segment": order.spec.label if order.spec else None,
                "when": order.spec.model_dump(mode="json")["when"] if order.spec else {},
                "default": order.default_agent,
                "stages": [{"name": each.name, "selector": each.kind, "options": each.options} for each in order.stages],
            }
            for order in self._stage_orders
        ]
        return cast("JsonValue", {"several": self.spec.several, "segments": segments})

    async def prepare(self, progress: Progress | None = None) -> None:
        """Prepares everything that the meaning stages need. Otherwise the first decision does most of this work.

        Args:
            progress: Called from another thread with (step, done, total).

        Raises:
            EncoderError: An agent's texts cannot be encoded.
        """
        if self.meaning is not None:
            await asyncio.to_thread(self.meaning.prepare, progress)
            await asyncio.to_thread(self.meaning.languages.prepare)
            await self.meaning.fitted()

    def close(self) -> None:
        """Stops a preparation that is still running. The cascade can still decide. Idempotent."""
        if self.meaning is not None:
            self.meaning.close()

    async def decide(
        self,
        *,
        head: Head,
        message: Content,
        context: MessageContext = _NO_CONTEXT,
        occasion: Occasion = "message",
        answer: Event | None = None,
        among: tuple[str, ...] | None = None,
        resting: frozenset[str] = frozenset(),
        before_remote_call: BeforeRemoteCall = _no_op,
        recorded_verdict: RecordedVerdict | None = None,
        message_id: str | None = None,
        noted: tuple[NotedBy, ...] = (),
    ) -> Selection:
        """Selects the agent for a message, and records every verdict. Raises NobodyEligible when no agent is eligible.

        Equal inputs give equal selections, except for timings and remote answers. With the outcome `clarify`, the default
        agent asks the user to choose. Requests for several agents go to the policy's `several` agent, if set.

        Args:
            occasion: The reason for the decision; with `answer`, `answer` holds the event.
            among: Considers only these agents, as inside a team.
            resting: Agents that are paused after repeated failures.
            noted: The agents that noted the things which the message names.
            before_remote_call: Awaited before a selector makes a slow call outside this process; its errors propagate.
            recorded_verdict: In a replay, the verdicts of selectors that would ask another service. Those then do not run.
        """
        began, order = perf_counter(), self._order_for(context)
        roster = self._eligible.of(context.roles, resting, among)
        names, excluded = roster.names, roster.excluded
        request = SelectionRequest(message, self.tree, head, names, excluded, context, occasion, answer, head.positions)
        request = replace(request, message_id=message_id, noted=noted)
        is_owned = occasion == "message" and (message.tool_results or context.answers is not None)
        stages = (self._tool_result_stage, *order.stages) if is_owned else order.stages
        with self._pin_snapshot() as snapshot:
            asks = _Asks(self._calls_out, before_remote_call, recorded_verdict)
            verdicts = await _run_stages(stages, request, roster, asks)
        last, server, index = verdicts[-1], self.spec.several, snapshot.fingerprint if snapshot else ""
        several_agents = requested_agents(last, request, server, roster) if server is not None else ()
        agent = last.agent or order.default.choice(replace(request, eligible=roster.continuing))
        if agent is None:
            raise _nobody_eligible()
        return Selection(
            agent=server if server is not None and several_agents else agent,
            method=SEVERAL if several_agents else last.method or last.outcome,
            confidence=last.confidence,
            reason=reason_for(several_agents, last) if several_agents else last.reason,
            outcome="clarify" if last.outcome == "clarify" else "chosen",
            occasion=occasion,
            verdicts=tuple(verdicts),
            excluded=excluded[:_EXCLUDED_RECORDED],
            excluded_count=len(excluded),
            policy=self.spec.name,
            fingerprint=self._fingerprint_with(index),
            tree_version=self._tree_version,
            request=_facts_of(request, index),
            segment=order.spec.label if order.spec else None,
            ms=round((perf_counter() - began) * 1000, 3),
        )

    def after(
        self, answer: Event, *, head: Head, message: Content, context: MessageContext, targets: tuple[str, ...]
    ) -> Selection | None:
        """Selects the agent that continues after an answer with a `<next>` tag (behaviour B7).

        Args:
            answer: The answer; `actions.next` holds the name in its tag.
            head: The session's head.
            message: The user's message.
            context: The caller.
            targets: The agents that the answer's author may hand over to.

        Returns:
            One of `targets` or the author. The author continues when the tag names it or no usable agent; the verdict says
            which. None when the answer names no agent, or the policy has no `conversational` stage for this caller.
        """
        order = self._order_for(context)
        stage = next((each for each in order.stages if isinstance(each.selector, Conversational)), None)
        if stage is None or not answer.actions.next:
            return None
        began, excluded = perf_counter(), self._eligible.of(context.roles).excluded
        eligible = NameSet((answer.author, *targets))
        request = SelectionRequest(message, self.tree, head, eligible, excluded, context, "answer", answer, head.positions)
        verdict = by_name(stage.name, request)
        ms = round((perf_counter() - began) * 1000, 3)
        return Selection(
            agent=verdict.agent or answer.author,
            method=verdict.method or verdict.outcome,
            confidence=verdict.confidence,
            reason=verdict.reason,
            occasion="answer",
            verdicts=(verdict.replace(ms=ms),),
            policy=self.spec.name,
            fingerprint=self.fingerprint,
            tree_version=self._tree_version,
            segment=order.spec.label if order.spec else None,
            ms=ms,
        )

    def _order_for(self, context: MessageContext) -> _StageOrder:
        return next(each for each in self._stage_orders if each.spec is None or each.spec.applies(context))

    def _calls_out(self, stage: Stage, request: SelectionRequest) -> bool:
        """Returns whether the stage will make a call outside this process, itself or for its vectors."""
        remote = self.meaning is not None and not self.meaning.encoder.is_local
        return stage.asks(request) or (remote and stage.kind in BY_MEANING)

    def _pin_snapshot(self) -> AbstractContextManager[Snapshot | None]:
        """Pins one state of the fitted models for all stages; the decision records its fingerprint (E1)."""
        return self.meaning.held() if self.meaning else nullcontext()


def _nobody_eligible() -> NobodyEligible:
    cause = "each is disabled, resting, or closed to the caller's roles"
    return NobodyEligible(f"No agent may take this message: {cause}.", fix="Enable an agent, or open one to everybody.")


def moved_positions(selection: Selection) -> dict[str, int]:
    """Returns the positions in fixed orders that this decision advanced, by stage. Store them with the decision."""
    return {
        verdict.selector: verdict.position
        for verdict in selection.verdicts
        if verdict.outcome == "chosen" and verdict.position is not None
    }


def _build_stage_order(inputs: BuildContext, spec: PolicySpec, segment: SegmentSpec | None) -> _StageOrder:
    """Builds the selectors of all stages, and adds a default stage if there is none. Raises PolicyError unless it is last."""
    inputs = replace(inputs, stages=dict(zip(spec.stage_names(), spec.stages, strict=True)))
    stages = [build(inputs, name, stage) for name, stage in inputs.stages.items()]
    kinds = [stage.kind for stage in stages]
    if "default" not in kinds:
        stages.append(build(inputs, "default", StageSpec(selector="default")))
    elif kinds.index("default") < len(kinds) - 1:
        raise PolicyError(
            f"Policy {spec.name!r}: the stages after {stages[kinds.index('default')].name!r} would never be asked.",
            fix="Put the default last.",
        )
    default = stages[-1].selector
    assert isinstance(default, Default)
    return _StageOrder(segment, tuple(stages), default, inputs.default)


def _resolved(order: _StageOrder) -> object:
    """Returns plain data for the fingerprint. It excludes the tree and the code of custom selectors."""
    when = order.spec.model_dump(mode="json", include={"when"}) if order.spec else None
    return [when, order.default_agent, [[stage.name, stage.kind, stage.options] for stage in order.stages]]


def _request_for(stage: Stage, request: SelectionRequest, roster: Eligible) -> SelectionRequest:
    """Returns the request as this stage sees it. Continuing a conversation is open to more agents than routing."""
    head = request.head
    if stage.kind == "tool_result":
        callers = [call.agent for call in head.calls.values()] + [agent for _, agent, _ in head.waiting()]
        return replace(request, eligible=roster.including(roster.names, callers, UNREACHABLE))
    if stage.kind == "resume":
        holders = [each.agent for each in head.invocations.values() if any(wait.kind == "reply" for _, wait in each.waits)]
        return replace(request, eligible=roster.including(roster.continuing, holders, UNREACHABLE | {"resting"}))
    if stage.kind == "default" or (stage.kind == "conversational" and head.named_next):
        return replace(request, eligible=roster.continuing)
    own = stage.selector.name
    if own != stage.name:
        return replace(request, positions={**request.positions, own: request.positions.get(stage.name, 0)})
    return request


class _Asks(NamedTuple):
    """The handling of selectors that ask another service."""

    calls_out: Callable[[Stage, SelectionRequest], bool]
    before: BeforeRemoteCall
    recorded: RecordedVerdict | None

    async def verdict(self, stage: Stage, request: SelectionRequest) -> Verdict:
        if self.recorded is not None and stage.asks(request):
            return checked_verdict(self.recorded(stage.name), request, stage.name)
        if self.calls_out(stage, request):
            await self.before()
        return await _run_stage(stage, request)


async def _run_stages(stages: tuple[Stage, ...], request: SelectionRequest, roster: Eligible, asks: _Asks) -> list[Verdict]:
    """Returns the verdicts up to and including the first that does not abstain."""
    verdicts: list[Verdict] = []
    for stage in stages:
        seen = _request_for(stage, replace(request, verdicts=tuple(verdicts)), roster)
        verdict = await asks.verdict(stage, seen)
        verdicts.append(verdict)
        if verdict.outcome != "abstained":
            break
        if stage.kind == "clarify":
            request = _without_declined(request, verdict)
    return verdicts


def _without_declined(request: SelectionRequest, verdict: Verdict) -> SelectionRequest:
    """Returns the request without the agents that the user has just declined."""
    declined = {each.agent: each for each in verdict.passed_over if each.rule == DECLINED_RULE}
    if not declined:
        return request
    left = NameSet(name for name in request.eligible if name not in declined)
    return replace(request, eligible=left, excluded=(*request.excluded, *declined.values()))


async def _run_stage(stage: Stage, request: SelectionRequest) -> Verdict:
    """Returns the stage's verdict with its duration in milliseconds."""
    began = perf_counter()
    verdict = await run_selector(stage.selector, request, stage.name)
    return verdict.replace_valid(ms=round((perf_counter() - began) * 1000, 3))


def _facts_of(request: SelectionRequest, index: str) -> RequestFacts:
    """Returns the facts of a request.

    Args:
        request: The request.
        index: The version of the fitted texts; empty without selectors by meaning, which alone look at the language.
    """
    context = request.context
    language = language_of(request.text) if index else None
    return RequestFacts(
        eligible_count=len(request.eligible),
        eligible=_digest(request.eligible),
        index=index,
        direct_agent_id=context.direct_agent_id,
        previous_agents=context.previous_agents[-_PREVIOUS_RECORDED:],
        channel=context.channel,
        user_kind=context.user_kind,
        roles=context.roles,
        answers=context.answers,
        noted=request.noted,
        language=None if language == ENGLISH else language,
    )


@lru_cache(maxsize=256)
def _digest(names: tuple[str, ...]) -> str:
    return hashlib.blake2b("\n".join(names).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
