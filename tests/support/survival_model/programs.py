"""What agents do with a message, and what their visible log must then look like: plain values, no store and no runner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turnwise import Event
from turnwise.facts.events import USER

AGENTS = ("front", "back", "form")
"""Who may hand the floor to whom: everybody to everybody. The first is the root."""
STAGES = ("say", "count", "step", "note", "ask", "hand", "usher", "last", "fail")
"""What an agent does, one after the other, each behind a gate.

say: counts in the state and says it. count: counts, and leaves the writing to what comes next. step: work that is
recorded. note: work that is recorded, and that counts. ask: waits for a reply. hand, usher: gives the floor to the next
agent, silently or with a word. last: the answer, as what the function returns. fail: raises.
"""

Program = tuple[str, ...]


@dataclass
class Sent:
    """A message as it was sent: to whom, with what program, and how many of its gates are open."""

    id: str
    session: str
    target: str
    program: Program
    released: int = 0

    @property
    def free(self) -> bool:
        """Whether nothing keeps it from being answered to its end."""
        return self.released >= len(self.program)


def next_agent(name: str) -> str:
    return AGENTS[(AGENTS.index(name) + 1) % len(AGENTS)]


def words(kind: str, id_: str, stage: int, n: int, steps: Sequence[str]) -> str:
    """What an agent says at that stage."""
    return f"{id_}.{stage} {kind} n={n} {' '.join(steps)}".rstrip()


def brief(id_: str, stage: int) -> str:
    """What the next agent is told: where to go on."""
    return f"{id_}@{stage}"


def step_key(stage: int) -> str:
    return f"k{stage}"


@dataclass
class Answer:
    """An invocation on its way, as far as the visible log shows it."""

    owner: Sent
    """Whose program it is: the message that began it."""
    message: str
    """The message that is being answered: that one, or the last reply."""
    agent: str
    began: int
    since: int
    turn: int = 1
    at: int = 0
    resumed_at: int = 0
    uncounted: int = 0
    steps: list[str] = field(default_factory=list)
    carried: dict[str, str] = field(default_factory=dict)
    """What attempts before this one recorded since `since`."""
    again: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """Those of them that the next event that writes holds again, with what they wrote."""
    attempt: int = 1
    wait: str | None = None
    silent: bool = True
    """Nothing was stored of it since `since`."""

    @property
    def stage(self) -> str:
        return self.owner.program[self.at] if self.at < len(self.owner.program) else "end"

    @property
    def branch(self) -> str:
        return str(self.turn)


class Walk:
    """Walks a session's visible log from its first event and says what is wrong in it.

    n: the counter in the state. order: the messages as they were begun. fates: by message, how its answer ended, `waiting`
    or `running`.
    """

    def __init__(self, messages: Mapping[str, Sent], stored: Sequence[Event]) -> None:
        self._messages, self._stored = messages, stored
        self.problems: list[str] = []
        self.n = 0
        self.order: list[str] = []
        self.fates: dict[str, str] = {}
        self.open: dict[str, Answer] = {}

    @property
    def running(self) -> Answer | None:
        return next((answer for answer in self.open.values() if answer.wait is None), None)

    def walk(self, events: Sequence[Event]) -> "Walk":
        for event in events:
            if event.author != USER:
                self._of_agent(event)
            elif event.content is not None:
                self._of_user(event)
            elif event.actions.rewind is None:
                self._wrong(event, "a user's event that says and does nothing")
            if event.actions.rewind is not None and event.author == USER and self.running is not None:
                self._wrong(event, "a user's rewind inside an answer")
        return self

    def settle(self, answer: Answer, gates: int) -> int:
        """How far its agents came, when all that could happen without opening another gate has happened."""
        while answer.at < min(gates, len(answer.owner.program)) and self._pass_silent(answer):
            pass
        return answer.at

    def _of_user(self, event: Event) -> None:
        sent = self._messages.get(event.text)
        if sent is None:
            self._wrong(event, "nobody sent this")
            return
        if self.running is not None:
            self._wrong(event, f"a message inside the answer to {self.running.message}")
        self.order.append(sent.id)
        self.fates[sent.id] = "running"
        self._same(event, "selected", event.actions.selection and event.actions.selection.agent, sent.target)
        sequence = event.sequence or 0
        waiting = [a for a in self.open.items() if a[1].wait is not None and a[1].agent == sent.target]
        if waiting:
            id_, answer = max(waiting, key=lambda item: item[1].began)
            self._same(event, "invocation", event.invocation_id, id_)
            self._same(event, "answered wait", event.actions.answers, answer.wait)
            answer.message, answer.wait, answer.since, answer.attempt, answer.silent = sent.id, None, sequence, 1, True
            answer.at = answer.resumed_at = answer.at + 1
            answer.carried = {}
        else:
            self._same(event, "answered wait", event.actions.answers, None)
            if event.invocation_id in self.open:
                self._wrong(event, "an invocation goes on that does not wait for this agent")
            self.open[event.invocation_id] = Answer(sent, sent.id, sent.target, sequence, sequence)

    def _of_agent(self, event: Event) -> None:
        answer = self.open.get(event.invocation_id)
        if answer is None:
            self._wrong(event, "it belongs to no open invocation")
            return
        actions = event.actions
        if actions.rewind is not None:
            self._begin_attempt(event, answer)
            return
        if actions.end is not None and actions.end.reason not in ("completed", "failed"):
            self._same(event, "content of a stop", event.content, None)
            self._same(event, "delta of a stop", dict(actions.state_delta), {})
            self._close(event, answer)
            return
        if answer.wait is not None:
            self._wrong(event, "it comes from an invocation that waits")
            return
        self._said(event, answer)

    def _begin_attempt(self, event: Event, answer: Answer) -> None:
        assert event.actions.rewind is not None
        if not answer.silent or event.attempt <= answer.attempt or answer.wait is not None:
            self._wrong(event, f"an attempt on top of what attempt {answer.attempt} left")
        self._same(event, "rewound from", event.actions.rewind.from_sequence, answer.since + 1)
        self._same(event, "author", event.author, answer.agent)
        answer.attempt, answer.at, answer.uncounted = event.attempt, answer.resumed_at, 0
        answer.again = []
        before = self._stored[answer.since : (event.sequence or 0) - 1]
        mine = [e for e in before if e.invocation_id == event.invocation_id]
        answer.carried = {step.key: str(step.value) for e in mine for step in e.actions.steps}
        self._same(event, "carried steps", {s.key: str(s.value) for s in event.actions.steps}, answer.carried)

    def _said(self, event: Event, answer: Answer) -> None:
        while self._pass_silent(answer):
            pass
        stage, actions, n = answer.stage, event.actions, self.n + answer.uncounted
        id_, at = answer.owner.id, answer.at
        text = words(stage, id_, at, n + (stage == "say"), answer.steps) if stage not in _WORDLESS else ""
        counted = stage == "say" or (answer.uncounted > 0 and stage not in _UNWRITING)
        delta = {"n": n + (stage == "say")} if counted else {}
        self._same(event, "text", event.text, text)
        self._same(event, "delta", dict(actions.state_delta), delta)
        self._same(event, "attempt", event.attempt, answer.attempt)
        self._same(event, "asks", actions.awaits is not None, stage == "ask")
        self._same(event, "fails", event.error is not None, stage == "fail")
        self._same(event, "ends", actions.end.reason if actions.end else None, _ENDS.get(stage))
        self._same(event, "hands over to", actions.transfer_to, next_agent(answer.agent) if stage in _GIVING else None)
        wrote = {"n": n + 1} if stage == "note" else {}
        steps = [] if stage in _UNWRITING else [*answer.again]
        steps += [(_place(answer), wrote)] if stage in _STEPS else []
        self._same(event, "steps", [(s.key, dict(s.state_delta)) for s in actions.steps], steps)
        if stage != "end" or delta:
            self._same(event, "author", event.author, answer.agent)
            self._same(event, "branch", event.branch, answer.branch)
        self._go_on(event, answer, stage)
        self.n = delta.get("n", self.n)

    def _go_on(self, event: Event, answer: Answer, stage: str) -> None:
        answer.silent = False
        if stage not in _UNWRITING:
            answer.uncounted, answer.again = 0, []
        if stage in _STEPS:
            answer.steps.append(str(event.actions.steps[0].value) if event.actions.steps else "?")
            answer.uncounted += stage == "note"
        if stage == "ask":
            # Its place is this one until the reply comes.
            answer.wait = event.actions.awaits.id if event.actions.awaits else "?"
            self.fates[answer.message] = "waiting"
            return
        answer.at += 1
        if stage in _GIVING:
            answer.agent, answer.turn, answer.steps, answer.carried = next_agent(answer.agent), answer.turn + 1, [], {}
            answer.since, answer.silent, answer.resumed_at = event.sequence or 0, True, answer.at
        if event.actions.end is not None:
            self._close(event, answer)

    def _pass_silent(self, answer: Answer) -> bool:
        """Passes a stage that leaves no event; False when the next one leaves one."""
        if answer.stage == "count":
            answer.uncounted += 1
        elif answer.stage in _STEPS and (value := answer.carried.get(_place(answer))) is not None:
            answer.steps.append(value)
            if answer.stage == "note":
                answer.uncounted += 1
                answer.again.append((_place(answer), {"n": self.n + answer.uncounted}))
        else:
            return False
        answer.at += 1
        return True

    def _close(self, event: Event, answer: Answer) -> None:
        assert event.actions.end is not None
        self.fates[answer.message] = event.actions.end.reason
        del self.open[event.invocation_id]

    def _same(self, event: Event, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._wrong(event, f"{what}: {found!r} instead of {expected!r}")

    def _wrong(self, event: Event, problem: str) -> None:
        self.problems.append(f"event {event.sequence} of {event.author}: {problem}")


def _place(answer: Answer) -> str:
    return f"{answer.branch}:{step_key(answer.at)}"


_STEPS = frozenset({"step", "note"})
_WORDLESS = _STEPS | {"hand", "fail", "end"}
_UNWRITING = _STEPS | {"fail"}
_GIVING = frozenset({"hand", "usher"})
_ENDS = {"last": "completed", "end": "completed", "fail": "failed"}
