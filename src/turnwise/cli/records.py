"""What is recorded of a session, for a reader at a terminal and for programs."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
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


def session_table(infos: Iterable[SessionInfo]) -> Table:
    """The rows of a list of sessions."""
    made = rendering.table("user", "session", "events", "last event (UTC)", right=("events",))
    for info in infos:
        key = info.key
        updated = info.updated_at.strftime("%Y-%m-%d %H:%M:%S")
        made.add_row(Text(one_line(key.user)), Text(one_line(key.id)), str(info.last_sequence), updated)
    return made


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


def transcript(event: Event, hidden: bool) -> Iterator[RenderableType]:
    """The lines of one event: its number, its author and what was said or done."""
    lines = list(rendering.content_lines(event.content)) if event.content else []
    lines += _done(event)
    if not lines:
        return
    head = Text(f"{event.sequence:>5}  ", style="dim")
    head.append(one_line(event.author), style="bold cyan" if event.author != USER else "bold")
    if event.is_private:
        head.append(" (in private)", style="dim")
    head.append(": ")
    yield _marked(head.append_text(lines[0]), hidden)
    for line in lines[1:]:
        yield _marked(Padding(line, (0, 0, 0, _INDENT)), hidden)


def _marked(item: Text | Padding, hidden: bool) -> RenderableType:
    if not hidden:
        return item
    text = item if isinstance(item, Text) else item.renderable
    assert isinstance(text, Text)
    plain = Text(text.plain + "  (rewound)", style="dim strike" if isinstance(item, Text) else "dim")
    return plain if isinstance(item, Text) else Padding(plain, (0, 0, 0, _INDENT))


def _done(event: Event) -> Iterator[Text]:
    """What an event does besides saying something."""
    actions = event.actions
    if event.error:
        yield Text(f"failed [{event.error.code}]: {one_line(event.error.message)}", style="red")
    for name, version in actions.artifact_versions.items():
        yield Text(one_line(f"saved {name}, version {version}"), style="dim")
    if actions.blocked_by:
        yield Text(one_line(f"was stopped by the guardrail {actions.blocked_by}"), style="yellow")
    if actions.transfer_to:
        yield Text(one_line(f"→ hands over to {actions.transfer_to}"), style="dim")
    if actions.awaits and actions.awaits.kind == "tool_result":
        yield Text(one_line(f"waits for the result of {actions.awaits.id}"), style="dim")
    if actions.rewind:
        yield Text(f"↶ rewinds to before #{actions.rewind.from_sequence}", style="yellow")
    if actions.end and actions.end.reason != "completed":
        yield Text(_end(actions), style="yellow")


def _end(actions: Actions) -> str:
    assert actions.end is not None
    detail = f": {actions.end.detail}" if actions.end.detail else ""
    return one_line(f"ended {actions.end.reason}{detail}")


def course(event: Event, hidden: bool) -> Iterator[RenderableType]:
    """What an event says about the course of things: a decision with its verdicts, a hand-over, a wait, an end."""
    actions = event.actions
    number = f"{event.sequence:>5}  "
    mark = "  (rewound)" if hidden else ""
    if actions.selection is not None:
        said = one_line(event.text, 80) if event.author == USER else f"(asked by {one_line(event.author)})"
        yield Text()
        yield Text(number + said + mark, style="bold" + (" dim" if hidden else ""))
        yield _below(rendering.decision_line(actions.selection))
        for item in rendering.explanation(actions.selection):
            yield _below(item)
        yield _below(rendering.summary(actions.selection))
    for line in _done(event):
        yield Text(number, style="dim").append(one_line(event.author) + " ", style="bold").append_text(line).append(mark)
    if actions.awaits is not None and actions.awaits.kind == "reply":
        yield Text(f"{number}{one_line(event.author)} waits for a reply{mark}", style="dim")
    if actions.end is not None and actions.end.reason == "completed":
        yield Text(f"{number}completed{mark}", style="dim")


def _below(item: RenderableType) -> Padding:
    return Padding(item, (0, 0, 0, _INDENT))


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
