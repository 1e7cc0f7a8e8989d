"""A conversation as a request tells it, in exchanges: what was sent, and what was answered."""

from collections.abc import Iterable
from typing import NamedTuple

from turnwise.facts.content import Content, DataPart, Part, ToolCallPart

INSTRUCTIONS = "instructions"
"""The name of the data part by which an agent reads what the caller wants beside the message. No selector goes by it."""
MOST_MESSAGES = 10_000
"""Of a conversation, as a request may tell it: all of them are read for each answer."""


class PastTurn(NamedTuple):
    """An exchange as the caller tells it: what was sent, with no parts if the answer came unasked; the answer's text, and the
    calls that it asked for.
    """

    sent: Content
    text: str = ""
    calls: tuple[ToolCallPart, ...] = ()


class Exchanges:
    """Is told one thing after the other. past: the exchanges that are over. sent: what was sent behind them.
    answered: whether something was said to that.
    """

    def __init__(self) -> None:
        self.past: list[PastTurn] = []
        self.sent: list[Part] = []
        self.answered = False
        self._texts: list[str] = []
        self._calls: list[ToolCallPart] = []

    def send(self, parts: Iterable[Part]) -> None:
        """That was sent. What was answered before is past."""
        self.close()
        self.sent += parts

    def answer(self, *texts: str, calls: Iterable[ToolCallPart] = ()) -> None:
        """That was answered: texts, and calls of tools."""
        self.answered = True
        self._texts += filter(None, texts)
        self._calls += calls

    def close(self) -> None:
        """What was sent and answered is past."""
        if self.answered:
            sent = Content(role="user", parts=tuple(self.sent))
            self.past.append(PastTurn(sent, "\n".join(self._texts), tuple(self._calls)))
            self.sent, self._texts, self._calls, self.answered = [], [], [], False


def joined_instructions(texts: Iterable[str]) -> DataPart | None:
    """What these texts want of an agent; None when they say nothing."""
    told = "\n\n".join(text for text in texts if text.strip())
    return DataPart(name=INSTRUCTIONS, data=told) if told else None
