"""Counts how often the same later messages have judged drafts: each look at them makes the next gain less sure (H3)."""

from collections.abc import Sequence

from pydantic import JsonValue

from turnwise.ports.records import Act, Audit

JUDGED = "learning.judged"
"""The act that the audit log keeps of each draft."""
WORN = 10
"""After that many drafts, the later messages are worn."""
_PAGE = 200


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
