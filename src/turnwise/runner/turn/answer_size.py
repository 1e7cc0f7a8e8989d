"""How much agents may say: one event, the pieces of one answer, and all of an invocation."""

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.errors import LimitReached
from turnwise.facts.events import Event
from turnwise.facts.limits import Limits

PIECE_BYTES = 16
"""What a piece counts at least: each is an event of its own until the answer is whole."""


class AnswerSize:
    """Counts what the agents of one invocation say. Sizes are bytes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: dict[str, int] = {}
        self._total = 0

    def check_content(self, event: Event) -> None:
        """LimitReached (answer_bytes, blob_bytes) by what can be counted without writing the event as JSON."""
        if event.content is None:
            return
        blobs = sum(len(part.data) for part in event.content.parts if isinstance(part, BlobPart))
        if blobs > self._limits.blob_bytes:
            raise LimitReached("blob_bytes", f"The files in an answer of {event.author!r} have {blobs:,} bytes.")
        self._check(event.author, sum(_characters(part) for part in event.content.parts))

    def add_piece(self, event_id: str, author: str, content: Content) -> None:
        """Counts a piece of an answer. LimitReached (answer_bytes)."""
        size = self._pieces.get(event_id, 0) + max(PIECE_BYTES, sum(_characters(part) for part in content.parts))
        self._pieces[event_id] = size
        self._check(author, size)

    def add(self, event: Event, size: int) -> None:
        """Counts a whole event; `size` is that of its JSON without files. LimitReached (answer_bytes, invocation_bytes)."""
        self._pieces.pop(event.id, None)
        self._check(event.author, size)
        self._total += size
        if self._total > self._limits.invocation_bytes:
            raise LimitReached("invocation_bytes", f"The invocation stored {self._total:,} bytes.")

    def _check(self, author: str, size: int) -> None:
        if size > self._limits.answer_bytes:
            raise LimitReached(
                "answer_bytes",
                f"One answer of {author!r} has {size:,} bytes or more, {self._limits.answer_bytes:,} are allowed.",
                fix="Save it as an artifact, or raise limits.answer_bytes.",
            )


def _characters(part: Part) -> int:
    if isinstance(part, TextPart | ThinkingPart):
        return len(part.text)
    return len(part.raw or "") if isinstance(part, ToolCallPart) else 0
