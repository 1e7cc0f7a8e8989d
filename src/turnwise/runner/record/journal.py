"""What an invocation has done so far, so that a turn that is taken up again does nothing twice."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.events import USER, Actions, Await, End, Event, StepRecord
from turnwise.ports.context import Outcome


class Journal(NamedTuple):
    """A pure fold over the stored events of one invocation.

    said: by branch, the events an agent run emitted, in order. steps: recorded steps by key; carried: those of them that an
    attempt left whose events were taken back, and whose writes no event of a later one holds. finished: branches that ran to
    their end. replies: what the user answered, by the id of the wait. messages: what the user had said last when a turn began,
    or what the giver of the floor told, by the turn's number: an agent that runs again gets the message it got at first.
    state_before: what the keys that the invocation changed held before it, if it has waited or come to a checkpoint; silent:
    the events that say nothing, and wrote something. stopped: hand-overs were stopped, and how the invocation will end for it.
    spoken: what was said with `once`, by the step's key. waits: what was waited for, by id, as it was stated first. below: the
    branches on which something was said that are a branch, or lie below it, by that branch. calls: how many answers of models
    were taken on a branch and below it, by that branch. made: how many of the events are not the user's.
    """

    said: Mapping[str, tuple[Event, ...]]
    steps: Mapping[str, StepRecord]
    inherited: frozenset[str]
    finished: frozenset[str]
    replies: Mapping[str, Content]
    messages: Mapping[int, Content]
    state_before: Mapping[str, JsonValue]
    write_only: tuple[Event, ...]
    stopped: End | None
    once_events: Mapping[str, Event] = {}
    waits: Mapping[str, Await] = {}
    branches_below: Mapping[str, tuple[str, ...]] = {}
    model_calls: Mapping[str, int] = {}
    event_count: int = 0

    def outcome(self, branch: str) -> Outcome:
        """How the finished run on that branch ended, from what it and those below it said; whom they called in private counts
        for what it took alone.
        """
        below = self.branches_below.get(branch, ())
        events = [e for b in below if "/>" not in b.removeprefix(branch) for e in self.said[b]]
        own = any(event.actions.escalate for event in self.said.get(branch, ()))
        outcome = outcome_of(sorted(events, key=lambda e: e.sequence or 0))
        return outcome._replace(escalated=own, model_calls=self.model_calls.get(branch, 0))


EMPTY = Journal({}, {}, frozenset(), frozenset(), {}, {}, {}, (), None)
DECISION = "?"
"""How the keys of recorded decisions begin. Those of agents' steps begin with a branch, which is never so."""


# No usage: what a model took stands on the event that was said first, and is not taken again. Only the number of its calls
# goes with the step, for whoever limits them.
_STEP_ACTIONS = frozenset({"next", "guarded", "blocked_by", "cut_off", "summary", "jobs"})


def step_value(event: Event) -> JsonValue:
    """What an event says, as the value of the step whose result that is."""
    content = event.content.model_dump(mode="json") if event.content else None
    actions = event.actions.model_dump(mode="json", include=set(_STEP_ACTIONS))
    return {"content": content, "actions": actions, "scope": list(event.scope)}


def event_fields(value: JsonValue) -> dict[str, object]:
    """What an event holds, by field, that says anew what `step_value` gave."""
    read: Any = value
    content = Content.model_validate(read["content"] or {}, strict=False)
    actions = Actions.model_validate(read["actions"], strict=False)
    return {"content": content, "actions": actions, "scope": tuple(read["scope"])}


def public_event(event: Event) -> Event:
    """The event for whoever reads it outside of the runner: without what steps gave, which is for their agent alone. The keys
    stay.
    """
    if all(step.value is None for step in event.actions.steps):
        return event
    steps = tuple(step.model_copy(update={"value": None}) for step in event.actions.steps)
    return event.model_copy(update={"actions": event.actions.model_copy(update={"steps": steps})})


def inherited_steps(events: Iterable[Event], since: int) -> tuple[StepRecord, ...]:
    """The steps that a new attempt has from those before: of all visible events above `since`, but no decisions.

    Work that is on record is not repeated; what was said is said anew, and decided on anew.
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
    return step.model_copy(update={"value": step_value(event), "model_calls": model_calls(event)})


def journal_of(events: Sequence[Event]) -> Journal:
    """The journal of one invocation's events, in append order."""
    said: dict[str, list[Event]] = {}
    steps: dict[str, StepRecord] = {}
    inherited: set[str] = set()
    finished: set[str] = set()
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
            # A turn that waits again for the same thing states it again, without a content: that is no second question.
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
    )


def _branches_below(branches: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each branch, those of them that are it, or lie below it."""
    found: dict[str, list[str]] = {}
    for branch in branches:
        for above in _self_and_ancestors(branch):
            found.setdefault(above, []).append(branch)
    return {branch: tuple(below) for branch, below in found.items()}


def _model_calls(events: Iterable[Event]) -> dict[str, int]:
    """For each branch, how many answers of models were taken on it and below it."""
    found: dict[str, int] = {}
    for event in events:
        if calls := model_calls(event):
            for branch in _self_and_ancestors(event.branch):
                found[branch] = found.get(branch, 0) + calls
    return found


def _self_and_ancestors(branch: str) -> Iterator[str]:
    """The branch, and those above it."""
    while branch:
        yield branch
        branch = branch.rpartition("/")[0]


def _replies(event: Event) -> dict[str, Content]:
    if event.content is None:
        return {}
    replies = {result.call_id: event.content for result in event.content.tool_results}
    if event.actions.answers is not None:
        replies[event.actions.answers] = event.actions.brief or event.content
    return replies


def model_calls(event: Event) -> int:
    """How many answers of models it took to make the event, in whichever attempt."""
    actions = event.actions
    return actions.usage.calls if actions.usage else sum(step.model_calls for step in actions.steps)


def outcome_of(events: Iterable[Event]) -> Outcome:
    """What a run's events amount to: its last word, and whom it named."""
    last: Event | None = None
    for event in events:
        if event.is_answer:
            last = event
    text, next_ = (last.text, last.actions.next) if last else ("", None)
    return Outcome(text, next=next_, event=last)


class StepScope(NamedTuple):
    """branch: that of an agent's run. step: the key of the recorded step in whose work it is said, empty outside of steps."""

    branch: str
    step: str = ""


_ACTIVE_SCOPES: ContextVar[tuple[StepScope, ...]] = ContextVar("turnwise_step_scopes", default=())


def current_scope(branch: str) -> StepScope:
    """Where the run on that branch is, as far as whoever asks is part of it: in the innermost step that is being done."""
    return next((scope for scope in reversed(_ACTIVE_SCOPES.get()) if scope.branch == branch), StepScope(branch))


@contextmanager
def step_scope(scope: StepScope) -> Iterator[None]:
    """Whoever works in the block, in whatever thread or task that it begins, is on that spot."""
    token = _ACTIVE_SCOPES.set((*_ACTIVE_SCOPES.get(), scope))
    try:
        yield
    finally:
        _ACTIVE_SCOPES.reset(token)


class _Write(NamedTuple):
    """What an event wrote to the state."""

    sequence: int
    key: str
    value: JsonValue


class Replay:
    """The recorded events that the agent runs of one turn have yet to come to, by the spot where they were said: what is done
    side by side need not come to them in the same order.

    While there are any, state reads as it was then: an agent that decides by what it finds in the state decides as it did,
    and comes to the same questions. What a run wrote and did not say stands in events that say nothing: they are passed when
    the run writes that again. What a run wrote that is over is passed when whoever called it comes to it.
    """

    def __init__(self, journal: Journal, turn: int) -> None:
        self._remaining: dict[StepScope, deque[Event]] = {}
        self._unmatched: dict[str, list[_Write]] = {}
        self._finished_writes: dict[str, list[_Write]] = {}
        self._state: dict[str, JsonValue] = dict(journal.state_before)
        earlier: list[_Write] = []
        write_only = {event.id for event in journal.write_only}
        for event in (*(event for said in journal.said.values() for event in said), *journal.write_only):
            over = _finished_ancestor(event.branch, journal.finished)
            if not _is_in_turn(event.branch, turn):
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
        """Whether the run has recorded events before it there."""
        return bool(self._remaining.get(scope))

    def take(self, scope: StepScope) -> Event:
        """The next recorded event there; ask `has` first."""
        event = self._remaining[scope].popleft()
        self._remaining_count -= 1
        self._state |= event.actions.state_delta
        return event

    def next_question(self, scope: StepScope) -> Await | None:
        """The next recorded question there, past whatever came before; None when there is none.

        Waits that are stated without a word, or are part of what was said once, are found by their ids.
        """
        while self.has(scope):
            event = self.take(scope)
            once = any(step.says for step in event.actions.steps)
            if event.actions.awaits is not None and event.content is not None and not once:
                return event.actions.awaits
        return None

    def skip_to_wait(self, scope: StepScope, id_: str) -> bool:
        """The run came to the wait of that id there, past whatever came before; False when it was past it already."""
        return self._skip_to(scope, lambda event: event.actions.awaits is not None and event.actions.awaits.id == id_)

    def skip_to_event(self, scope: StepScope, id_: str) -> bool:
        """The run came to the event of that id, as `pass_wait`."""
        return self._skip_to(scope, lambda event: event.id == id_)

    def skip_all(self, scope: StepScope) -> None:
        """The run does there what it never did before: whatever is left there is behind it. Outside of steps, all of it is."""
        for other in self._remaining:
            if other == scope or (not scope.step and other.branch == scope.branch):
                while self.has(other):
                    self.take(other)

    def consume_write(self, branch: str, key: str, value: JsonValue) -> bool:
        """Whether what the run on that branch writes is on record in an event that says nothing; then it came to that."""
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
        """The run came to work that is done, and wrote that."""
        self._state[key] = value

    def reach_finished(self, branch: str) -> None:
        """Who called the run on that branch, which is over, came to it."""
        self._apply_writes(self._finished_writes.pop(branch, []))

    def advance(self, branch: str) -> None:
        """Something new comes of that branch: what it and those above it wrote without a word is behind them, and so is whom
        they called that is over.
        """
        if not self._unmatched and not self._finished_writes:
            return
        here = f"{branch}/"
        passed = [
            write for run in [r for r in self._unmatched if here.startswith(f"{r}/")] for write in self._unmatched.pop(run)
        ]
        for called in [each for each in self._finished_writes if here.startswith(f"{each.rpartition('/')[0]}/")]:
            passed += self._finished_writes.pop(called)
        self._apply_writes(passed)

    def state(self, now: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The state that agents see, of the state as it is now; None values are absent keys."""
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


def _is_in_turn(branch: str, turn: int) -> bool:
    return branch.partition("/")[0] == str(turn)


def _finished_ancestor(branch: str, finished: frozenset[str]) -> str:
    """The topmost run on that branch and above it that is over; empty when all go on."""
    parts = branch.split("/")
    runs = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((run for run in runs if run in finished), "")


def _writes(event: Event) -> list[_Write]:
    return [_Write(event.sequence or 0, key, value) for key, value in event.actions.state_delta.items()]
