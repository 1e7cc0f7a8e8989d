"""Groups the messages of a conversation into past turns: what was sent, and the answer."""

from collections.abc import Iterable
from typing import NamedTuple

from turnwise.facts.content import Content, DataPart, Part, ToolCallPart

INSTRUCTIONS = "instructions"
"""The name of the data part that carries the caller's instructions to the agent. Selectors ignore it."""
MOST_MESSAGES = 10_000
"""The maximum number of messages in one request, since each answer reads all of them."""


class PastTurn(NamedTuple):
    """A past turn as the caller reports it."""

    sent: Content
    """The message; without parts if nothing was sent before the answer."""
    text: str = ""
    """The answer's text."""
    calls: tuple[ToolCallPart, ...] = ()
    """The tool calls in the answer."""


class Exchanges:
    """Collects messages in order and groups them into turns.

    Attributes:
        past: The completed turns.
        sent: The parts that were sent after the last completed turn.
        answered: Whether an answer to `sent` was added.
    """

    def __init__(self) -> None:
        self.past: list[PastTurn] = []
        self.sent: list[Part] = []
        self.answered = False
        self._texts: list[str] = []
        self._calls: list[ToolCallPart] = []

    def send(self, parts: Iterable[Part]) -> None:
        """Adds sent parts. Completes the current turn if it has an answer."""
        self.close()
        self.sent += parts

    def answer(self, *texts: str, calls: Iterable[ToolCallPart] = ()) -> None:
        """Adds texts and tool calls to the answer of the current turn."""
        self.answered = True
        self._texts += filter(None, texts)
        self._calls += calls

    def close(self) -> None:
        """Completes the current turn if it has an answer."""
        if self.answered:
            sent = Content(role="user", parts=tuple(self.sent))
            self.past.append(PastTurn(sent, "\n".join(self._texts), tuple(self._calls)))
            self.sent, self._texts, self._calls, self.answered = [], [], [], False


def joined_instructions(texts: Iterable[str]) -> DataPart | None:
    """Returns the texts as one instructions part; None if all are blank."""
    joined = "\n\n".join(text for text in texts if text.strip())
    return DataPart(name=INSTRUCTIONS, data=joined) if joined else None
