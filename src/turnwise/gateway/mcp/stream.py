"""Progress notifications for clients that request them."""

from mcp.server.session import ServerSession

from turnwise.facts.events import USER, Event
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.utterances import is_shown_to_user, shown_text
from turnwise.runner import Invocation

CHARACTERS = 300
"""Maximum length of quoted text; its end is kept."""
CHARACTERS_BETWEEN_LINES = 100
"""Number of new characters before a partial answer is reported again."""


class ProgressSteps:
    """Converts a message's events, including partial ones, to progress lines. Pure."""

    def __init__(self, view: Redactor) -> None:
        self._view = view
        self._partial: dict[str, _PartialAnswer] = {}

    def feed(self, event: Event) -> str:
        """Returns the line for an event; empty for most."""
        if event.partial:
            return self._piece(event)
        self._partial.pop(event.id, None)
        if event.author == USER:
            selection = event.actions.selection
            shown = self._view.selection(selection) if selection else None
            return f"{shown.agent}: {shown.reason}" if shown else ""
        if text := shown_text(event):
            return _line(event, text)
        to = event.actions.transfer_to
        return f"{event.author} hands over to {to}" if to and self._view.reaches(to) and is_shown_to_user(event) else ""

    def _piece(self, event: Event) -> str:
        if not event.text or not is_shown_to_user(event):
            return ""
        partial = self._partial.setdefault(event.id, _PartialAnswer())
        partial.end = (partial.end + event.text)[-CHARACTERS - 1 :]
        partial.length += len(event.text)
        if partial.reported and partial.length - partial.reported < CHARACTERS_BETWEEN_LINES:
            return ""
        partial.reported = partial.length
        return _line(event, partial.end)


class _PartialAnswer:
    """A partial answer: the end of its text, its length, and the length when it was last reported."""

    def __init__(self) -> None:
        self.end, self.length, self.reported = "", 0, 0


async def report_progress(session: ServerSession, invocation: Invocation, view: Redactor) -> None:
    """Reports progress until the answer is complete or waits."""
    steps, count = ProgressSteps(view), 0
    async for event in invocation.events():
        if line := steps.feed(event):
            count += 1
            await session.report_progress(count, message=line)


def _line(event: Event, text: str) -> str:
    return f"{event.author}: {text if len(text) <= CHARACTERS else '…' + text[-CHARACTERS:]}"
