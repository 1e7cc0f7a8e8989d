"""Explains contextual decisions in short sentences for the decision record and the console."""

import math
from collections.abc import Sequence

from turnwise.facts.selections import Candidate, Exclusion
from turnwise.facts.tree import AgentTree
from turnwise.matching.match import Nearest
from turnwise.selection.contextual.situation import Situation, Turn
from turnwise.selection.contextual.trained_model import Scores
from turnwise.selection.contextual.wording import answer_fit, last_question
from turnwise.selection.verdicts import shortened

MAX_LISTED = 6
_LIKELY_SMALLTALK = 0.5


def stay_reason(situation: Situation) -> str:
    """Returns why the active agent continues."""
    turn, seen = situation.turn, situation.turn.wording.features
    agent = turn.active
    brief = seen.rest <= 3 or seen.content <= 1
    if turn.wording.unreadable:
        return f"stays: the message says nothing that can be read, and {agent} has the conversation."
    if turn.awaiting == agent:
        return f"stays: {'short answer' if brief else 'answer'} to {agent}, who waits for it."
    if turn.message.smalltalk > _LIKELY_SMALLTALK and not (seen.numbers or (brief and turn.reply_wording.question)):
        return f"stays: small talk while {agent} has the conversation."
    if turn.reply_wording.question and not turn.reply_wording.offers and not seen.asks:
        return f"stays: {'short answer' if brief else 'answer'} to a question of {agent}."
    if seen.thanks or seen.closing:
        return f"stays: thanks or goodbye to {agent}."
    if turn.hits.get(agent or "", 0.0) > 0.0:
        return f"stays: a pattern of {agent} matches{_example(turn, agent)}."
    if agent is not None and agent in turn.noted:
        return f"stays: {agent} noted this {turn.noted[agent]} before, or served it last."
    place = situation.place(agent)
    if place is not None and situation.message[place] == situation.message.max():
        return f"stays: another request to {agent}{_example(turn, agent)}."
    if seen.refers_back:
        return f"stays: follow-up that refers to what {agent} said."
    return f"stays: what points elsewhere is not enough to leave {agent}."


def leave_reason(situation: Situation, agent: str, *, returns: bool) -> str:
    """Returns why the conversation goes to another agent, or starts with this one."""
    turn = situation.turn
    if turn.named.get(agent, 0.0) >= 0.5 and turn.wording.calls:
        what = f"the message asks for {agent} by name"
    elif turn.hits.get(agent, 0.0) > 0.0:
        what = f"a pattern of {agent} matches{_example(turn, agent)}"
    elif agent in turn.noted:
        what = f"{agent} noted this {turn.noted[agent]} before, or served it last"
    elif (asked := _answered_question(turn, agent)) is not None:
        what = f"it asked “{shortened(asked)}”"
    elif turn.active is not None and turn.reply_wording.disclaims:
        what = f"{turn.active} said that this is not its matter"
    elif turn.active is not None and turn.wording.complains:
        what = f"the message says that it asked for something else{_example(turn, agent)}"
    elif returns and (turn.wording.resumes or turn.wording.features.back_to):
        what = f"the message takes up an earlier subject{_example(turn, agent)}"
    elif turn.active is None:
        what = f"new request{_example(turn, agent) or f', {agent} fits best'}"
    elif _fits_another_better(situation, agent):
        what = f"the conversation so far fits {agent} better"
    else:
        what = f"new request{_example(turn, agent) or f' for {agent}'}"
    if turn.active is None:
        return f"routes to {agent}: {what}."
    return f"returns to {agent}: {what}." if returns else f"leaves {turn.active}: {what}."


def _answered_question(turn: Turn, agent: str) -> str | None:
    """Returns the question that the agent was left with, if the message answers it by its form; otherwise None."""
    matter = next((each for each in turn.matters if each.agent == agent and each.said.question), None)
    if matter is None or turn.wording.features.asks or answer_fit(matter.said, turn.wording) <= 0.0:
        return None
    return last_question(matter.reading.text)


def previous_agents_note(agent: str, instead: str | None) -> str:
    """Returns the sentence that the caller's `previous_agents` decided.

    `instead` is the agent chosen without them; None = none.
    """
    return f"It decided that {agent} helped before (previous_agents): otherwise it would be {instead or 'nobody'}."


def explained_candidates(situation: Situation, scores: Scores) -> tuple[Candidate, ...]:
    """Returns the best candidates, best first, with the evidence for each."""
    order = (-scores.agents).argsort(kind="stable")[:MAX_LISTED]
    return tuple(
        Candidate(
            agent=situation.candidates[place],
            score=round(min(max(float(scores.agents[place]), 0.0), 1.0), 6),
            evidence=_evidence(situation, int(place)),
        )
        for place in order
    )


def _evidence(situation: Situation, place: int) -> str:
    """Returns what speaks for one candidate, in words: nearest example, probabilities, and its part in the conversation."""
    turn, agent = situation.turn, situation.candidates[place]
    near = next((each for each in turn.message.match.nearest if each.label == agent), None)
    if near:
        said = [f"{_quoted(near) or 'a learned example'} ({near.similarity:.2f})"]
    else:
        said = [f"nearest text {situation.similarities[place]:.2f}"] if situation.similarities[place] > 0.0 else []
    said.append(f"message {_percent(float(situation.message[place]))}")
    if situation.reply is not None:
        said.append(f"last reply {_percent(float(situation.reply[place]))}")
    if situation.past:
        said.append(f"conversation so far {_percent(float(situation.prior[place]))}")
    flags = (
        ("has the conversation", agent == turn.active),
        ("waits for a reply", agent == turn.awaiting),
        ("visited before", agent in turn.visited),
        ("helped before", agent in turn.previous),
        ("offered", agent in turn.offered),
        ("noted it before", agent in turn.noted),
        ("left with an open matter", any(each.agent == agent for each in turn.matters)),
        ("pattern", agent in turn.hits),
        ("named", turn.named.get(agent, 0.0) >= 0.5),
    )
    return "; ".join(said + [words for words, holds in flags if holds])


def has_ended(situation: Situation, agent: str, tree: AgentTree, passed_over: Sequence[Exclusion]) -> bool:
    """Returns whether the agent is a composite that just ended and the message does not request it again.

    The message requests it again by a pattern, by its name, or by matching no other agent better.
    """
    ended = any(each.agent == agent for each in passed_over) and agent in tree and tree.card(agent).is_composite
    turn = situation.turn
    return ended and agent not in turn.hits and not turn.named.get(agent) and _fits_another_better(situation, agent)


def _fits_another_better(situation: Situation, agent: str) -> bool:
    """Returns whether the message alone fits another agent better."""
    place = situation.place(agent)
    return place is not None and situation.message[place] < situation.message.max()


def _example(turn: Turn, agent: str | None) -> str:
    near = next((each for each in turn.message.match.nearest if each.label == agent), None)
    if near is None:
        return ""
    what = "learned example" if near.private else f"example {_quoted(near)}"
    return f", nearest {what} ({near.similarity:.2f})"


def _quoted(near: Nearest) -> str:
    """Returns the phrase in quotes; empty for a learned one: users see reasons, and another user wrote it."""
    return "" if near.private else f"“{shortened(near.text)}”"


def _percent(log: float) -> str:
    return f"{100 * math.exp(log):.0f} %"
