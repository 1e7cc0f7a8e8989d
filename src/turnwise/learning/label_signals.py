"""Signals: what the log of a conversation says about a decision that nobody labelled (behaviour H2).

`SIGNALS` is the whole policy: each signal with its weight. `SignalReader` finds the signals in a session's events, and
`label_of` adds those of one decision up to a label. All are pure.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from turnwise.facts.content import DataPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.selections import Selection
from turnwise.facts.tree import AgentTree
from turnwise.matching.normalize import normalize
from turnwise.ports.decisions import SIGNAL, Label
from turnwise.selection.clarify import CLARIFIED, CLARIFIED_BY_MEANING, DECLINED

Name = Literal[
    "clarified",
    "chose_directly",
    "handed_over",
    "meant_another",
    "said_again",
    "back_again",
    "failed",
    "task_done",
    "thanked",
    "not_corrected",
    "replied",
]


class Effect(NamedTuple):
    """The effect of a signal on a decision's label."""

    says: Literal["right", "wrong", "another"]
    """`right`: the chosen agent is right. `wrong`: it may be wrong. `another`: another agent, which the signal names, is."""
    weight: float
    """0 to 1."""
    about: str


SIGNALS: Mapping[Name, Effect] = {
    "clarified": Effect("another", 0.9, "the user was asked to choose, and chose this agent"),
    "chose_directly": Effect("another", 0.8, "the user sent the message again, directly to another agent"),
    "handed_over": Effect("another", 0.7, "the chosen agent handed over before it said anything"),
    "meant_another": Effect("another", 0.6, "the user said “no, I meant …”, and another agent was chosen"),
    "said_again": Effect("another", 0.4, "the user sent the same message again, and another agent was chosen"),
    "back_again": Effect("another", 0.2, "the conversation left an agent for one message, and came back"),
    "failed": Effect("wrong", 0.1, "the answer failed"),
    "task_done": Effect("right", 0.6, "the chosen agent finished a task"),
    "thanked": Effect("right", 0.5, "the user said thanks"),
    "not_corrected": Effect("right", 0.5, "an operator reviewed the session and left the decision as it is"),
    "replied": Effect("right", 0.2, "the user answered a question of the chosen agent"),
}
"""All signals, the heaviest first. Several signals for one agent add up as independent evidence."""

COUNTS = 0.5
"""Labels with less weight are unsure: they are reviewed first, and nothing is learned from them."""
MOST = 0.95
"""The most weight of a label by signals: below that of a label which a user gave."""
_LEAST = 0.1
"""Labels with less weight are not kept."""

SOON = timedelta(minutes=10)
"""A later message says nothing about an earlier answer."""
TRIAGE_SHARE, TRIAGE_LEAST = 0.8, 10
"""An agent that hands over this share of its messages at once, of at least this many, is a triage agent: it does its work."""

_ALIKE, _RELATED, _WORDS_LEAST = 0.8, 0.5, 3
_WORD = re.compile(r"\w+")
_CORRECTION = re.compile(
    r"(?:(?:no|nope|sorry|wait|hm+|well|but|actually)\b[\s,.!-]*)*"
    r"(?:i (?:meant|mean|wanted|asked (?:for|about)|was asking|did(?:n['’]t| not) (?:ask|mean|want))\b"
    r"|not (?:that|this|what i)\b|that(?:['’]s| is|s) not\b|wrong (?:agent|department|team|person|desk|one)\b)"
)
_THANKS = re.compile(
    r"(?:(?:ok|okay|great|perfect|super|wonderful|excellent)\b[\s,.!-]*)*"
    r"(?:thanks|thank you|thx|cheers|many thanks|perfect|great)"
    r"(?: (?:a lot|so much|very much|again|for (?:the|your) help))?[\s,.!]*(?:that(?:['’]s| is) (?:all|it))?[\s.!]*"
)
NOT_ROUTED = frozenset({"reply", "tool_result", "direct_routing", CLARIFIED, CLARIFIED_BY_MEANING, DECLINED})
"""Methods of decisions that the caller made, so there is nothing to learn."""


class Found(NamedTuple):
    """A signal about the decision at a sequence number."""

    sequence: int
    chosen: str
    """The agent that was chosen."""
    signal: Name
    agent: str | None
    """The agent that the signal speaks for; None when it only speaks against the chosen one."""


@dataclass(slots=True)
class _Turn:
    """A message with its decision, and what followed."""

    sequence: int
    text: str
    selection: Selection
    at: datetime
    holders: list[str] = field(default_factory=list)
    """The agents that had the turn, in order."""
    answered_by: list[str] = field(default_factory=list)
    replied: bool = False
    failed: bool = False
    task_by: str | None = None
    """The agent that had the turn when a task was done."""

    @property
    def chosen(self) -> str:
        return self.selection.agent

    @property
    def is_routed(self) -> bool:
        return self.selection.method not in NOT_ROUTED


class SignalReader:
    """Finds signals in the events of one session. Add the visible events in order, then call `close`.

    Args:
        tree: The agents. A hand-over by the root, or to an agent below the one that hands over, is no error.
        default: The default agent; None means the root. It is never proposed as the right agent.
    """

    def __init__(self, tree: AgentTree, default: str | None = None) -> None:
        self._tree, self._general = tree, {tree.root, default or tree.root}
        self._turns: list[_Turn] = []
        """The latest two."""
        self._by_invocation: dict[str, _Turn] = {}
        """The turns with an invocation that may go on."""

    def add(self, event: Event) -> list[Found]:
        """Reads the next event. Returns the signals that it completes; each one speaks of an earlier decision."""
        if event.partial or event.is_private:
            return []
        if event.author == USER:
            return self._add_message(event)
        turn = self._by_invocation.get(event.invocation_id)
        if turn is not None:
            _add_answer(turn, event)
            if event.actions.end:
                del self._by_invocation[event.invocation_id]
        return []

    def close(self) -> list[Found]:
        """Returns the signals of the last decision."""
        return self._of_turn(self._turns[-1]) if self._turns else []

    def _add_message(self, event: Event) -> list[Found]:
        """Adds a user's message as a turn, and returns the signals that it gives about the turn before."""
        begun = self._by_invocation.get(event.invocation_id)
        if begun is not None:
            begun.replied = True  # it answers a question, so nobody routed it
            return []
        selection = event.actions.selection
        if selection is None or selection.occasion != "message" or event.content is None:
            return []
        turn = _Turn(event.sequence or 0, event.text, selection, event.created_at, holders=[selection.agent])
        found = [*self._of_pair(self._turns[-1], turn), *self._of_turn(self._turns[-1], turn)] if self._turns else []
        self._turns = [*self._turns[-1:], turn]
        self._by_invocation[event.invocation_id] = turn
        return found

    def _of_turn(self, turn: _Turn, following: _Turn | None = None) -> list[Found]:
        """Returns the signals that a turn gives about its own decision."""
        if not turn.is_routed:
            return []
        found = []
        taker = self._handed_to(turn)
        if taker is not None:
            found.append(Found(turn.sequence, turn.chosen, "handed_over", taker))
        if turn.failed and not (following and following.chosen == turn.chosen and _alike(turn.text, following.text)):
            found.append(Found(turn.sequence, turn.chosen, "failed", None))
        if turn.task_by == turn.chosen:
            found.append(Found(turn.sequence, turn.chosen, "task_done", turn.chosen))
        if turn.replied and turn.holders == [turn.chosen]:
            found.append(Found(turn.sequence, turn.chosen, "replied", turn.chosen))
        return found

    def _handed_to(self, turn: _Turn) -> str | None:
        """Returns the agent that took a turn from an agent that was silent; None for a hand-over that is no error."""
        taker = turn.holders[-1]
        if turn.chosen in self._general or taker in self._general or turn.holders.count(turn.chosen) > 1:
            return None
        if turn.chosen in turn.answered_by or taker not in turn.answered_by:
            return None
        return None if taker not in self._tree or turn.chosen in self._tree.chain(taker) else taker

    def _of_pair(self, before: _Turn, now: _Turn) -> list[Found]:
        """Returns what a message says of the decision before it."""
        if now.at - before.at > SOON or not before.is_routed:
            return []
        if now.selection.method in (CLARIFIED, CLARIFIED_BY_MEANING):
            return self._another("clarified", before, now.chosen) if before.selection.outcome == "clarify" else []
        if now.selection.outcome == "clarify" or before.selection.outcome == "clarify":
            return []
        plain = normalize(now.text[:_READ], fold=True)
        if now.chosen != before.holders[-1]:
            return self._of_change(before, now, plain)
        if _THANKS.fullmatch(plain) and before.answered_by[-1:] == [before.chosen]:
            return [Found(before.sequence, before.chosen, "thanked", before.chosen)]
        return []

    def _of_change(self, before: _Turn, now: _Turn, plain: str) -> list[Found]:
        """Returns what a message to another agent says of the decision before it."""
        if now.selection.method == "direct_routing":
            return self._another("chose_directly", before, now.chosen) if _related(before.text, now.text) else []
        if _CORRECTION.match(plain):
            return self._another("meant_another", before, now.chosen)
        if _alike(before.text, now.text) and not before.failed:
            return self._another("said_again", before, now.chosen)
        earlier = self._turns[0] if len(self._turns) > 1 else None
        if earlier is not None and not before.replied and before.at - earlier.at <= SOON:
            came_back = earlier.answered_by[-1:] == [now.chosen] and now.chosen not in before.holders
            return self._another("back_again", before, now.chosen) if came_back else []
        return []

    def _another(self, signal: Name, turn: _Turn, agent: str) -> list[Found]:
        return [] if agent in self._general or agent not in self._tree else [Found(turn.sequence, turn.chosen, signal, agent)]


_READ = 300


def _add_answer(turn: _Turn, event: Event) -> None:
    """Notes what an agent's event says about its turn: who answered, transfers, done tasks, failures."""
    actions = event.actions
    if actions.transfer_to is not None:
        turn.holders.append(actions.transfer_to)
    elif event.is_answer:
        turn.answered_by.append(turn.holders[-1])
    if event.content is not None and any(_is_done(part) for part in event.content.parts):
        turn.task_by = turn.holders[-1]
    end = actions.end.reason if actions.end else ""
    turn.failed = turn.failed or end == "failed" or end.startswith(LIMIT)


def _is_done(part: object) -> bool:
    """Returns whether the part records the successful end of a flow's task."""
    if not isinstance(part, DataPart) or part.name != "task" or not isinstance(part.data, dict):
        return False
    return part.data.get("status") == "successful"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(normalize(text[:_READ], fold=True)))


def _alike(one: str, two: str) -> bool:
    """Returns whether two messages say the same. Very short ones, such as `yes`, never do."""
    first, second = _words(one), _words(two)
    return min(len(first), len(second)) >= _WORDS_LEAST and len(first & second) >= _ALIKE * len(first | second)


def _related(one: str, two: str) -> bool:
    """Returns whether the second message repeats half of the first one's words, or has hardly any."""
    first, second = _words(one), _words(two)
    return len(second) < _WORDS_LEAST or len(first & second) >= _RELATED * min(len(first), len(second))


def triage_agents(chosen: Mapping[str, int], handed_over: Mapping[str, int]) -> frozenset[str]:
    """Returns the agents that hand over nearly all their messages at once.

    Args:
        chosen: How often each agent was chosen.
        handed_over: How often it handed over at once.
    """
    return frozenset(
        agent for agent, count in handed_over.items() if chosen[agent] >= TRIAGE_LEAST and count >= TRIAGE_SHARE * chosen[agent]
    )


def label_of(chosen: str, found: Sequence[Found]) -> Label | None:
    """Returns the label of a decision by its signals; None when they say nothing or contradict each other.

    The best supported agent is the label. Its weight is its support minus the support of all that speaks against it. Without
    a supported agent, the label is unsure and names no agent.
    """
    support: defaultdict[str | None, float] = defaultdict(float)
    for each in found:
        support[each.agent] = _either(support[each.agent], SIGNALS[each.signal].weight)
    doubt = support.pop(None, 0.0)
    note = ", ".join(sorted({each.signal for each in found}))
    if not support:
        return _label(None, doubt, note)
    agent = max(sorted(support, key=str), key=lambda name: support[name])
    against = doubt if agent == chosen else 0.0
    for other, weight in support.items():
        against = against if other == agent else _either(against, weight)
    return _label(agent, support[agent] - against, note)


def _either(one: float, two: float) -> float:
    """Returns the probability that one of two independent things is true."""
    return 1 - (1 - one) * (1 - two)


def _label(agent: str | None, weight: float, note: str) -> Label | None:
    weight = round(min(weight, MOST), 3)
    if weight < _LEAST:
        return None
    unsure = agent is None or weight < COUNTS
    return Label(source=SIGNAL, agent=agent, unsure=unsure, note=note, weight=weight, picked=SIGNAL)
