"""Cases through a policy, each decided as it would be in use."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Literal

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, fold
from turnwise.learning.cases import Case, Turn
from turnwise.learning.outcomes import Outcome, chosen_of, novelty_of, ranking_of
from turnwise.selection.cascade import Cascade, moved_positions

History = Literal["own", "true"]
"""Whose choice goes on in a dialogue: the policy's own, right or wrong, or the right one."""

Step = Callable[[], None]
"""Told when a decision is made."""

_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
_NEW = Session(app="eval", user="eval", id="eval", created_at=_WHEN, updated_at=_WHEN)


def count(cases: Iterable[Case]) -> int:
    """How many decisions these cases take."""
    return sum(len(case.turns) for case in cases)


async def evaluate(
    cascade: Cascade, cases: Sequence[Case], *, history: History = "own", step: Step = lambda: None
) -> list[Outcome]:
    """Decides every turn of every case, in order, one after the other; the outcomes in that order.

    A dialogue is a session: the system's line before a message is what the agent answered who was given the message before,
    the chosen one (`own`) or the right one (`true`; where nobody knows the right one, the last known goes on). A greeting
    before the first message is the root's.
    """
    default = cascade.spec.default or cascade.tree.root
    outcomes: list[Outcome] = []
    seen: Counter[str] = Counter()
    for case in cases:
        name = case.dialogue
        if name is not None:
            seen[name] += 1
            name = name if seen[name] == 1 else f"{name} ({seen[name]})"
        outcomes += await _converse(cascade, case, name, default, history, step)
    return outcomes


async def _converse(
    cascade: Cascade, case: Case, dialogue: str | None, default: str, history: History, step: Step
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    session, speaker = _NEW, cascade.tree.root
    for number, turn in enumerate(case.turns):
        if number or turn.system:
            session = fold(session, [_reply(turn, speaker, number)])
        message = text_content(turn.user, "user")
        began = perf_counter()
        selection = await cascade.decide(head=session.head, message=message)
        took = (perf_counter() - began) * 1_000
        outcomes.append(_outcome(case, turn, selection, default, took)._replace(dialogue=dialogue, turn=number))
        step()
        await asyncio.sleep(0)  # a decision need not wait for anything; who is to be stopped has to
        if history == "true" and (turn.agent or number):
            selection = _given(selection, turn.agent or speaker)
        speaker = selection.agent
        actions = Actions(selection=selection, positions=moved_positions(selection))
        said = _event(f"message-{number}", USER, number)
        session = fold(session, [said.model_copy(update={"content": message, "actions": actions})])
    return outcomes


def _outcome(case: Case, turn: Turn, selection: Selection, default: str, took: float) -> Outcome:
    chosen = chosen_of(selection, default)
    ranked = ranking_of(selection, default)
    if turn.agent == default and chosen is None and selection.outcome != "clarify":
        # Who is named in the cases is somebody, also when it is the one who takes what nobody else does.
        chosen, ranked = default, ((default, selection.confidence), *ranked)
    return Outcome(
        text=turn.user,
        expected=turn.agent,
        agent=selection.agent,
        chosen=chosen,
        ranked=ranked,
        novelty=novelty_of(selection, default),
        method=selection.method,
        ms=took,
        scored=case.scored(turn),
        reason=selection.reason,
    )


def _given(selection: Selection, agent: str) -> Selection:
    """The decision as if that agent had been chosen."""
    return selection.model_copy(update={"agent": agent, "outcome": "chosen", "verdicts": ()})


def _reply(turn: Turn, speaker: str, number: int) -> Event:
    # An agent that answered is the one who spoke last, also where the data does not say what.
    said = text_content(turn.system or " ")
    event = _event(f"reply-{number}", speaker, number - 1)
    return event.model_copy(update={"content": said, "actions": Actions(end=End())})


def _event(id_: str, author: str, number: int) -> Event:
    return Event(id=id_, author=author, invocation_id=f"invocation-{number}", created_at=_WHEN)
