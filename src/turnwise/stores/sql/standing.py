"""How invocations stand after an append, as it is kept beside the decisions that began them. Pure."""

from collections.abc import Iterable, Mapping

from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Head, Session


def standings(before: Session, after: Session, visible: Iterable[tuple[int, Event]], base: Head) -> dict[int, str]:
    """The states that an append changes, by the number of the event that began the invocation.

    visible: its events by number, but for those that it hides itself. base: the head that they were folded onto. What it takes
    back has no state any more, and is not among them.
    """
    stood, stand = _open(before.head), _open(after.head)
    changed = _ended(visible, base)
    if stood == stand:
        return changed
    return changed | {began: state for began, state in stand.items() if stood.get(began) != state}


def _open(head: Head) -> Mapping[int, str]:
    return {open_.began: open_.state for open_ in head.invocations.values()}


def _ended(events: Iterable[tuple[int, Event]], base: Head) -> dict[int, str]:
    """How the invocations ended that these events end, by where they began."""
    began: dict[str, int] | None = None
    ended: dict[int, str] = {}
    for sequence, event in events:
        id_, actions = event.invocation_id, event.actions
        begins = event.author == USER and actions.selection is not None
        if actions.end is None and not begins:
            continue
        if began is None:
            began = {open_id: open_.began for open_id, open_ in base.invocations.items()}
        if begins:
            began.setdefault(id_, sequence)
        if actions.end is not None and (place := began.pop(id_, None)) is not None:
            ended[place] = actions.end.reason
    return ended
