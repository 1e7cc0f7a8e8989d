"""How sure a draft's gain is: the paired difference of two policies, and how often the same later messages judged drafts (H3).

Each look at the same later messages makes the next gain less sure.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from turnwise.ports.audit import Act, Audit

RESAMPLES, LEVEL = 2_000, 0.9
_UNSEEN = 0.5

JUDGED = "learning.judged"
"""The act that the audit log keeps of each draft."""
WORN = 10
"""After that many drafts, the later messages are worn."""
_PAGE = 200


class Difference(NamedTuple):
    """The mean change of accuracy, with the bounds of its interval. All are shares, -1 to 1."""

    mean: float
    low: float
    high: float
    decisions: int
    """The number of decisions."""

    @property
    def is_loss(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def paired_difference(
    before: Sequence[float],
    after: Sequence[float],
    groups: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    seed: int = 0,
    level: float = LEVEL,
) -> Difference:
    """Returns the change of accuracy on the same messages, with an interval over groups such as sessions.

    Messages of a session are not independent, so whole groups are weighted: the Bayesian bootstrap (Rubin, The Annals of
    Statistics 9, 1981). Two groups with half the weight stand for what was not seen, one better and one worse. A single message
    therefore proves nothing. The interval holds the mean. The same seed gives the same interval.
    Without messages, all values are 0.

    Args:
        before: Whether each message was right before, or the probability that it was.
        after: The same now.
        groups: The group of each message.
        weights: How much each message counts; None = all alike.
        seed: The seed of the draws.
        level: The probability that the interval covers.
    """
    if not before:
        return Difference(0.0, 0.0, 0.0, 0)
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for was, is_, group, weight in zip(before, after, groups, weights or [1.0] * len(before), strict=True):
        sums[group][0] += weight * (is_ - was)
        sums[group][1] += weight
    change, size = np.array([sums[name] for name in sorted(sums)], dtype=np.float64).T
    mean = float(change.sum() / size.sum()) if size.sum() else 0.0
    change, size = np.append(change, [_UNSEEN, -_UNSEEN]), np.append(size, [_UNSEEN, _UNSEEN])
    draws = np.random.default_rng(seed).standard_exponential((RESAMPLES, len(change)))
    means = (draws @ change) / (draws @ size)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    # The two that were not seen draw it towards 0: where all messages change alike, it would end before their mean.
    return Difference(mean, min(float(low), mean), max(float(high), mean), len(before))


async def count_draft(audit: Audit, app: str, actor: str, source: str, judged_at: Sequence[float]) -> int:
    """Records that these messages have judged a draft. Returns how many drafts they have judged, with this one.

    An earlier draft counts if its later messages reached into the later half of these. New labels of newer decisions
    therefore make a fresh part in time.

    Args:
        audit: The audit log that keeps the count.
        app: The app.
        actor: The name of the person or program that learned.
        source: Where the labels are from: `log`, or a digest of files.
        judged_at: The times of the messages, in order.

    Raises:
        StoreError: The store cannot be read or written.
    """
    middle = judged_at[len(judged_at) // 2]
    count, after = 1, None
    while True:
        page = await audit.list(app, action=JUDGED, after=after, limit=_PAGE)
        for entry in page.items:
            until = entry.details.get("until")
            if entry.details.get("source") == source and isinstance(until, int | float) and until >= middle:
                count += 1
        after = page.next
        if after is None:
            break
    details: dict[str, JsonValue] = {"source": source, "since": judged_at[0], "until": judged_at[-1]}
    await audit.record(app, Act(actor, JUDGED, details=details))
    return count
