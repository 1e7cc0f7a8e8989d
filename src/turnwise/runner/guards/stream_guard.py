"""Streamed text on its way past guardrails: held back only as far as one of them may still change it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.matching.normalize import strip_invisible

Check = Callable[[str], Awaitable[str | None]]
"""What is left of a text; None when it is blocked."""

_LEAST_STEP = 8
_TRIED_CUTS = 4


class StreamGuard:
    """The answers that are being streamed in one invocation, by the ids of their events.

    stages: for an author, what its text goes through, one after the other; None when nothing can be shown before the end.
    """

    def __init__(self, stages: Callable[[str], "Sequence[StreamStage] | None"]) -> None:
        self._stages = stages
        self._streams: dict[str, _Stream] = {}

    async def released(self, event: Event) -> Event | None:
        """The partial event with the text that can be shown after it; None when there is none.

        Pieces of thoughts and of tool calls are never shown: what is wrong with them is known when they are whole.
        """
        if not event.text:
            return None
        stream = self._streams.get(event.id)
        if stream is None:
            stream = self._streams[event.id] = _Stream(self._stages(event.author))
        offset = stream.shown
        text = await stream.feed(event.text)
        return event.model_copy(update={"content": text_content(text), "offset": offset}) if text else None

    def forget(self, event_id: str) -> None:
        """The answer is whole."""
        self._streams.pop(event_id, None)


class _Stream:
    """One answer. shown: how many characters of it are out."""

    def __init__(self, stages: "Sequence[StreamStage] | None") -> None:
        self._stages = stages
        self.shown = 0

    async def feed(self, text: str) -> str:
        if self._stages is None:
            return ""
        for stage in self._stages:
            left = await stage.feed(text)
            if left is None:
                # Whoever judges the whole says so; until then nothing more is shown.
                self._stages = None
                return ""
            text = left
        self.shown += len(text)
        return text


class StreamStage:
    """A text that comes in pieces, on its way past one guardrail, of which only `check` and `reach` are known.

    Whatever begins further back than `reach` characters has been recognised by now, or is nothing. So the text is cut
    there, if both sides checked by themselves give what they give together: then nothing spans the cut, and what is left
    of the first side is left of it whatever follows. Else it is cut a little before, or, when all of that belongs to one
    long finding, not yet. What was let go last stays as what stands before the rest. All that `feed` returns, joined, is
    the beginning of what the guardrail leaves of the whole.
    """

    def __init__(self, check: Check, reach: int) -> None:
        self._check, self._reach = check, reach
        self._step = max(_LEAST_STEP, reach // 4) if reach else 1
        self._text = ""
        self._gone = 0
        self._look_at = reach + self._step

    async def feed(self, piece: str) -> str | None:
        """What can be shown after this piece, maybe nothing; None when the guardrail blocks."""
        self._text += piece
        if len(self._text) - self._gone < self._look_at:
            return ""
        whole = await self._check(self._text)
        if whole is None:
            return None
        gone = await self._check(self._text[: self._gone]) if self._gone else ""
        for cut in self._cuts(whole):
            left, right = await self._check(self._text[:cut]), await self._check(self._text[cut:])
            if gone is None or left is None or right is None:
                continue
            if left + right == whole and left.startswith(gone):
                return self._let_go(cut, left[len(gone) :])
        # The longer a finding, the rarer it is looked at, so that the cost stays linear.
        self._look_at = (len(self._text) - self._gone) * 3 // 2
        return ""

    def _let_go(self, cut: int, text: str) -> str:
        self._text, self._gone = self._text[self._gone :], cut - self._gone
        self._look_at = max(len(self._text) - self._gone, self._reach) + self._step
        return text

    def _cuts(self, whole: str) -> Iterator[int]:
        """Where to try: `reach` characters before the end, then a little before, then where the first finding begins."""
        limit = self._limit()
        for place in range(_TRIED_CUTS):
            cut = limit - place * self._step
            if cut <= self._gone:
                return
            yield cut
        same = next((at for at, (one, other) in enumerate(zip(self._text, whole, strict=False)) if one != other), 0)
        if self._gone < same < limit:
            yield same

    def _limit(self) -> int:
        """The cut after which `reach` characters follow, invisible ones not counted: what guardrails look for is the same
        with such characters in it.
        """
        cut = len(self._text) - self._reach
        while cut > self._gone and (lacking := self._reach - len(strip_invisible(self._text[cut:]))) > 0:
            cut -= lacking
        return cut
