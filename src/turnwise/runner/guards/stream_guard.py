"""Filters streamed text through guardrails: holds back only the text that a guardrail may still change."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.matching.normalize import strip_invisible

Check = Callable[[str], Awaitable[str | None]]
"""Returns the text after a check; None when it is blocked."""

_LEAST_STEP = 8
_TRIED_CUTS = 4


class StreamGuard:
    """The answers that are being streamed in one invocation, by event id.

    Args:
        stages: Returns the stages for an author's text; None when nothing can be shown before the end.
    """

    def __init__(self, stages: Callable[[str], "Sequence[StreamStage] | None"]) -> None:
        self._stages = stages
        self._streams: dict[str, _Stream] = {}

    async def released(self, event: Event) -> Event | None:
        """Returns the partial event with the text that can be shown now; None when there is none.

        Pieces of thinking and of tool calls are never shown: they can only be checked when complete.
        """
        if not event.text:
            return None
        stream = self._streams.get(event.id)
        if stream is None:
            stream = self._streams[event.id] = _Stream(self._stages(event.author))
        offset = stream.shown
        text = await stream.feed(event.text)
        return event.replace(content=text_content(text), offset=offset) if text else None

    def forget(self, event_id: str) -> None:
        """Discards the state of an answer that is complete."""
        self._streams.pop(event_id, None)


class _Stream:
    """One streamed answer."""

    def __init__(self, stages: "Sequence[StreamStage] | None") -> None:
        self._stages = stages
        self.shown = 0
        """The number of characters shown so far."""

    async def feed(self, text: str) -> str:
        """Returns the text that can be shown after this piece. After a block it returns only empty texts."""
        if self._stages is None:
            return ""
        for stage in self._stages:
            left = await stage.feed(text)
            if left is None:
                # The check of the complete answer records the block; nothing more is shown until then.
                self._stages = None
                return ""
            text = left
        self.shown += len(text)
        return text


class StreamStage:
    """Filters a stream of text through one guardrail, of which only `check` and `reach` are known.

    A finding that begins more than `reach` characters back is recognised by now. The text is cut there, if checking both sides
    separately gives the same as checking them together: then no finding spans the cut. Otherwise an earlier
    cut is tried, and if all of the text belongs to one long finding, nothing is released yet. The last released text
    stays as the context of the rest. The joined results of `feed` are a prefix of the guardrail's result for the whole
    text.
    """

    def __init__(self, check: Check, reach: int) -> None:
        self._check, self._reach = check, reach
        self._step = max(_LEAST_STEP, reach // 4) if reach else 1
        self._text = ""
        self._gone = 0
        self._look_at = reach + self._step

    async def feed(self, piece: str) -> str | None:
        """Returns the text that can be shown after this piece, possibly empty; None when the guardrail blocks."""
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
        # Long findings are checked less often, so that the total cost stays linear.
        self._look_at = (len(self._text) - self._gone) * 3 // 2
        return ""

    def _let_go(self, cut: int, text: str) -> str:
        self._text, self._gone = self._text[self._gone :], cut - self._gone
        self._look_at = max(len(self._text) - self._gone, self._reach) + self._step
        return text

    def _cuts(self, whole: str) -> Iterator[int]:
        """Yields cuts to try: `reach` characters before the end, a few earlier ones, then the beginning of the first
        finding.
        """
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
        """Returns the cut after which `reach` visible characters follow. Guardrails ignore invisible characters."""
        cut = len(self._text) - self._reach
        while cut > self._gone and (lacking := self._reach - len(strip_invisible(self._text[cut:]))) > 0:
            cut -= lacking
        return cut
