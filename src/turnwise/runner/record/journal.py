"""The journal of an invocation, and its replay: a resumed turn finds its recorded work here and does not repeat it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.events import NO_BRANCH, USER, Actions, Await, Branch, End, Event, StepRecord
from turnwise.ports.context import Outcome

DECISION = "?"
"""The prefix of the keys of recorded decisions. The keys of agents' steps begin with a branch, which never has this prefix."""
# Without `usage`: the first event records the usage, and repeating it would count it twice. The step carries only the number
# of model calls, which limits need.
_STEP_ACTIONS = frozenset({"next", "guarded", "blocked_by", "cut_off", "note", "note_memory", "summary", "jobs"})


@dataclass(frozen=True, slots=True)
class Journal:
    """A pure fold over the stored events of one invocation."""

    said: Mapping[Branch, tuple[Event, ...]]
    """The events of each branch that a resumed run reaches again, in order: those with content, an escalation or a new wait."""
    steps: Mapping[str, StepRecord]
    """The recorded steps by key."""
    inherited: frozenset[str]
    """The keys of steps that earlier attempts recorded in events since taken back, while no later event holds their writes."""
    finished: frozenset[Branch]
    """The branches that ran to their end."""
    replies: Mapping[str, Content]
    """The user's answers, by the id of the wait."""
    messages: Mapping[int, Content]
    """The message of each turn, by turn number: the user's last message, or the brief of the handoff. A resumed agent gets
    the same message again.
    """
    state_before: Mapping[str, JsonValue]
    """The earlier values of the keys that the invocation changed, once it has waited or passed a checkpoint."""
    write_only: tuple[Event, ...]
    """The events that have no content but write state."""
    stopped: End | None
    """The end that the invocation will have because handoffs were stopped; None when they were not."""
    once_events: Mapping[str, Event] = field(default_factory=dict)
    """The events emitted by `once`, by the step's key."""
    waits: Mapping[str, Await] = field(default_factory=dict)
    """The waits by id, as first recorded."""
    branches_below: Mapping[Branch, tuple[Branch, ...]] = field(default_factory=dict)
    """For each branch with descendants that emitted events: the branch itself and those descendants."""
    model_calls: Mapping[Branch, int] = field(default_factory=dict)
    """The number of model calls on each branch and below it."""
    event_count: int = 0
    """The number of events that are not the user's."""
    remembered: frozenset[str] = frozenset()
    """The ids of the entries that the events put into the memory."""

    def outcome(self, branch: Branch) -> Outcome:
        """Returns the outcome of the finished run on that branch, from its events and those of its children.

        Private calls below it count only for the number of model calls.
        """
        below = self.branches_below.get(branch, ())
        events = [e for b in below if b.call_depth == branch.call_depth for e in self.said[b]]
        own = any(event.actions.escalate for event in self.said.get(branch, ()))
        outcome = outcome_of(sorted(events, key=lambda e: e.sequence or 0))
        return replace(outcome, escalated=own, model_calls=self.model_calls.get(branch, 0))


EMPTY = Journal({}, {}, frozenset(), frozenset(), {}, {}, {}, (), None)


def step_value(event: Event) -> JsonValue:
    """Returns the content of an event as the value of a step."""
    content = event.content.model_dump(mode="json") if event.content else None
    actions = event.actions.model_dump(mode="json", include=set(_STEP_ACTIONS))
    return {"content": content, "actions": actions, "scope": list(event.scope)}


def with_step_value(event: Event, value: JsonValue) -> Event:
    """Returns the event with the content that a value of `step_value` holds."""
    read: Any = value
    content = Content.model_validate(read["content"] or {}, strict=False)
    actions = Actions.model_validate(read["actions"], strict=False)
    return event.replace(content=content, actions=actions, scope=tuple(read["scope"]))


def public_event(event: Event) -> Event:
    """Returns the event without step values, which only their agent may read. The keys remain."""
    if all(step.value is None for step in event.actions.steps):
        return event
    steps = tuple(step.replace(value=None) for step in event.actions.steps)
    return event.with_actions(steps=steps)


def inherited_steps(events: Iterable[Event], since: int) -> tuple[StepRecord, ...]:
    """Returns the steps that a new attempt inherits: those of all visible events above `since`, without decisions.

    Recorded work is not repeated, but answers are emitted again and decisions are made again.
    """
    records = {
        step.key: _as_inherited(step, event)
        for event in events
        if (event.sequence or 0) > since
        for step in event.actions.steps
        if not step.key.startswith(DECISION)
    }
    return tuple(records.values())


def _as_inherited(step: StepRecord, event: Event) -> StepRecord:
    if not step.says or step.value is not None:
        return step
    return step.replace(value=step_value(event), model_calls=model_calls(event))


def journal_of(events: Sequence[Event]) -> Journal:
    """Returns the journal of one invocation's events, given in append order."""
    said: dict[Branch, list[Event]] = {}
    steps: dict[str, StepRecord] = {}
    inherited: set[str] = set()
    finished: set[Branch] = set()
    replies: dict[str, Content] = {}
    messages: dict[int, Content] = {}
    before: dict[str, JsonValue] = {}
    write_only: list[Event] = []
    stopped: End | None = None
    once_events: dict[str, Event] = {}
    waits: dict[str, Await] = {}
    turn, latest = 1, Content()
    for event in events:
        actions = event.actions
        if event.author == USER and event.content is not None:
            latest = actions.brief or event.content
            messages.setdefault(turn, latest)
        if actions.transfer_to is not None:
            turn += 1
            messages[turn] = actions.brief or latest
            stopped = stopped or actions.stopped
        steps |= {step.key: step for step in actions.steps}
        once_events |= {step.key: event for step in actions.steps if step.says and step.value is None}
        (inherited.difference_update if actions.rewind is None else inherited.update)(step.key for step in actions.steps)
        finished.update(actions.finished)
        if actions.state_before:
            before = actions.state_before | before
        if event.author == USER:
            replies |= _replies(event)
        elif event.content is not None or actions.escalate or (actions.awaits and actions.awaits.id not in waits):
            said.setdefault(event.branch, []).append(event)
        elif actions.state_delta:
            write_only.append(event)
        if actions.awaits:
            # A resumed turn records the same wait again, without content: that is no second question.
            waits.setdefault(actions.awaits.id, actions.awaits)
    return Journal(
        {b: tuple(es) for b, es in said.items()},
        steps,
        frozenset(inherited),
        frozenset(finished),
        replies,
        messages,
        before,
        tuple(write_only),
        stopped,
        once_events,
        waits,
        _branches_below(said),
        _model_calls(events),
        sum(event.author != USER for event in events),
        frozenset(entry.id for event in events for entry in event.actions.remembered),
    )


def _branches_below(branches: Iterable[Branch]) -> dict[Branch, tuple[Branch, ...]]:
    """Returns, for each branch and its ancestors, the branches at or below it."""
    below: dict[Branch, list[Branch]] = {}
    for branch in branches:
        for above in branch.with_ancestors():
            below.setdefault(above, []).append(branch)
    return {above: tuple(branches) for above, branches in below.items()}


def _model_calls(events: Iterable[Event]) -> dict[Branch, int]:
    """Returns, for each branch, the number of model calls on it and below it."""
    calls_by_branch: dict[Branch, int] = {}
    for event in events:
        if calls := model_calls(event):
            for branch in event.branch.with_ancestors():
                calls_by_branch[branch] = calls_by_branch.get(branch, 0) + calls
    return calls_by_branch


def _replies(event: Event) -> dict[str, Content]:
    """Returns the event's replies by the id of the wait that each one answers: tool results, and a reply to a question."""
    if event.content is None:
        return {}
    replies = {result.call_id: event.content for result in event.content.tool_results}
    if event.actions.answers is not None:
        replies[event.actions.answers] = event.actions.brief or event.content
    return replies


def model_calls(event: Event) -> int:
    """Returns the number of model calls that the event took, across all attempts."""
    actions = event.actions
    return actions.usage.calls if actions.usage else sum(step.model_calls for step in actions.steps)


def outcome_of(events: Iterable[Event]) -> Outcome:
    """Returns the outcome of a run's events: its last answer, and the agent named in it."""
    last: Event | None = None
    for event in events:
        if event.is_answer:
            last = event
    text, next_ = (last.text, last.actions.next) if last else ("", None)
    return Outcome(text, next=next_, event=last)


class StepScope(NamedTuple):
    """The place in the code of an agent run where an event arises: inside a recorded step, or outside of steps."""

    branch: Branch
    """The branch of the agent run."""
    step: str = ""
    """The key of the step in progress; empty outside of steps."""


_ACTIVE_SCOPES: ContextVar[tuple[StepScope, ...]] = ContextVar("turnwise_step_scopes", default=())


def current_scope(branch: Branch) -> StepScope:
    """Returns the scope of the run on that branch in the current task: the innermost step in progress."""
    return next((scope for scope in reversed(_ACTIVE_SCOPES.get()) if scope.branch == branch), StepScope(branch))


@contextmanager
def step_scope(scope: StepScope) -> Iterator[None]:
    """Sets the current scope for the block, including the tasks and threads that it starts."""
    token = _ACTIVE_SCOPES.set((*_ACTIVE_SCOPES.get(), scope))
    try:
        yield
    finally:
        _ACTIVE_SCOPES.reset(token)


class _Write(NamedTuple):
    """A state write of an event."""

    sequence: int
    key: str
    value: JsonValue


class Replay:
    """The recorded events that the agent runs of one turn have not reached yet, by the scope where they arose.

    Parallel runs may reach their events in any order, hence the queue per scope.

    While events remain, the state reads as it did when they were recorded. An agent that decides by the state therefore decides
    as before, and asks the same questions. Writes in events without content are reached when the run makes them again.
    Writes of a finished run are reached when its caller reaches that run.
    """

    def __init__(self, journal: Journal, turn: int) -> None:
        self._remaining: dict[StepScope, deque[Event]] = {}
        self._unmatched: dict[Branch, list[_Write]] = {}
        self._finished_writes: dict[Branch, list[_Write]] = {}
        self._state: dict[str, JsonValue] = dict(journal.state_before)
        earlier: list[_Write] = []
        write_only = {event.id for event in journal.write_only}
        for event in (*(event for said in journal.said.values() for event in said), *journal.write_only):
            over = _finished_ancestor(event.branch, journal.finished)
            if not event.branch.is_of_turn(turn):
                earlier += _writes(event)
            elif over:
                self._finished_writes.setdefault(over, []).extend(_writes(event))
            elif event.id in write_only:
                self._unmatched.setdefault(event.branch, []).extend(_writes(event))
            else:
                self._remaining.setdefault(StepScope(event.branch, event.within), deque()).append(event)
        self._apply_writes(earlier)
        self._remaining_count = sum(len(events) for events in self._remaining.values())

    def has(self, scope: StepScope) -> bool:
        """Returns whether recorded events remain in that scope."""
        return bool(self._remaining.get(scope))

    def take(self, scope: StepScope) -> Event:
        """Returns the next recorded event of the scope. Call `has` first."""
        event = self._remaining[scope].popleft()
        self._remaining_count -= 1
        self._state |= event.actions.state_delta
        return event

    def next_question(self, scope: StepScope) -> Await | None:
        """Skips to the next recorded question of the scope and returns its wait; None when there is none.

        Leaves out waits without content, and waits of `once` events: both are found by their ids.
        """
        while self.has(scope):
            event = self.take(scope)
            once = any(step.says for step in event.actions.steps)
            if event.actions.awaits is not None and event.content is not None and not once:
                return event.actions.awaits
        return None

    def skip_to_wait(self, scope: StepScope, id_: str) -> bool:
        """Skips to the wait with that id in the scope. Returns False when the run is already past it."""
        return self._skip_to(scope, lambda event: event.actions.awaits is not None and event.actions.awaits.id == id_)

    def skip_to_event(self, scope: StepScope, id_: str) -> bool:
        """Skips to the event with that id in the scope. Returns False when the run is already past it."""
        return self._skip_to(scope, lambda event: event.id == id_)

    def skip_all(self, scope: StepScope) -> None:
        """Skips the remaining events of the scope: the run does something new there. Outside of steps, skips the whole
        branch.
        """
        for other in self._remaining:
            if other == scope or (not scope.step and other.branch == scope.branch):
                while self.has(other):
                    self.take(other)

    def consume_write(self, branch: Branch, key: str, value: JsonValue) -> bool:
        """Returns whether an event without content records this write of the run; if so, the replay moves past it."""
        unmatched = self._unmatched.get(branch, [])
        found = next((each for each in unmatched if (each.key, each.value) == (key, value)), None)
        if found is None:
            return False
        unmatched[:] = [each for each in unmatched if each.key != key or each.sequence > found.sequence]
        if not unmatched:
            del self._unmatched[branch]
        self._state[key] = value
        return True

    def apply_write(self, key: str, value: JsonValue) -> None:
        """Applies a write of recorded work that the run has reached."""
        self._state[key] = value

    def reach_finished(self, branch: Branch) -> None:
        """Applies the writes of the finished run on that branch: its caller has reached it."""
        self._apply_writes(self._finished_writes.pop(branch, []))

    def advance(self, branch: Branch) -> None:
        """Applies the remaining writes without content of the branch and its ancestors: a new event arose on the branch.

        The finished runs that those called are applied, too.
        """
        if not self._unmatched and not self._finished_writes:
            return
        passed = [write for run in [r for r in self._unmatched if r.holds(branch)] for write in self._unmatched.pop(run)]
        for called in [each for each in self._finished_writes if each.parent.holds(branch)]:
            passed += self._finished_writes.pop(called)
        self._apply_writes(passed)

    def state(self, now: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Returns the state that agents see, given the current state. A None value is an absent key."""
        return {**now, **self._state} if self._remaining_count or self._unmatched or self._finished_writes else dict(now)

    def _apply_writes(self, writes: list["_Write"]) -> None:
        for write in sorted(writes, key=lambda write: write.sequence):
            self._state[write.key] = write.value

    def _skip_to(self, scope: StepScope, reached: Callable[[Event], bool]) -> bool:
        if not any(reached(event) for event in self._remaining.get(scope, ())):
            return False
        while not reached(self.take(scope)):
            continue
        return True


def _finished_ancestor(branch: Branch, finished: frozenset[Branch]) -> Branch:
    """Returns the topmost finished run at or above the branch; empty when there is none."""
    over = [run for run in branch.with_ancestors() if run in finished]
    return over[-1] if over else NO_BRANCH


def _writes(event: Event) -> list[_Write]:
    return [_Write(event.sequence or 0, key, value) for key, value in event.actions.state_delta.items()]
