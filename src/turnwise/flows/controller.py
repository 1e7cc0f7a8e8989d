"""The control loop of a flow: turns until all tasks are done or none can be, then the answer or the error (behaviours D3, D4,
D10, D11, D13).

Pure functions decide the next turn; this module calls, runs and records. All state is in the log, so a resumed run
replays the same turns.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, DataPart, text_content
from turnwise.facts.errors import FlowFailed, FlowStuck, LimitReached, SessionError, StoreError, TurnwiseError
from turnwise.facts.events import LIMIT, USER, End, Event
from turnwise.flows.assignment import FlowRunState, TurnAssignment
from turnwise.flows.design import Design
from turnwise.flows.logged import TurnEnd, flow_content
from turnwise.flows.strategies import Moderated
from turnwise.flows.tasks import Graph, Progress, Status, TaskEnd, initial_progress, with_task_ended
from turnwise.flows.turns import (
    HandoffNote,
    Labels,
    Pool,
    Turn,
    TurnChoice,
    brief,
    is_within,
    pool_of,
    pool_without,
    result_text,
    turn_of,
)
from turnwise.flows.until import RunCounts
from turnwise.ports.assignment import EVERYTHING
from turnwise.ports.context import AgentContext, Outcome
from turnwise.ports.selector import Selector
from turnwise.selection.conversational import matching_name
from turnwise.tools.event_loop import run_together

COMPLETE, STUCK, TURNS = "complete", "stuck", "limit:turns"

MODEL_KIND = "llm"

TurnResult = tuple[TurnAssignment, Outcome]
"""The result of a turn."""

TASKS_SHOWN = 10
"""The most tasks that an error names."""

_FAILED = "failed"


class RunEnding(NamedTuple):
    """How a run of a flow ended."""

    reason: str
    """`complete`, `failed`, `stuck`, `limit:turns`, `limit:model_calls`, or the reason of the flow's `until`."""
    progress: Progress
    turns: int
    model_calls: int


class Controller:
    """One run of a flow."""

    def __init__(self, design: Design, context: AgentContext) -> None:
        self._design, self._context = design, context
        assignment = context.assignment
        outer = assignment.scope if assignment is not None else EVERYTHING
        if is_within(context.card.name, outer):
            raise FlowFailed(f"The flow {context.card.name!r} would be run for one of its own tasks.")
        self._labels = Labels(context.card.name, design.graph, outer)
        self._state = FlowRunState(context, design.graph, self._labels, self._waiting, design.names, design.relays)
        self._is_open_to_all = all(context.tree.reachable(name, ()) for name in design.names)
        self._request_is_logged: bool | None = None
        """True if agents that read the log find the request there; None before the first check."""
        self._progress = initial_progress(design.graph, design.targets)
        self._turns = 0
        self._active: list[str] = []
        self._turn_ends: list[TurnEnd] = []
        self._last_answer = ""

    async def run(self) -> RunEnding:
        """Runs turns until the flow ends.

        Raises:
            Suspend: The flow waits for a person.
            StoreError, SessionError: Errors of the store are not converted.
        """
        while True:
            pool = await self._recorded_pool()
            reason = self._end_reason(pool)
            if reason is not None:
                return RunEnding(reason, self._progress, self._turns, self._context.model_calls)
            ended, self._turn_ends = self._turn_ends, []
            turns = await self._choose_turns(pool, [each.next for each in ended if each.next])
            await self._run_turns(turns, _notes_for_turns(turns, ended))

    def _end_reason(self, pool: Pool) -> str | None:
        """Returns the reason why the flow ends now; None if it continues."""
        counts = RunCounts(self._design.graph, self._progress, self._turns, self._context.model_calls)
        met = self._design.rules.until.met(counts)
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

    async def _recorded_pool(self) -> Pool:
        """Returns the pool for the next turns.

        A reply may come from a caller with other roles than the request. Where roles matter, the reachable agents are
        recorded, so past turns are replayed unchanged.
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

    def _waiting(self, task_ends: Sequence[TaskEnd]) -> Sequence[str]:
        progress = self._progress
        for task_end in task_ends:
            progress = with_task_ended(self._design.graph, progress, task_end)
        return tuple(self._pool(progress))

    async def _choose_turns(self, pool: Pool, named: list[str]) -> Sequence[Turn]:
        """Picks and records the next turns: one, or several concurrent ones without common tasks.

        Args:
            pool: The agents with their ready tasks.
            named: The agents named by the last turns, in order.
        """
        turns = [await self._next_turn(pool, named)]
        while len(turns) < self._design.rules.side_by_side and self._turns < self._design.max_turns:
            pool = pool_without(pool, turns[-1].agent, [task.name for task in turns[-1].tasks])
            if not pool:
                break
            turns.append(await self._next_turn(pool, named))
        beside = len(turns) > 1
        return [turn._replace(beside=beside) for turn in turns]

    async def _next_turn(self, pool: Pool, named: list[str]) -> Turn:
        """Chooses the next agent among those with ready tasks, and records the turn's start."""
        active = next((name for name in self._active if name in pool), None)
        next_named = next((name for name in named if matching_name(name, pool)), next(iter(named), None))
        choice = TurnChoice(active, next_named, self._design.rules.strategy)
        if choice.settled(pool) is None:
            choice = TurnChoice(active, next_named, await self._strategy(pool))
        elif active is None and next_named is not None:
            named.remove(next_named)
        counts = {name: len(tasks) for name, tasks in pool.items()}
        verdict = await self._context.select(choice, among=tuple(pool), tasks=counts)
        # An older log may name an agent that is no longer in the pool.
        agent = verdict.agent if verdict.agent and verdict.agent in pool else next(iter(pool))
        self._turns += 1
        tasks = pool[agent] if self._has_model(agent) else pool[agent][:1]
        turn = turn_of(self._design.graph, self._progress, self._labels, self._turns, agent, tasks)
        await self._context.say(Content(), scope=turn.scope.labels)
        return turn

    async def _strategy(self, pool: Pool) -> Selector:
        """Returns the selector for the next turn. A moderator is asked if there is more than one candidate."""
        strategy = self._design.rules.strategy
        if not isinstance(strategy, Moderated) or len(pool) < 2:
            return strategy
        tasks = {name: [self._design.graph.tasks[task].objective or task for task in theirs] for name, theirs in pool.items()}
        question = strategy.question(tasks, self._context.tree, last_answer=self._last_answer)
        try:
            answer = await self._context.delegate(
                strategy.moderator,
                segment=f"choice#{self._turns + 1}",
                message=text_content(question, "user"),
                private=True,
            )
        except TurnwiseError as problem:
            if not _is_agent_failure(problem):
                raise
            return strategy.answered("")
        return strategy.answered(answer.text, answer.next)

    def _has_model(self, agent: str) -> bool:
        return self._context.tree.card(agent).kind == MODEL_KIND

    async def _run_turns(self, turns: Sequence[Turn], notes: Sequence[Sequence[HandoffNote]]) -> None:
        """Runs the turns concurrently.

        A turn that waits does not stop the others; the flow suspends after them. `words` holds the notes for each turn.
        """
        runs = [self._run_turn(*result) for result in zip(turns, notes, strict=True)]
        turn_results = await run_together(runs)
        self._active = []
        for turn, result in zip(turns, turn_results, strict=True):
            self._apply_result(turn, *result)

    def _apply_result(self, turn: Turn, assignment: TurnAssignment, outcome: Outcome) -> None:
        """Applies the result of a turn."""
        self._last_answer = outcome.text
        for task_end in assignment.task_ends.values():
            self._progress = with_task_ended(self._design.graph, self._progress, task_end)
        if assignment.ended is not None:
            self._turn_ends.append(assignment.ended)
        elif outcome.next is not None:
            self._turn_ends.append(TurnEnd(outcome.next))
        elif self._has_model(turn.agent):
            self._active.append(turn.agent)

    async def _request(self, agent: str) -> Content | None:
        """Returns the request if the agent needs it in its brief: it does not read the log, or the request is not in it."""
        if self._has_model(agent):
            if self._request_is_logged is None:
                self._request_is_logged = await is_request_in_log(self._context)
            if self._request_is_logged:
                return None
        return self._context.message

    async def _run_turn(self, turn: Turn, notes: Sequence[HandoffNote]) -> TurnResult:
        """Runs a turn and closes its assignment."""
        assignment = TurnAssignment(self._state, turn, runs_again=self._has_model(turn.agent))
        await assignment.restore()
        try:
            return await self._work(turn, assignment, notes)
        finally:
            await assignment.close()

    def _has_lapsed(self, turn: Turn, assignment: TurnAssignment) -> bool:
        """Checks whether the agent waited for a reply and the replying caller may not reach it.

        Once the next pool is recorded, the turn is not reopened.
        """
        is_open = assignment.ended is None and len(assignment.task_ends) < len(assignment.tasks)
        return is_open and not self._reachable(turn.agent) and self._pool_key not in self._context.recorded

    async def _work(self, turn: Turn, assignment: TurnAssignment, notes: Sequence[HandoffNote]) -> TurnResult:
        """Runs the turn's agent on its tasks. An error of the agent fails them."""
        if self._has_lapsed(turn, assignment):
            await assignment.end_turn()
        relays = self._design.relays
        alone = relays or not self._has_model(turn.agent)
        message = assignment.request if relays else brief(turn.tasks, await self._request(turn.agent), notes)
        try:
            outcome = await self._context.delegate(
                turn.agent, segment=turn.segment, message=message, assignment=assignment, followed=alone
            )
        except TurnwiseError as error:
            if not _is_agent_failure(error):
                raise
            await assignment.fail_all(_failure_reason(turn.agent, error))
            return assignment, Outcome()
        if alone and not assignment.is_over:
            await assignment.answer(outcome.text, _data(outcome))
        return assignment, outcome


async def is_request_in_log(context: AgentContext) -> bool:
    """Checks whether the flow's request is in the log as the user's own message, which all agents can read.

    A request from another flow, a private caller or a transferring agent is visible to the flow alone.
    """
    assignment = context.assignment
    if (assignment is not None and assignment.giver is not None) or context.event().is_private:
        return False
    async for page in context.history.backwards():
        if any(_is_request_event(event, context) for event in page):
            return True
    return False


class RunResult(NamedTuple):
    """The result of a run."""

    reason: str
    """The reason why it ended, in one word."""
    answer: str = ""
    problem: FlowFailed | FlowStuck | LimitReached | None = None
    """The error to raise; None if there is none."""


def judge_run(graph: Graph, ending: RunEnding) -> RunResult:
    """Returns the result of a run: the results of the tasks that no other task needs.

    One result is returned unchanged, several with the tasks' names. The flow has failed if one of these tasks did not
    succeed.
    """
    unfinished = interrupted_result(graph, ending)
    if unfinished is not None:
        return unfinished
    unsuccessful = (Status.FAILED, Status.SKIPPED)
    failed = [name for name in _final_tasks(graph, ending.progress) if ending.progress.statuses[name] in unsuccessful]
    if failed or ending.reason == _FAILED:
        return failed_result(graph, ending, failed or graph.order)
    texts = results(graph, ending.progress)
    if len(texts) == 1:
        return RunResult(ending.reason, next(iter(texts.values())))
    return RunResult(ending.reason, "\n\n".join(f"{task}: {text}" for task, text in texts.items()))


def interrupted_result(graph: Graph, ending: RunEnding) -> RunResult | None:
    """Returns the result of a run that is stuck or has reached a limit; None if it came to its end."""
    if ending.reason.startswith(LIMIT):
        which = ending.reason.removeprefix(LIMIT)
        problem = f"The flow {graph.flow!r} came to no end in {ending.turns} turns."
        fix = "Give the flow more of them, or see in the log what its agents did with theirs."
        return RunResult(ending.reason, problem=LimitReached(which, problem, fix=fix))
    if ending.reason == STUCK:
        ready = _joined([repr(name) for name in ending.progress.ready], ", ")
        stuck = f"No agent that the caller may reach can do the ready tasks of the flow {graph.flow!r}: {ready}."
        return RunResult(STUCK, problem=FlowStuck(stuck, fix="Enable one of its agents, or give the caller a role for one."))
    return None


def failed_result(graph: Graph, ending: RunEnding, tasks: Sequence[str]) -> RunResult:
    """Returns the failed result. It names the failed tasks among these and upstream of them."""
    relevant, task_ends = graph.upstream(tasks), ending.progress.task_ends
    failed = [task_ends[name] for name in graph.order if name in relevant and _has_failed(ending.progress, name)]
    reasons = _joined([f"{each.task!r} failed{f': {each.reason}' if each.reason else ''}" for each in failed], "; ")
    return RunResult(
        _FAILED, problem=FlowFailed(f"The flow {graph.flow!r} did not get done{f': {reasons}' if reasons else '.'}")
    )


def results(graph: Graph, progress: Progress) -> Mapping[str, str]:
    """Returns the results, as text, of the successful tasks that no other task needs."""
    done = {task: progress.task_ends[task] for task in _final_tasks(graph, progress) if task in progress.task_ends}
    return {task: result_text(task_end.result) for task, task_end in done.items() if task_end.status is Status.SUCCESSFUL}


async def run_design(
    design: Design, context: AgentContext, judge: Callable[[Graph, RunEnding], RunResult] = judge_run
) -> AsyncIterator[Event]:
    """Runs the flow with that design and yields its final event.

    Raises:
        FlowFailed, FlowStuck, LimitReached: The error in the result of `judge`.
    """
    ending = await Controller(design, context).run()
    result = judge(design.graph, ending)
    data = _flow_data(design.graph.flow, result.reason, ending)
    yield context.event(flow_content(result.answer, data), end=None if result.problem else End())
    if result.problem is not None:
        raise result.problem


def _notes_for_turns(turns: Sequence[Turn], ended: Sequence[TurnEnd]) -> Sequence[Sequence[HandoffNote]]:
    """Returns the notes for each turn: a note goes to the agent it names, otherwise to the first turn."""
    agents = [turn.agent for turn in turns]
    notes: list[list[HandoffNote]] = [[] for _ in turns]
    for turn_end in ended:
        if turn_end.note is not None and notes:
            named = matching_name(turn_end.next, agents) if turn_end.next else None
            notes[agents.index(named) if named else 0].append(turn_end.note)
    return notes


def _is_agent_failure(problem: TurnwiseError) -> bool:
    """Checks whether an agent failed, as opposed to the store or the whole run."""
    if isinstance(problem, LimitReached):
        return problem.which != "events"
    return not isinstance(problem, StoreError | SessionError)


def _data(outcome: Outcome) -> JsonValue:
    """Returns the data of an agent's answer, without data that a flow emits about itself."""
    parts = outcome.event.content.parts if outcome.event and outcome.event.content else ()
    return next((part.data for part in parts if isinstance(part, DataPart) and not part.private), None)


def _failure_reason(agent: str, problem: TurnwiseError) -> str:
    """Returns the reason for a failed task. Most errors name the agent already."""
    return problem.problem if repr(agent) in problem.problem else f"Agent {agent!r} failed: {problem.problem}"


def _is_request_event(event: Event, context: AgentContext) -> bool:
    if event.author != USER or event.invocation_id != context.invocation_id:
        return False
    content = event.actions.brief or event.content
    return content is not None and content.parts == context.message.parts


def _final_tasks(graph: Graph, progress: Progress) -> Sequence[str]:
    """Returns the tasks to be done that no other such task needs."""
    statuses = progress.statuses
    return [name for name in graph.order if name in statuses and not any(other in statuses for other in graph.needed_by[name])]


def _joined(items: Sequence[str], separator: str) -> str:
    more = f"{separator}and {len(items) - TASKS_SHOWN} more" if len(items) > TASKS_SHOWN else ""
    return separator.join(items[:TASKS_SHOWN]) + more


def _has_failed(progress: Progress, task: str) -> bool:
    return task in progress.task_ends and progress.task_ends[task].status is Status.FAILED


def _flow_data(flow: str, reason: str, ending: RunEnding) -> dict[str, JsonValue]:
    tasks: Mapping[str, Any] = {
        name: {"status": str(status), **_reason_data(ending.progress, name)}
        for name, status in ending.progress.statuses.items()
    }
    return {"flow": flow, "reason": reason, "turns": ending.turns, "model_calls": ending.model_calls, "tasks": dict(tasks)}


def _reason_data(progress: Progress, task: str) -> dict[str, JsonValue]:
    task_end = progress.task_ends.get(task)
    return {"reason": task_end.reason} if task_end is not None and task_end.reason else {}
