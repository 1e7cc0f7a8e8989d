"""An answer's text as it comes, so that all pieces, joined, are the text that is recorded. Pure."""

from turnwise.facts.events import Event
from turnwise.gateway.speech.words import is_for_user, words_of

LINE = "\n"
"""What stands between what one agent says, or says first, and what the next does."""


class Telling:
    """Takes the events of one message, partial ones too, and gives what is new of its text.

    One utterance is told piece by piece at a time; what others say meanwhile, as children of a parallel agent do, comes when
    it is whole. What was begun and never ended, because its process or its model broke off, cannot be taken back.
    """

    def __init__(self) -> None:
        self._told = False
        self._open: Event | None = None
        self._said = ""
        self._waiting: list[str] = []

    def feed(self, event: Event) -> str:
        """The new text; mostly none."""
        return self._piece(event) if event.partial else self._whole(event)

    def rest(self) -> str:
        """What is left at the end."""
        self._open = None
        return self._waited()

    def _piece(self, event: Event) -> str:
        if not event.text or not is_for_user(event) or "~" in event.branch:
            return ""
        begins = self._open is None or self._open.id != event.id
        if begins and self._open is not None and self._open.branch != event.branch:
            return ""
        if begins:
            lead, self._open, self._said = self._waited() + self._lead(), event, ""
        else:
            lead = ""
        # What came before it was lost on the way: all of it comes with the whole.
        if event.offset not in (None, len(self._said)):
            return lead
        self._said, self._told = self._said + event.text, True
        return lead + event.text

    def _whole(self, event: Event) -> str:
        text = words_of(event)
        if self._open is not None and self._open.id == event.id:
            self._open = None
            return _missing(text, self._said) + self._waited()
        if not text:
            return ""
        if self._open is not None and self._open.branch != event.branch:
            self._waiting.append(text)
            return ""
        self._open = None
        return self._waited() + self._line(text)

    def _waited(self) -> str:
        waiting, self._waiting = self._waiting, []
        return "".join(self._line(text) for text in waiting)

    def _line(self, text: str) -> str:
        lead, self._told = self._lead(), True
        return lead + text

    def _lead(self) -> str:
        return LINE if self._told else ""


def _missing(text: str, said: str) -> str:
    """What of the text is still to be told. Pieces have no line breaks where parts of the text meet."""
    if text.startswith(said):
        return text[len(said) :]
    place = 0
    for character in said:
        if place < len(text) and text[place] == LINE and character != LINE:
            place += 1
        if place == len(text) or text[place] != character:
            return LINE + text
        place += 1
    return text[place:]
