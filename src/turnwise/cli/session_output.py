"""Shows a session's recorded events, and why it waits, at the terminal and as JSON data."""

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from rich.text import Text

from turnwise.cli import rendering
from turnwise.cli.rendering import fit_table, usage_text
from turnwise.cli.terminal import one_line
from turnwise.dispatch.engine import EngineSettings
from turnwise.facts.events import USER, Actions, Event, Guarded
from turnwise.facts.sessions import OpenInvocation, Session, SessionKey
from turnwise.ports.stores import SessionInfo
from turnwise.runner import Runner
from turnwise.runner.message.open_invocations import Pending, has_pending_work, pending_reasons
from turnwise.runner.record.journal import DECISION

PAGE_EVENTS = 500
_INDENT = 7


class Entry(NamedTuple):
    """An event of a log, and whether it still counts."""

    event: Event
    hidden: bool = False
    """Whether a rewind hides it."""
    superseded: bool = False
    """Whether the rewind was that of a new attempt."""

    @property
    def tells_attempts(self) -> bool:
        """True if the log up to here shows more than one attempt at its answer."""
        return self.superseded or self.event.attempt > 1

    @property
    def mark(self) -> str:
        """A note in parentheses for a hidden event; "" for a visible one."""
        if self.superseded:
            return f" (attempt {self.event.attempt}, superseded)"
        return " (rewound)" if self.hidden else ""


class EventReader(Protocol):
    """Reads a session's events, like `Sessions.events`."""

    async def events(
        self, key: SessionKey, *, after: int = 0, last: int | None = None, limit: int | None = None, hidden: bool = False
    ) -> list[Event]: ...


async def read_log(
    sessions: EventReader, key: SessionKey, *, last: int | None = None, hidden: bool = False
) -> AsyncIterator[Entry]:
    """Yields the session's events in order, page by page.

    Args:
        last: only the newest events, this many.
        hidden: also the events that rewinds hide.
    """
    after = 0
    if last is not None:
        newest = await sessions.events(key, last=last, hidden=hidden)
        after = (newest[0].sequence or 1) - 1 if newest else 0
    attempts: dict[str, list[Event]] | None = None
    while page := await sessions.events(key, after=after, limit=PAGE_EVENTS, hidden=hidden):
        visible = {event.sequence for event in page}
        if hidden:
            visible = {event.sequence for event in await sessions.events(key, after=after, limit=PAGE_EVENTS)}
        for event in page:
            is_hidden = event.sequence not in visible
            if is_hidden and attempts is None:
                attempts = await _new_attempts(sessions, key, after)
            begun = (attempts or {}).get(event.invocation_id, ())
            yield Entry(event, is_hidden, is_hidden and any(_supersedes(each, event) for each in begun))
        after = page[-1].sequence or after


async def _new_attempts(sessions: EventReader, key: SessionKey, after: int) -> dict[str, list[Event]]:
    """The events that start new attempts, from that position to the end of the log, by invocation."""
    found: dict[str, list[Event]] = {}
    while page := await sessions.events(key, after=after, limit=PAGE_EVENTS, hidden=True):
        for event in page:
            if rendering.starts_attempt(event):
                found.setdefault(event.invocation_id, []).append(event)
        after = page[-1].sequence or after
    return found


def _supersedes(begun: Event, event: Event) -> bool:
    """Whether the new attempt that `begun` starts replaces that event.

    A fork renumbers events, but never has an event below the numbers that its rewinds name.
    """
    rewind = begun.actions.rewind
    return (
        rewind is not None
        and begun.attempt > event.attempt
        and rewind.from_sequence <= (event.sequence or 0) < (begun.sequence or 0)
    )


def session_table(infos: Iterable[SessionInfo], width: int | None = None) -> Iterator[Text]:
    """The lines of a table of sessions."""
    rows = [
        (one_line(info.key.user), one_line(info.key.id), str(info.last_sequence), info.updated_at.strftime("%Y-%m-%d %H:%M:%S"))
        for info in infos
    ]
    return fit_table(("user", "session", "events", "last event (UTC)"), rows, width, right=("events",))


def session_data(info: SessionInfo) -> dict[str, Any]:
    """A session of a list as JSON data."""
    return {
        "app": info.key.app,
        "user": info.key.user,
        "session": info.key.id,
        "events": info.last_sequence,
        "created_at": info.created_at.isoformat(),
        "updated_at": info.updated_at.isoformat(),
    }


def session_line(session: Session) -> str:
    """The session's state in one line."""
    parts = [f"session {session.id} of user {session.user} in {session.app}", f"{session.last_sequence} events"]
    if session.head.active_agent:
        parts.append(f"{session.head.active_agent} spoke last")
    for open_ in session.head.invocations.values():
        if open_.state == "running":
            parts.append(_running_text(open_, session.held))
    for _, agent, wait in session.head.waiting():
        parts.append(f"{agent} waits for {'a reply' if wait.kind == 'reply' else 'the result of a tool'}")
    if session.queued:
        parts.append(f"{session.queued} message{'s' if session.queued > 1 else ''} in the inbox")
    return one_line(" · ".join(parts))


def _running_text(open_: OpenInvocation, held: bool) -> str:
    if not held:
        return f"{open_.agent} was answering when its process stopped"
    return f"{open_.agent} is answering" + (f", attempt {open_.attempt}" if open_.attempt > 1 else "")


def transcript_lines(entry: Entry, *, thinking: bool = False) -> Iterator[Text]:
    """The lines of one event: its number, its author, its content and its actions.

    Args:
        thinking: whether to include the model's thoughts.
    """
    content = entry.event.content
    said = list(rendering.content_lines(content, thinking=thinking)) if content else []
    return _with_heading(entry, [*said, *_action_lines(entry)])


def _with_heading(entry: Entry, lines: list[Text]) -> Iterator[Text]:
    """Yields an event's lines, the first one with number, author and marks."""
    event = entry.event
    head = rendering.styled(f"{event.sequence:>5}  ", "dim")
    head.append(one_line(event.author), style="bold cyan" if event.author != USER else "bold")
    head.append(f"{' (in private)' if event.is_private else ''}{entry.mark}: ")
    for number, line in enumerate(lines):
        shown = rendering.indent(line, _INDENT)
        shown = head.append_text(shown[_INDENT:]) if number == 0 else shown
        if entry.hidden:
            shown.stylize("dim")
        yield shown


def _action_lines(entry: Entry) -> Iterator[Text]:
    """The actions of an event: errors, artifacts, steps, guardrails, transfers and so on."""
    event, actions = entry.event, entry.event.actions
    if event.error:
        yield rendering.styled(f"failed [{event.error.code}]: {one_line(event.error.message)}", "red")
    for name, version in actions.artifact_versions.items():
        yield rendering.styled(one_line(f"saved {name}, version {version}"), "dim")
    for step in _kept_steps(entry):
        yield rendering.styled(one_line(f"did step {step}, kept for the next attempt"), "green")
    if actions.summary:
        yield rendering.styled(f"summarized the conversation up to #{actions.summary.until}", "dim")
    yield from rendering.cut_off_lines(event)
    if actions.usage:
        yield rendering.styled(usage_text(actions.usage), "dim")
    if actions.blocked_by:
        yield rendering.styled(one_line(f"was stopped by the guardrail {actions.blocked_by}"), "yellow")
    for guarded in actions.guarded:
        yield rendering.styled(_guardrail_text(guarded), "yellow")
    if actions.transfer_to:
        yield rendering.styled(one_line(f"→ hands over to {actions.transfer_to}"), "dim")
    if actions.awaits and actions.awaits.kind == "tool_result":
        yield rendering.styled(one_line(f"waits for the result of {actions.awaits.id}"), "dim")
    if rendering.starts_attempt(event):
        yield rendering.attempt_line(event)
    elif actions.rewind:
        yield rendering.styled(f"↶ rewinds to before #{actions.rewind.from_sequence}", "yellow")
    if actions.end and actions.end.reason != "completed":
        yield rendering.styled(_end_text(actions), "yellow")


def _guardrail_text(guarded: Guarded) -> str:
    what = f" the call {guarded.call_id}" if guarded.call_id else ""
    did = "blocked" if guarded.action == "block" else "rewrote"
    reason = f": {guarded.reason}" if guarded.reason else ""
    return one_line(f"the guardrail {guarded.guardrail} {did}{what}{reason}")


def _end_text(actions: Actions) -> str:
    assert actions.end is not None
    detail = f": {actions.end.detail}" if actions.end.detail else ""
    return one_line(f"ended {actions.end.reason}{detail}")


def _kept_steps(entry: Entry) -> list[str]:
    """Names of the recorded steps in a superseded event. The new attempt reuses their results."""
    if not entry.superseded:
        return []
    keys = (step.key for step in entry.event.actions.steps)
    return [key.removeprefix(entry.event.branch.step_key("")) for key in keys if not key.startswith(DECISION)]


def course_lines(entry: Entry) -> Iterator[Text]:
    """The decision, handoff, wait or end in an event. If its answer had several attempts, also its content."""
    event, actions = entry.event, entry.event.actions
    number, mark = f"{event.sequence:>5}  ", f" {entry.mark}" if entry.mark else ""
    if actions.selection is not None:
        said = one_line(event.text, 80) if event.author == USER else f"(asked by {one_line(event.author)})"
        yield Text()
        yield rendering.styled(f"{number}{said}{mark}", "bold" + (" dim" if entry.hidden else ""))
        yield rendering.indent(rendering.decision_line(actions.selection), _INDENT)
        for item in rendering.explanation_lines(actions.selection):
            yield rendering.indent(item, _INDENT)
        yield rendering.indent(rendering.summary_line(actions.selection), _INDENT)
    if entry.tells_attempts and event.author != USER and event.content is not None:
        yield from _with_heading(entry, list(rendering.content_lines(event.content)))
    for line in _action_lines(entry):
        author = rendering.styled(number, "dim").append(one_line(event.author), style="bold")
        shown = author.append(f"{entry.mark} ").append_text(line)
        if entry.hidden:
            shown.stylize("dim")
        yield shown
    if actions.awaits is not None and actions.awaits.kind == "reply":
        yield rendering.styled(f"{number}{one_line(event.author)} waits for a reply{mark}", "dim")
    if actions.end is not None and actions.end.reason == "completed":
        yield rendering.styled(f"{number}completed{mark}", "dim")


_COURSE_ACTIONS = (
    "selection",
    "transfer_to",
    "awaits",
    "blocked_by",
    "guarded",
    "usage",
    "cut_off",
    "summary",
    "rewind",
    "end",
)


def course_data(entry: Entry) -> dict[str, Any] | None:
    """The same as JSON data. None for an event that has only content, in an answer with one attempt."""
    event = entry.event
    actions = event.actions.model_dump(mode="json", include=set(_COURSE_ACTIONS))
    told = {name: value for name, value in actions.items() if value not in (None, [])}
    if event.error is not None:
        told["error"] = event.error.model_dump(mode="json")
    if steps := _kept_steps(entry):
        told["kept_steps"] = steps
    text = event.text if event.author == USER or entry.tells_attempts else ""
    if not told and not (entry.tells_attempts and text):
        return None
    about = {"sequence": event.sequence, "invocation_id": event.invocation_id, "author": event.author}
    return {**about, **visibility_data(entry), "attempt": event.attempt, "text": text, **told}


def visibility_data(entry: Entry) -> dict[str, bool]:
    """Whether the event still counts, as JSON data."""
    return {"hidden": entry.hidden, "superseded": entry.superseded}


async def why_waiting(runner: Runner, session: Session, engine: str | None) -> tuple[Pending, ...]:
    """Returns why the session waits; with the address of an engine, also what is wrong with that."""
    found = await pending_reasons(runner.store, runner.sets.current, session, datetime.now(UTC))
    if engine is None or session.held or not has_pending_work(session):
        return found
    problem = await EngineSettings(engine).open(runner.app, runner.process.concurrency).problem()
    return found if problem is None else (Pending("engine", problem), *found)


def pending_data(pending: Pending) -> dict[str, Any]:
    """A reason as JSON data."""
    return {
        "reason": pending.reason,
        "detail": pending.detail,
        "agent": pending.agent,
        "until": pending.until.isoformat() if pending.until else None,
        "invocation_id": pending.invocation_id,
        "process": pending.process,
    }
