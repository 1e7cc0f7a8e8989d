"""What is recorded of a session, for a reader at a terminal and for programs."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from rich.text import Text

from turnwise.cli import rendering
from turnwise.cli.clean import one_line
from turnwise.facts.events import USER, Actions, Event
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.stores import SessionInfo, SessionStore

PAGE_EVENTS = 500
_INDENT = 7


async def log(
    store: SessionStore, key: SessionKey, *, last: int | None = None, hidden: bool = False
) -> AsyncIterator[tuple[Event, bool]]:
    """The session's events in order, each with whether a rewind hides it; page by page, however long the log is."""
    after = 0
    if last is not None:
        newest = await store.events(key, last=last, hidden=hidden)
        after = (newest[0].sequence or 1) - 1 if newest else 0
    while True:
        page = await store.events(key, after=after, limit=PAGE_EVENTS, hidden=hidden)
        if not page:
            return
        visible = {event.sequence for event in page}
        if hidden:
            seen = await store.events(key, after=after, limit=PAGE_EVENTS)
            visible = {event.sequence for event in seen}
        for event in page:
            yield event, event.sequence not in visible
        after = page[-1].sequence or after


def session_table(infos: Iterable[SessionInfo]) -> Iterator[Text]:
    """The lines of a list of sessions."""
    rows = [
        (one_line(info.key.user), one_line(info.key.id), str(info.last_sequence), info.updated_at.strftime("%Y-%m-%d %H:%M:%S"))
        for info in infos
    ]
    return rendering.table(("user", "session", "events", "last event (UTC)"), rows, right=("events",))


def session_data(info: SessionInfo) -> dict[str, Any]:
    """A row of a list, for programs."""
    return {
        "app": info.key.app,
        "user": info.key.user,
        "session": info.key.id,
        "events": info.last_sequence,
        "created_at": info.created_at.isoformat(),
        "updated_at": info.updated_at.isoformat(),
    }


def session_line(session: Session) -> str:
    """The session in one line."""
    parts = [f"session {session.id} of user {session.user} in {session.app}", f"{session.last_sequence} events"]
    if session.head.active_agent:
        parts.append(f"{session.head.active_agent} spoke last")
    for _, agent, _ in session.head.waiting():
        parts.append(f"{agent} waits for a reply")
    return one_line(" · ".join(parts))


def transcript(event: Event, hidden: bool) -> Iterator[Text]:
    """The lines of one event: its number, its author and what was said or done."""
    lines = list(rendering.content_lines(event.content)) if event.content else []
    lines += _done(event)
    if not lines:
        return
    head = rendering.styled(f"{event.sequence:>5}  ", "dim")
    head.append(one_line(event.author), style="bold cyan" if event.author != USER else "bold")
    head.append(f"{' (in private)' if event.is_private else ''}{' (rewound)' if hidden else ''}: ")
    for number, line in enumerate(lines):
        shown = rendering.indented(line, _INDENT)
        shown = head.append_text(shown[_INDENT:]) if number == 0 else shown
        if hidden:
            shown.stylize("dim")
        yield shown


def _done(event: Event) -> Iterator[Text]:
    """What an event does besides saying something."""
    actions = event.actions
    if event.error:
        yield rendering.styled(f"failed [{event.error.code}]: {one_line(event.error.message)}", "red")
    for name, version in actions.artifact_versions.items():
        yield rendering.styled(one_line(f"saved {name}, version {version}"), "dim")
    if actions.blocked_by:
        yield rendering.styled(one_line(f"was stopped by the guardrail {actions.blocked_by}"), "yellow")
    if actions.transfer_to:
        yield rendering.styled(one_line(f"→ hands over to {actions.transfer_to}"), "dim")
    if actions.awaits and actions.awaits.kind == "tool_result":
        yield rendering.styled(one_line(f"waits for the result of {actions.awaits.id}"), "dim")
    if actions.rewind:
        yield rendering.styled(f"↶ rewinds to before #{actions.rewind.from_sequence}", "yellow")
    if actions.end and actions.end.reason != "completed":
        yield rendering.styled(_end(actions), "yellow")


def _end(actions: Actions) -> str:
    assert actions.end is not None
    detail = f": {actions.end.detail}" if actions.end.detail else ""
    return one_line(f"ended {actions.end.reason}{detail}")


def course(event: Event, hidden: bool) -> Iterator[Text]:
    """What an event says about the course of things: a decision with its verdicts, a hand-over, a wait, an end."""
    actions = event.actions
    number = f"{event.sequence:>5}  "
    mark = "  (rewound)" if hidden else ""
    if actions.selection is not None:
        said = one_line(event.text, 80) if event.author == USER else f"(asked by {one_line(event.author)})"
        yield Text()
        yield rendering.styled(number + said + mark, "bold" + (" dim" if hidden else ""))
        yield rendering.indented(rendering.decision_line(actions.selection), _INDENT)
        for item in rendering.explanation(actions.selection):
            yield rendering.indented(item, _INDENT)
        yield rendering.indented(rendering.summary(actions.selection), _INDENT)
    for line in _done(event):
        yield rendering.styled(number, "dim").append(one_line(event.author) + " ", style="bold").append_text(line).append(mark)
    if actions.awaits is not None and actions.awaits.kind == "reply":
        yield rendering.styled(f"{number}{one_line(event.author)} waits for a reply{mark}", "dim")
    if actions.end is not None and actions.end.reason == "completed":
        yield rendering.styled(f"{number}completed{mark}", "dim")


_COURSE = ("selection", "transfer_to", "awaits", "blocked_by", "rewind", "end")


def course_data(event: Event, hidden: bool) -> dict[str, Any] | None:
    """The same for programs; None for an event that only says something."""
    actions = event.actions.model_dump(mode="json", include=set(_COURSE))
    told = {name: value for name, value in actions.items() if value is not None}
    if event.error is not None:
        told["error"] = event.error.model_dump(mode="json")
    if not told:
        return None
    about = {"sequence": event.sequence, "invocation_id": event.invocation_id, "author": event.author, "hidden": hidden}
    return {**about, "text": event.text if event.author == USER else "", **told}
