"""Runs a flow: turn after turn, until its tasks are done or nothing more can be (behaviours D3, D4, D10, D11, D13).

What is next is decided elsewhere, by values; this file asks, runs, and puts on record. It holds nothing that is not in the
log: a run that is taken up again comes to the same place by the same turns.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.agents.concurrency import run_together
from turnwise.facts.content import Content, DataPart, text_content
from turnwise.facts.errors import FlowFailed, LimitReached, SessionError, StoreError, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.flows.control.assignment import FlowRunState, TurnAssignment
from turnwise.flows.control.logged import TurnEnd
from turnwise.flows.design import Design
from turnwise.flows.strategies import Moderated
from turnwise.flows.tasks.progress import Progress, TaskEnd, initial_progress, with_task_ended
from turnwise.flows.turns.briefs import HandoffNote, brief
from turnwise.flows.turns.turn import Labels, Pool, Turn, TurnChoice, is_within, pool_of, pool_without, turn_of
from turnwise.flows.until import RunCounts
from turnwise.ports.assignment import EVERYTHING
from turnwise.ports.context import AgentContext, Outcome
from turnwise.ports.selector import Selector
from turnwise.selection.conversational import matching_name


async def is_request_in_log(context: AgentContext) -> bool:
    """Whether the message of the flow whose turn this is stands in the log as the user's own, where everybody reads it; what
    the flow was told by another flow, a caller, or who handed over, is shown to the flow alone.
    """
    part = context.assignment
    if (part is not None and part.giver is not None) or context.event().is_private:
        return False
    async for page in context.history.backwards():
        if any(_says_it(event, context) for event in page):
            return True
    return False


def _says_it(event: Event, context: AgentContext) -> bool:
    if event.author != USER or event.invocation_id != context.invocation_id:
        return False
    said = event.actions.brief or event.content
    return said is not None and said.parts == context.message.parts


COMPLETE, STUCK, TURNS = "complete", "stuck", "limit:turns"
MODEL_KIND = "llm"
Played = tuple[TurnAssignment, Outcome]
"""What came of a turn."""


class RunEnding(NamedTuple):
    """How a run of a flow ended. reason: complete, failed, stuck, limit:turns, limit:model_calls, or what the flow's `until`
    said.
    """

    reason: str
    progress: Progress
    turns: int
    model_calls: int


class Controller:
    """One run of a flow."""

    def __init__(self, design: Design, context: AgentContext) -> None:
        self._design, self._context = design, context
        part = context.assignment
        outer = part.scope if part is not None else EVERYTHING
        if is_within(context.card.name, outer):
            raise FlowFailed(f"The flow {context.card.name!r} would be run for one of its own tasks.")
        self._labels = Labels(context.card.name, design.graph, outer)
        self._desk = FlowRunState(context, design.graph, self._labels, self._waiting, design.names, design.relays)
        self._is_open_to_all = all(context.tree.reachable(name, ()) for name in design.names)
        self._request_is_logged: bool | None = None
        """Whether those who read the log find the request there; None before it was looked for."""
        self._progress = initial_progress(design.graph, design.targets)
        self._turns = 0
        self._active: list[str] = []
        self._ended: list[TurnEnd] = []
        self._said = ""

    async def run(self) -> RunEnding:
        """Suspend when it waits for a person; errors of the store as they are."""
        while True:
            pool = await self._pool_on_record()
            reason = self._reason(pool)
            if reason is not None:
                return RunEnding(reason, self._progress, self._turns, self._context.model_calls)
            ended, self._ended = self._ended, []
            turns = await self._choose(pool, [each.next for each in ended if each.next])
            await self._play(turns, _heard(turns, ended))

    def _reason(self, pool: Pool) -> str | None:
        """Why the flow ends here; None when it goes on."""
        standing = RunCounts(self._design.graph, self._progress, self._turns, self._context.model_calls)
        met = self._design.conduct.until.met(standing)
        if met is not None:
            return met
        if self._progress.is_complete:
            return COMPLETE
        if not pool:
            return STUCK
        return TURNS if self._turns >= self._design.max_turns else None

    @property
    def _pool_key(self) -> str:
        return f"pool#{self._turns + 1}"

    async def _pool_on_record(self) -> Pool:
        """Who may do what is ready, for the turns that are chosen now. Whoever answers a question may have other roles than who
        asked for the flow: where that matters, it is on record who was in reach, so that past turns stay as they were.
        """
        pool, key = self._pool(self._progress), self._pool_key
        if self._is_open_to_all or not (pool or key in self._context.recorded):
            return pool
        names = await self._context.step(key, lambda: list(pool))
        return pool_of(self._design.graph, self._progress, self._design.agents, names.__contains__)

    def _pool(self, progress: Progress) -> Pool:
        return pool_of(self._design.graph, progress, self._design.agents, self._reachable)

    def _reachable(self, agent: str) -> bool:
        return self._context.tree.reachable(agent, self._context.message_context.roles)

    def _waiting(self, closings: Sequence[TaskEnd]) -> Sequence[str]:
        progress = self._progress
        for closing in closings:
            progress = with_task_ended(self._design.graph, progress, closing)
        return tuple(self._pool(progress))

    async def _choose(self, pool: Pool, named: list[str]) -> Sequence[Turn]:
        """Whose turn it is now, on record: one agent's, or several's side by side, with no task in common. named: who was
        named by those who had the last turns, in their order.
        """
        turns = [await self._next(pool, named)]
        while len(turns) < self._design.conduct.side_by_side and self._turns < self._design.max_turns:
            pool = pool_without(pool, turns[-1].agent, [task.name for task in turns[-1].tasks])
            if not pool:
                break
            turns.append(await self._next(pool, named))
        beside = len(turns) > 1
        return [turn._replace(beside=beside) for turn in turns]

    async def _next(self, pool: Pool, named: list[str]) -> Turn:
        active = next((name for name in self._active if name in pool), None)
        wanted = next((name for name in named if matching_name(name, pool)), next(iter(named), None))
        choice = TurnChoice(active, wanted, self._design.conduct.strategy)
        if choice.settled(pool) is None:
            choice = TurnChoice(active, wanted, await self._strategy(pool))
        elif active is None and wanted is not None:
            named.remove(wanted)
        counts = {name: len(tasks) for name, tasks in pool.items()}
        verdict = await self._context.select(choice, among=tuple(pool), tasks=counts)
        # An older log may name somebody who is not in the pool any more.
        agent = verdict.agent if verdict.agent and verdict.agent in pool else next(iter(pool))
        self._turns += 1
        tasks = pool[agent] if self._has_model(agent) else pool[agent][:1]
        turn = turn_of(self._design.graph, self._progress, self._labels, self._turns, agent, tasks)
        await self._context.say(Content(), scope=turn.scope.labels)
        return turn

    async def _strategy(self, pool: Pool) -> Selector:
        """The strategy for the next turn; a moderator is asked, if there is something to choose."""
        strategy = self._design.conduct.strategy
        if not isinstance(strategy, Moderated) or len(pool) < 2:
            return strategy
        tasks = {name: [self._design.graph.tasks[task].objective or task for task in theirs] for name, theirs in pool.items()}
        question = strategy.question(tasks, self._context.tree, said=self._said)
        try:
            answer = await self._context.delegate(
                strategy.moderator,
                segment=f"choice#{self._turns + 1}",
                message=text_content(question, "user"),
                private=True,
            )
        except TurnwiseError as problem:
            if not _is_an_agents(problem):
                raise
            return strategy.answered("")
        return strategy.answered(answer.text, answer.next)

    def _has_model(self, agent: str) -> bool:
        return self._context.tree.card(agent).kind == MODEL_KIND

    async def _play(self, turns: Sequence[Turn], words: Sequence[Sequence[HandoffNote]]) -> None:
        """Runs them; one that waits does not stop the others, but then the whole waits. words: what each of them is told."""
        works = [self._turn(*each) for each in zip(turns, words, strict=True)]
        played = await run_together(works)
        self._active = []
        for turn, each in zip(turns, played, strict=True):
            self._settle(turn, *each)

    def _settle(self, turn: Turn, assignment: TurnAssignment, outcome: Outcome) -> None:
        """Takes what came of a turn into account."""
        self._said = outcome.text
        for closing in assignment.closings.values():
            self._progress = with_task_ended(self._design.graph, self._progress, closing)
        if assignment.ended is not None:
            self._ended.append(assignment.ended)
        elif outcome.next is not None:
            self._ended.append(TurnEnd(outcome.next))
        elif self._has_model(turn.agent):
            self._active.append(turn.agent)

    async def _request(self, agent: str) -> Content | None:
        """What the flow was asked, if that agent has to be told: it does not read the log, or not there."""
        if self._has_model(agent):
            if self._request_is_logged is None:
                self._request_is_logged = await is_request_in_log(self._context)
            if self._request_is_logged:
                return None
        return self._context.message

    async def _turn(self, turn: Turn, words: Sequence[HandoffNote]) -> Played:
        assignment = TurnAssignment(self._desk, turn, runs_again=self._has_model(turn.agent))
        await assignment.restore()
        try:
            return await self._worked(turn, assignment, words)
        finally:
            await assignment.close()

    def _has_lapsed(self, turn: Turn, assignment: TurnAssignment) -> bool:
        """Whether the agent waited for an answer, and who gave it has not the roles for this agent. What came after a turn
        that is over already is on record.
        """
        is_open = assignment.ended is None and len(assignment.closings) < len(assignment.tasks)
        return is_open and not self._reachable(turn.agent) and self._pool_key not in self._context.recorded

    async def _worked(self, turn: Turn, assignment: TurnAssignment, words: Sequence[HandoffNote]) -> Played:
        if self._has_lapsed(turn, assignment):
            await assignment.end_turn()
        relays = self._design.relays
        alone = relays or not self._has_model(turn.agent)
        told = assignment.request if relays else brief(turn.tasks, await self._request(turn.agent), words)
        try:
            outcome = await self._context.delegate(
                turn.agent, segment=turn.segment, message=told, assignment=assignment, followed=alone
            )
        except TurnwiseError as problem:
            if not _is_an_agents(problem):
                raise
            await assignment.fail_all(_in_words(turn.agent, problem))
            return assignment, Outcome()
        if alone and not assignment.is_over:
            await assignment.answer(outcome.text, _data(outcome))
        return assignment, outcome


def _heard(turns: Sequence[Turn], ended: Sequence[TurnEnd]) -> Sequence[Sequence[HandoffNote]]:
    """What each of these turns is told by those who ended theirs: who was named hears it, else who comes first."""
    agents = [turn.agent for turn in turns]
    heard: list[list[HandoffNote]] = [[] for _ in turns]
    for each in ended:
        if each.word is not None and heard:
            named = matching_name(each.next, agents) if each.next else None
            heard[agents.index(named) if named else 0].append(each.word)
    return heard


def _is_an_agents(problem: TurnwiseError) -> bool:
    """Whether it is an agent's failure, not one of the store, or an end of the whole run."""
    if isinstance(problem, LimitReached):
        return problem.which != "events"
    return not isinstance(problem, StoreError | SessionError)


def _data(outcome: Outcome) -> JsonValue:
    """The data in an agent's last word, but not what a flow says of itself."""
    parts = outcome.event.content.parts if outcome.event and outcome.event.content else ()
    return next((part.data for part in parts if isinstance(part, DataPart) and not part.private), None)


def _in_words(agent: str, problem: TurnwiseError) -> str:
    """Why an agent's task failed. Most errors name the agent themselves."""
    return problem.problem if repr(agent) in problem.problem else f"Agent {agent!r} failed: {problem.problem}"
