"""How an answer comes along, for clients that want to hear of it."""

from mcp.server.session import ServerSession

from turnwise.facts.events import USER, Event
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.utterances import is_shown_to_user, shown_text
from turnwise.runner import Invocation

CHARACTERS = 300
"""How much of what is said is told at once: its end."""
CHARACTERS_BETWEEN_LINES = 100
"""After how many more characters of an answer that is being written it is told of again."""


class ProgressSteps:
    """Takes the events of a message, partial ones too, and gives a line for each that is worth one. Pure."""

    def __init__(self, view: Redactor) -> None:
        self._view = view
        self._written: dict[str, _PartialAnswer] = {}

    def feed(self, event: Event) -> str:
        """The line; mostly none."""
        if event.partial:
            return self._piece(event)
        self._written.pop(event.id, None)
        if event.author == USER:
            selection = event.actions.selection
            shown = self._view.selection(selection) if selection else None
            return f"{shown.agent}: {shown.reason}" if shown else ""
        if words := shown_text(event):
            return _line(event, words)
        to = event.actions.transfer_to
        return f"{event.author} hands over to {to}" if to and self._view.reaches(to) and is_shown_to_user(event) else ""

    def _piece(self, event: Event) -> str:
        if not event.text or not is_shown_to_user(event):
            return ""
        written = self._written.setdefault(event.id, _PartialAnswer())
        written.end = (written.end + event.text)[-CHARACTERS - 1 :]
        written.length += len(event.text)
        if written.told and written.length - written.told < CHARACTERS_BETWEEN_LINES:
            return ""
        written.told = written.length
        return _line(event, written.end)


class _PartialAnswer:
    """What of an answer came so far. told: how many characters there were when it was told of."""

    def __init__(self) -> None:
        self.end, self.length, self.told = "", 0, 0


async def report_progress(session: ServerSession, invocation: Invocation, view: Redactor) -> None:
    """Tells of every step until the answer is there, or waits."""
    steps, count = ProgressSteps(view), 0
    async for event in invocation.events():
        if line := steps.feed(event):
            count += 1
            await session.report_progress(count, message=line)


def _line(event: Event, words: str) -> str:
    return f"{event.author}: {words if len(words) <= CHARACTERS else '…' + words[-CHARACTERS:]}"
