"""The review queue: which decisions an operator should label next (behaviour H2)."""

import random
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from turnwise.access.records import record_store_of
from turnwise.facts.labels import OPERATOR, Label
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.learning.collect_signals import newest_decisions
from turnwise.learning.measures import ranking_of
from turnwise.ports.decisions import Decision
from turnwise.ports.stores import SessionStore
from turnwise.selection.cascade import Cascade

RANDOM_SHARE = 0.1
"""The share of the queue that is drawn at random: accuracy is known from these alone."""

Labels = Mapping[tuple[SessionKey, int], Collection[Label]]


class Queued(NamedTuple):
    """A decision to review."""

    decision: Decision
    picked: Literal["complaint", "doubt", "random"]
    """`complaint`: a user or a signal contradicts it. `doubt`: it is not sure. `random`: it was drawn."""
    doubt: float
    """0 to 1: the weight of what contradicts it, or how little sure it is."""
    probability: float | None
    """The probability with which it was drawn; None unless `random`. Keep it in the label."""


def review_queue(
    decisions: Iterable[Decision],
    labels: Labels,
    *,
    default: str,
    size: int,
    share: float = RANDOM_SHARE,
    seed: int = 0,
) -> list[Queued]:
    """Returns the decisions to review: the most contradicted, then the most doubtful; random ones are spread among them.

    Decisions that an operator labelled are left out, and so are those that no selector made: answers to questions, and
    messages to a named agent.

    Args:
        decisions: The decisions.
        labels: Their labels.
        default: The default agent, to which messages for nobody go.
        size: How many to review.
        share: The share of random ones, 0 to 1. Every decision has the same probability to be one of them.
        seed: The seed of the draw.
    """
    waiting = [each for each in decisions if _may_be_reviewed(each, labels.get((each.key, each.sequence), ()))]
    count = round(share * min(size, len(waiting)))
    drawn = set(random.Random(seed).sample(range(len(waiting)), count))
    by_chance = [Queued(waiting[at], "random", _doubt(waiting[at].selection), count / len(waiting)) for at in sorted(drawn)]
    others = (each for at, each in enumerate(waiting) if at not in drawn)
    left = [_queued(each, labels.get((each.key, each.sequence), ()), default) for each in others]
    worst = sorted(left, key=lambda each: (each.picked != "complaint", -each.doubt))[: max(size - count, 0)]
    return _spread(worst, by_chance)


async def read_queue(
    store: SessionStore, app: str, cascade: Cascade, *, size: int, share: float = RANDOM_SHARE, seed: int = 0, limit: int
) -> list[Queued]:
    """Reads the newest decisions, and returns those to review, as `review_queue` does.

    Args:
        store: The store.
        app: The app.
        cascade: Its policy, which names the default agent.
        size: How many to review.
        share: The share of random ones, 0 to 1.
        seed: The seed of the draw.
        limit: How many decisions are read.

    Raises:
        ConfigError: The store keeps no labels.
        StoreError: The store cannot be read.
    """
    known, labels = record_store_of(store).labels, dict[tuple[SessionKey, int], list[Label]]()
    newest = [each async for each in newest_decisions(store, app, limit=limit)]
    places = {(each.key, each.sequence) for each in newest}
    since = newest[-1].created_at if newest else None
    # A decision of `newest` does not tell a label of nobody from none.
    async for each in newest_decisions(store, app, since=since, labelled=True, limit=limit):
        if (each.key, each.sequence) in places:
            labels[each.key, each.sequence] = [found.label for found in await known.of(each.key, each.sequence)]
    default = cascade.spec.default or cascade.tree.root
    return review_queue(newest, labels, default=default, size=size, share=share, seed=seed)


def _may_be_reviewed(decision: Decision, labels: Collection[Label]) -> bool:
    selection = decision.selection
    routed = selection.occasion == "message" and selection.method not in ("reply", "tool_result", "direct_routing")
    return routed and bool(decision.text) and all(label.source != OPERATOR for label in labels)


def contradicts(label: Label, selection: Selection, default: str) -> bool:
    """Returns whether a label says that another agent should have been chosen, or that the chosen one is wrong."""
    if label.agent is None:
        return label.unsure or selection.agent != default
    return selection.outcome != "chosen" or label.agent != selection.agent


def _queued(decision: Decision, labels: Collection[Label], default: str) -> Queued:
    against = [label.weight for label in labels if label.weight and contradicts(label, decision.selection, default)]
    agreeing = sum(label.weight for label in labels) - sum(against)
    if sum(against) > agreeing:
        return Queued(decision, "complaint", min(max(against), 1.0), None)
    return Queued(decision, "doubt", _doubt(decision.selection), None)


def _doubt(selection: Selection) -> float:
    """Returns how little sure a decision is, 0 to 1. A close second best makes it less sure; a question is not sure at all."""
    if selection.outcome == "clarify":
        return 1.0
    second = max((score for agent, score in ranking_of(selection, "") if agent != selection.agent), default=0.0)
    return 1.0 - max(selection.confidence - second, 0.0)


def _spread(worst: list[Queued], by_chance: list[Queued]) -> list[Queued]:
    """Returns both, with the random ones at even distances, so that a reviewer who stops early has labelled some."""
    queue = list(worst)
    for number, each in enumerate(by_chance):
        queue.insert(round((number + 0.5) * (len(worst) + len(by_chance)) / len(by_chance)), each)
    return queue
