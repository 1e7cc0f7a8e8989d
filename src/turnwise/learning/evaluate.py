"""Evaluation: runs cases through a policy, with the same decisions as in production, and checks gates (behaviour H1).

An evaluation is the outcomes with their measures and subject. Its figures may be kept in the app's audit log, for comparison.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, End, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, fold
from turnwise.learning.cases import Case, Turn
from turnwise.learning.measures import Latency, Measures, Outcome, OutOfScope, chosen_of, measure, novelty_of, ranking_of
from turnwise.ports.audit import Act, Audit
from turnwise.selection.cascade import Cascade, moved_positions

History = Literal["own", "true"]
"""How a dialogue continues: with the policy's own choice (`own`), or with the expected agent (`true`)."""

Step = Callable[[], None]
"""Called after each decision."""

_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
_NEW = Session(app="eval", user="eval", id="eval", created_at=_WHEN, updated_at=_WHEN)

KEYS = (
    *(key for key in Measures._fields if key not in {"nobody", "latency_ms", "by_method", "by", "confusions"}),
    *(f"nobody.{key}" for key in OutOfScope._fields),
    *(f"latency_ms.{key}" for key in Latency._fields),
)
"""The measures that can be gated. `by_method.<method>.cases` and `.accuracy` can be gated too."""

CONFUSIONS = 50
"""Maximum number of confusions in the data."""
BEFORE, AFTER = "accuracy_before", "accuracy_after"
"""Keys of `tuned` for the validation accuracy before and after tuning; they are not changes."""
_DIGITS = 6

EVALUATED = "evaluation.stored"
"""The act that the audit log keeps of each evaluation."""
KEPT_CONFUSIONS, KEPT_FILES = 20, 20
"""The most confusions, and names of files, that are kept."""
_FIGURES = ("cases", "accuracy", "in_scope_accuracy", "switch_accuracy", "stay_accuracy", "ece")


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


class Subject(NamedTuple):
    """The evaluated policy and data."""

    policy: str
    fingerprint: str
    agents: int
    """Number of agents, without the default agent."""
    examples: int
    """Total number of examples."""
    history: str
    tuned: dict[str, JsonValue] | None = None
    """Changes made by tuning; None without validation cases."""
    unknown: Mapping[str, int] = {}
    """Agents in cases that the tree lacks, with their number of turns."""

    @property
    def tuning(self) -> str | None:
        """Returns the tuning's changes as one line of text; None without validation cases."""
        if self.tuned is None:
            return None
        pairs = {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in self.tuned.items()}
        if not self.tuned.keys() - {BEFORE, AFTER}:
            pairs.pop(AFTER, None)
            return "; ".join(["nothing was better, what was set before stays", *(f"{key} {pairs[key]}" for key in pairs)])
        return ", ".join(f"{key} {value}" for key, value in pairs.items())


class Evaluation(NamedTuple):
    """The outcomes in order, their measures, and the subject."""

    subject: Subject
    outcomes: Sequence[Outcome]
    measures: Measures

    def data(self) -> dict[str, JsonValue]:
        """Returns the measures and the subject as plain data, with at most 50 confusions. Shares are 0 to 1."""
        shown = self.measures._replace(confusions=self.measures.confusions[:CONFUSIONS])
        data: dict[str, JsonValue] = {**_plain(shown), **_plain(self.subject)}
        return data


def evaluation(subject: Subject, outcomes: Sequence[Outcome]) -> Evaluation:
    """Returns the evaluation of these outcomes."""
    return Evaluation(subject, outcomes, measure(outcomes))


def subject_of(cascade: Cascade, history: str, unknown: Mapping[str, int], tuned: dict[str, JsonValue] | None) -> Subject:
    """Returns the subject of an evaluation of this cascade."""
    tree = cascade.tree
    default = cascade.spec.default or tree.root
    examples = sum(len(card.examples) + len(card.learned) + sum(len(skill.examples) for skill in card.skills) for card in tree)
    agents = sum(card.name != default for card in tree)
    return Subject(cascade.spec.name, cascade.fingerprint, agents, examples, history, tuned, dict(unknown))


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


def _plain(value: Any) -> Any:
    """Returns a value as JSON data, with rounded numbers."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _plain(each) for key, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


class KeptEvaluation(NamedTuple):
    """An evaluation that was kept."""

    id: int
    """Increases with time."""
    at: datetime
    actor: str
    figures: Mapping[str, JsonValue]


async def keep_evaluation(audit: Audit, app: str, actor: str, found: Evaluation, files: Sequence[str]) -> None:
    """Keeps the figures of an evaluation, without the texts of its cases. Raises StoreError.

    Args:
        audit: The audit log of the app.
        app: The app.
        actor: The evaluator's name.
        found: The evaluation.
        files: The names of the files of cases.
    """
    measures, subject = found.measures, found.subject
    confusions: list[JsonValue] = [
        {"expected": each.expected, "chosen": each.chosen, "count": each.count}
        for each in measures.confusions[:KEPT_CONFUSIONS]
    ]
    details: dict[str, JsonValue] = {name: getattr(measures, name) for name in _FIGURES}
    details |= {"out_of_scope_f1": measures.nobody.f1, "confusions": confusions, "files": list(files[:KEPT_FILES])}
    details |= {"policy": subject.policy, "fingerprint": subject.fingerprint}
    details |= {"agents": subject.agents, "examples": subject.examples}
    await audit.record(app, Act(actor, EVALUATED, details=details))


async def kept_evaluations(audit: Audit, app: str, *, limit: int) -> list[KeptEvaluation]:
    """Returns the newest evaluations that were kept, newest first. Raises StoreError."""
    page = await audit.list(app, action=EVALUATED, limit=limit)
    return [KeptEvaluation(each.id, each.at, each.actor, each.details) for each in page.items]
