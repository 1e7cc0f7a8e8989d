"""Runs evaluation cases through a policy, with the same decisions as in production."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, fold
from turnwise.learning.cases import Case, Turn
from turnwise.learning.measures import Latency, Measures, OutOfScope
from turnwise.learning.outcomes import Outcome, chosen_of, novelty_of, ranking_of
from turnwise.selection.cascade import Cascade, moved_positions

History = Literal["own", "true"]
"""How a dialogue continues: with the policy's own choice (`own`), or with the expected agent (`true`)."""

Step = Callable[[], None]
"""Called after each decision."""

_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
_NEW = Session(app="eval", user="eval", id="eval", created_at=_WHEN, updated_at=_WHEN)


def count(cases: Iterable[Case]) -> int:
    """Returns the number of decisions that these cases take."""
    return sum(len(case.turns) for case in cases)


async def evaluate(
    cascade: Cascade, cases: Sequence[Case], *, history: History = "own", step: Step = lambda: None
) -> list[Outcome]:
    """Decides every turn of every case, sequentially, and returns the outcomes in order.

    A dialogue is a session. The reply before a message counts as written by the agent of the previous message. A reply before
    the first message is the root's.

    Args:
        cascade: The policy.
        cases: The cases.
        history: The agent of the previous message: `own` = the chosen one; `true` = the expected one, or the last known one
            where it is unknown.
        step: Called after each decision.
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
    """Decides the messages of a dialogue in order, and returns the outcomes."""
    outcomes: list[Outcome] = []
    session, speaker = _NEW, cascade.tree.root
    for number, turn in enumerate(case.turns):
        if number or turn.system:
            session = fold(session, [_reply(turn, speaker, number)])
        message = text_content(turn.user, "user")
        began = perf_counter()
        selection = await cascade.decide(head=session.head, message=message)
        ms = (perf_counter() - began) * 1_000
        outcomes.append(_outcome(case, turn, selection, default, ms)._replace(dialogue=dialogue, turn=number))
        step()
        await asyncio.sleep(0)  # decisions may complete without awaiting; this allows cancellation
        if history == "true" and (turn.agent or number):
            selection = _with_agent(selection, turn.agent or speaker)
        speaker = selection.agent
        actions = Actions(selection=selection, positions=moved_positions(selection))
        message_event = _event(f"message-{number}", USER, number)
        session = fold(session, [message_event.replace(content=message, actions=actions)])
    return outcomes


def _outcome(case: Case, turn: Turn, selection: Selection, default: str, ms: float) -> Outcome:
    """Returns the outcome of one decided message."""
    chosen = chosen_of(selection, default)
    ranked = ranking_of(selection, default)
    if turn.agent == default and chosen is None and selection.outcome != "clarify":
        # The cases expect the default agent by name, so it counts as a normal agent here.
        chosen, ranked = default, ((default, selection.confidence), *ranked)
    return Outcome(
        text=turn.user,
        expected=turn.agent,
        agent=selection.agent,
        chosen=chosen,
        ranked=ranked,
        novelty=novelty_of(selection, default),
        method=selection.method,
        ms=ms,
        scored=case.scored(turn),
        reason=selection.reason,
        also=selection.verdicts[-1].also if selection.verdicts else (),
        also_expected=turn.also,
        groups=turn.groups,
    )


def _with_agent(selection: Selection, agent: str) -> Selection:
    """Returns the decision as if that agent had been chosen."""
    return selection.replace(agent=agent, outcome="chosen", verdicts=())


def _reply(turn: Turn, speaker: str, number: int) -> Event:
    # The agent spoke last even if the data has no text for its reply.
    content = text_content(turn.system or " ")
    event = _event(f"reply-{number}", speaker, number - 1)
    return event.replace(content=content, actions=Actions(end=End()))


def _event(id_: str, author: str, number: int) -> Event:
    return Event(id=id_, author=author, invocation_id=f"invocation-{number}", created_at=_WHEN)


KEYS = (
    *(key for key in Measures._fields if key not in {"nobody", "latency_ms", "by_method", "by", "confusions"}),
    *(f"nobody.{key}" for key in OutOfScope._fields),
    *(f"latency_ms.{key}" for key in Latency._fields),
)
"""The measures that can be gated. `by_method.<method>.cases` and `.accuracy` can be gated too."""


class Gate(NamedTuple):
    """A lower or upper bound on a measure."""

    key: str
    """The measure's dotted key."""
    bound: float
    at_most: bool = False
    """True = upper bound."""


class Missed(NamedTuple):
    """A gate that failed."""

    gate: Gate
    found: float | None
    """The measured value; None = nothing to measure."""

    @property
    def text(self) -> str:
        """The bound and the measured value, as a sentence."""
        gate = self.gate
        wanted = f"{'at most' if gate.at_most else 'at least'} {gate.bound:g}"
        if self.found is None:
            return f"{gate.key} should be {wanted}, but there was nothing to measure it on."
        return f"{gate.key} is {self.found:.4g}, it should be {wanted}."


def gate_from(text: str, *, at_most: bool = False, keys: Sequence[str] = KEYS) -> Gate:
    """Parses `KEY=VALUE`. Raises ValueError with the problem.

    Args:
        text: The bound.
        at_most: True = upper bound.
        keys: The measures that there are. Those of an evaluation include the methods'.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"{text!r} is not KEY=VALUE.")
    methods = keys is KEYS
    if key not in keys and not (methods and key.startswith("by_method.") and key.endswith((".cases", ".accuracy"))):
        raise ValueError(f"There is no figure {key!r}. Figures: {', '.join(keys)}{', by_method.<method>.accuracy' * methods}.")
    try:
        bound = float(value)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(f"{value!r} is not a number.")
    return Gate(key, bound, at_most)


def missed(gates: Iterable[Gate], data: Mapping[str, JsonValue]) -> list[Missed]:
    """Returns the gates that fail. A measure without a value fails every gate."""
    found = [(gate, figure(data, gate.key)) for gate in gates]
    return [Missed(gate, value) for gate, value in found if value is None or not _holds(gate, value)]


def figure(data: Mapping[str, JsonValue], key: str) -> float | None:
    """Returns the measure under a dotted key; None when there is none. Names of methods may contain dots."""
    at: JsonValue = dict(data)
    if key.startswith("by_method."):
        method, _, last = key.removeprefix("by_method.").rpartition(".")
        path = ["by_method", method, last]
    else:
        path = key.split(".")
    for part in path:
        at = at.get(part) if isinstance(at, dict) else None
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None


def _holds(gate: Gate, value: float) -> bool:
    return value <= gate.bound if gate.at_most else value >= gate.bound
