"""What opened the reader's run: the user's message, a brief, or what the caller of a private call handed over."""

from turnwise.facts.content import Content
from turnwise.facts.events import USER
from turnwise.transcript.reading import Reading
from turnwise.transcript.view import View


def opening_place(reading: Reading, view: View, opening: Content) -> int | None:
    """The place of the event that says it, before the reader's first event of this run; None when the log does not hold it."""
    if _is_called(view) or view.giver is not None:
        return None
    for place in reversed(reading.order[reading.current : run_begins(reading, view)]):
        event = reading.events[place]
        given = event.actions.brief
        if event.author == USER:
            given = given or event.content
        elif event.actions.transfer_to != view.agent:
            continue
        if given is not None and given.parts == opening.parts:
            return place
    return None


def giver(reading: Reading, view: View) -> str | None:
    """Who handed over an opening that the log does not hold: whom the view names, or the agent that made the private call,
    empty when it is not known by its words; None when it is the user.
    """
    if view.giver is not None or not _is_called(view):
        return view.giver
    caller = view.branch.rpartition("/>")[0]
    events = (reading.events[place] for place in reversed(reading.order[reading.current :]))
    return next((event.author for event in events if event.branch == caller), "")


def run_begins(reading: Reading, view: View) -> int:
    """The index in the reading's order of the reader's first event of this run; its length when there is none yet."""
    for index in range(reading.current, len(reading.order)):
        event = reading.events[reading.order[index]]
        if event.author == view.agent and event.branch == view.branch:
            return index
    return len(reading.order)


def _is_called(view: View) -> bool:
    return "/>" in view.branch
