"""Fakes for tests of your own agents."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place


class CountingIssuer:
    """Issues ids that count up (`event-1`, `event-2`, …) and times that are one second apart.

    Two runs with new issuers record the same log.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._counts: dict[str, int] = {}

    def new_id(self, kind: str) -> str:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind}-{self._counts[kind]}"

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def advance(self, seconds: float) -> None:
        """Moves the clock forward."""
        self._now += timedelta(seconds=seconds)


class RecordingHooks:
    """Records all hook calls, in order."""

    def __init__(self) -> None:
        self.selections: list[Selection] = []
        self.events: list[Event] = []
        self.ends: list[tuple[str, str]] = []

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        self.selections.append(selection)

    async def stored(self, key: SessionKey, event: Event) -> None:
        self.events.append(event)

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        self.ends.append((invocation_id, reason))


class FunctionGuardrail:
    """A guardrail made from a function of place and text. If the function returns None, the text is allowed.

    Args:
        reach: see `Guardrail`.
    """

    def __init__(self, name: str, judge: Callable[[Place, str], GuardrailVerdict | None], *, reach: int | None = None) -> None:
        self._name, self._judge, self.reach = name, judge, reach

    @property
    def name(self) -> str:
        return self._name

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        return self._judge(place, content.text) or ALLOW
