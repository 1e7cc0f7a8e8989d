"""Plays dialogues turn by turn: with the right agent in each turn, or with the model's choices and their consequences."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import contextual_phrases as say
from contextual_dialogues import NOBODY, SMALLTALK, STAY, Dialogue, Step
from contextual_fit import NOBODY as NO_ROW, SMALLTALK as SMALLTALK_ROW, Case

from turnwise.facts.sessions import RECENT_MESSAGES, OpenMatter, matters_after
from turnwise.selection.contextual.belief import TrackingWeights
from turnwise.selection.contextual.features import Features, features
from turnwise.selection.contextual.situation import (
    READ_MATTERS,
    EarlierMessage,
    Roster,
    Situation,
    Turn,
    build_situation,
    joined_text,
    read_clauses,
    read_matters,
)
from turnwise.selection.contextual.wording import AgentNames, clauses_of, read_message, read_reply
from turnwise.selection.meaning import TextReading

GENERAL = "\x00general"
EVASIONS = tuple(text.format(topic="that", slot="number") for text in (*say.REFUSALS, *say.QUESTIONS, *say.DONE[:6]))
"""Replies of a wrongly chosen agent."""
Choose = Callable[[Situation, Features], str]
"""Returns the choice: an agent, NOBODY or SMALLTALK."""


class Ears(NamedTuple):
    """The reading of texts for one set of agents. hear: reads a user's message. read: reads another text. lines: other texts of
    each agent.
    """

    labels: tuple[str, ...]
    read_message: Callable[[str], TextReading]
    read: Callable[[str], TextReading]
    names: AgentNames
    lines: Mapping[str, Sequence[str]] = {}


class Played(NamedTuple):
    """One turn as played: the features, the model's choice, the right agent; `row`: the right one's row, None = not counted."""

    features: Features
    choice: str
    right: str | None
    row: int | None
    opening: bool
    switched: bool


def play(
    dialogue: Dialogue,
    ears: Ears,
    tracking: TrackingWeights,
    choose: Choose | None,
    *,
    chance: random.Random | None = None,
    general: str | None = None,
) -> Iterator[Played]:
    """Plays the turns of a dialogue. choose None: the right agent has each turn (true history); otherwise the chosen one.

    chance: if given, a wrongly chosen agent gives its own reply in half of the turns; if None, replies stay as recorded.
    """
    active: str | None = None
    spoke: list[str] = []
    past: list[EarlierMessage] = []
    before: str | None = None
    matters: tuple[OpenMatter, ...] = ()
    said: tuple[str | None, str] = (None, "")
    roster = Roster(ears.labels, (*ears.labels, *((general,) if general else ())))
    for step in dialogue.steps:
        if read_message(step.user).unreadable:  # a rule decides these, not the model
            continue
        reply = _reply_of(step, active, ears, chance)
        if active is not None and reply:
            matters = matters_after(matters, *said, now=active)
            said = (active, reply)
        turn = _turn(step, reply, ears, dialogue, active, spoke, past, general)
        turn = _with_evidence(turn, step.user, matters, ears)
        situation = build_situation(_with_right(turn, step), roster, tracking)
        found = features(situation)
        right = _right(step.label, turn.active)
        row = _row(situation, right)
        choice = choose(situation, found) if choose else (right or turn.active or NOBODY)
        switched = before is not None and step.label is not None and step.label != before
        yield Played(found, choice, right, row, turn.active is None, switched)
        before = step.label or before
        active = _next_active(choice, turn.active, general)
        past = [EarlierMessage(turn.message, turn.wording, active, turn.reply_wording, turn.joined), *past][:RECENT_MESSAGES]
        if active is not None:
            spoke = [active, *(name for name in spoke if name != active)]


def _next_active(choice: str, active: str | None, general: str | None) -> str | None:
    """If no agent is chosen, the general agent takes the message, or the active agent continues."""
    if choice == SMALLTALK:
        return active or general
    return (general or active) if choice == NOBODY else choice


def _right(label: str | None, active: str | None) -> str | None:
    if label == SMALLTALK:
        return active or SMALLTALK
    return (active or NOBODY) if label == STAY else label


def _row(situation: Situation, right: str | None) -> int | None:
    if right is None:
        return None
    if right in (NOBODY, SMALLTALK):
        return NO_ROW if right == NOBODY else SMALLTALK_ROW
    return situation.place(right)


def _reply_of(step: Step, active: str | None, ears: Ears, chance: random.Random | None) -> str:
    if chance is None or step.owner is None or active is None or active == step.owner or chance.random() < 0.5:
        return step.system
    lines = ears.lines.get(active)
    return chance.choice(lines) if lines and chance.random() < 0.7 else chance.choice(EVASIONS)


def _with_right(turn: Turn, step: Step) -> Turn:
    """Adds the right agent to the candidates if it is missing, so that the turn can be learned from."""
    label = step.label
    if label is None or label in (NOBODY, SMALLTALK, STAY) or label in turn.named:
        return turn
    return replace(turn, named={**turn.named, label: 0.0})


def _turn(
    step: Step,
    reply: str,
    ears: Ears,
    dialogue: Dialogue,
    active: str | None,
    spoke: Sequence[str],
    past: Sequence[EarlierMessage],
    general: str | None,
) -> Turn:
    message = ears.read_message(step.user)
    words = read_message(message.corrected.text)
    return Turn(
        message=message,
        wording=words,
        reply=ears.read(reply) if reply else None,
        joined=ears.read(joined_text(reply, step.user)) if reply else None,
        reply_wording=read_reply(reply),
        past=tuple(past),
        active=active,
        visited=tuple(name for name in spoke if name != active),
        previous=dialogue.previous,
        awaiting=active if step.awaits else None,
        hits=step.hits,
        named=ears.names.named(words.tokens),
        general=general,
    )


def _with_evidence(turn: Turn, message: str, matters: Sequence[OpenMatter], ears: Ears) -> Turn:
    """Adds the message's clauses and the latest open matters."""
    latest = matters[::-1][:READ_MATTERS]
    readings = {text: ears.read(text) for text in evidence_texts(message, latest)}
    return replace(
        turn,
        clauses=read_clauses(message, readings) if turn.reply else (),
        matters=read_matters([each for each in latest if each.agent != turn.active], message, readings),
    )


def evidence_texts(message: str, matters: Sequence[OpenMatter]) -> list[str]:
    """The message's clauses, and the open matters alone and joined with the message."""
    joined = [text for each in matters for text in (each.said, joined_text(each.said, message))]
    return [*clauses_of(message), *joined]


def right_matters(dialogue: Dialogue) -> Iterator[tuple[Step, Sequence[OpenMatter]]]:
    """The open matters at each step when the right agent has each turn, the latest first."""
    matters: tuple[OpenMatter, ...] = ()
    said: tuple[str | None, str] = (None, "")
    active: str | None = None
    for step in dialogue.steps:
        if active is not None and step.system:
            matters = matters_after(matters, *said, now=active)
            said = (active, step.system)
        yield step, matters[::-1][:READ_MATTERS]
        active = active if step.label in (None, NOBODY, SMALLTALK, STAY) else step.label


def cases(played: Sequence[Played], weight: float) -> list[Case]:
    return [Case(each.features, each.row, weight) for each in played if each.row is not None]
