"""A session as a pure fold over its events, and the head that a turn reads instead of the log."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf
from typing import Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from turnwise.facts.events import NO_BRANCH, USER, Await, Branch, End, Event
from turnwise.facts.fact import Fact, optional

LAST_REPLY_CHARACTERS = 2_000
"""The maximum length of `Head.last_reply`."""
RECENT_MESSAGES, RECENT_CHARACTERS = 6, 300
"""How many of the user's messages a head keeps, and how much of each."""
OPEN_MATTERS, OPEN_MATTER_CHARACTERS, OPEN_MATTERS_BYTES = 8, 200, 1_024
"""How many open matters a head keeps, how much of each agent's words, and the size of all of them as JSON."""
APP_PREFIX, USER_PREFIX, TEMP_PREFIX = "app:", "user:", "temp:"
_GAP = " … "


class SessionKey(NamedTuple):
    """The unique key of a session: app, user and session id."""

    app: str
    user: str
    id: str


class AuthorMark(Fact):
    """The sequence numbers of an author's latest actions; 0 means never."""

    spoke: int = 0
    """It answered, transferred, or asked."""
    handed: int = 0
    """It received a transfer."""
    failed: int = 0
    """It raised an error, or a limit ended its turn before it answered."""
    skipped: int = 0
    """It ended its turn without an answer, or a guardrail stopped it."""


class OpenCall(Fact):
    """A tool call without a result."""

    agent: str
    invocation_id: str
    tool: str
    branch: Branch = optional(NO_BRANCH)
    """The branch on which the call was made."""


class OpenInvocation(Fact):
    """An invocation that has not ended. A new attempt runs again everything above `since`."""

    state: Literal["running", "waiting"] = "running"
    agent: str
    """The agent that has the turn."""
    turn: int = 1
    """The number of the turn."""
    attempt: int = 1
    """The number of the attempt at this turn."""
    settled: int = 0
    """The number of attempts before the one that reached the last checkpoint."""
    began: int = 0
    """The sequence number of the first event."""
    since: int = 0
    """The sequence number of the event that began or resumed the turn, or made the last checkpoint."""
    last: int = 0
    """The sequence number of the last event."""
    waits: tuple[tuple[str, Await], ...] = ()
    """The open waits and the agents that wait, oldest first."""

    @property
    def expires_at(self) -> datetime | None:
        """The time at which it ends unanswered: when its last wait expires. None if it does not wait, or one never expires."""
        times = [wait.expires_at for _, wait in self.waits]
        if self.state != "waiting" or not all(times):
            return None
        return max((time for time in times if time is not None), default=None)


class Exchange(Fact):
    """An earlier message of the user and the agent that answered it."""

    message: str
    """The message's first 300 characters."""
    agent: str | None = None
    """None when no agent answered."""
    before: str = optional("")
    """The end of the reply that preceded the message, at most 300 characters; empty when there was none."""


class OpenMatter(Fact):
    """A matter that the conversation left when another agent answered: the agent, and what it asked or said last."""

    agent: str
    said: str
    """The end of the agent's last answer, at most 200 characters."""


class Head(Fact):
    """The part of a session's past that decisions need. Its size does not grow with the log."""

    authors: dict[str, AuthorMark] = Field(default_factory=dict)
    """Marks by author, without users."""
    active_agent: str | None = None
    """The agent that answered last."""
    named_next: str | None = optional(None)
    """The name in the `<next>` tag of the last answer, as written, for the next message. None when there is no name, or that
    agent has already received the turn.
    """
    last_reply: str = ""
    """The last answer. Above 2,000 characters, only its beginning and end."""
    recent: tuple[Exchange, ...] = ()
    """The user's last 6 messages, oldest first."""
    matters: tuple[OpenMatter, ...] = optional(())
    """The matters that were left for another agent and not taken up again, oldest first: at most 8, and at most 1 KB."""
    offered: tuple[str, ...] = ()
    """The agents offered by the last answer, in display order; empty when it was no clarifying question."""
    invocations: dict[str, OpenInvocation] = Field(default_factory=dict)
    """The open invocations by id."""
    calls: dict[str, OpenCall] = Field(default_factory=dict)
    """The tool calls without a result, by call id."""
    positions: dict[str, int] = Field(default_factory=dict)
    """The selectors' positions in fixed orders."""
    turns: int = 0
    """The number of the user's messages in the log."""

    def waiting(self) -> tuple[tuple[str, str, Await], ...]:
        """Returns the open waits as (invocation id, agent, wait), newest invocation first."""
        newest = sorted(self.invocations.items(), key=lambda item: -item[1].began)
        return tuple((id_, agent, wait) for id_, open_ in newest for agent, wait in open_.waits)

    @property
    def expires_at(self) -> datetime | None:
        """The time at which the first of the open invocations ends unanswered; None when none does."""
        times = (open_.expires_at for open_ in self.invocations.values())
        return min((time for time in times if time is not None), default=None)


class Session(Fact):
    """A session at one revision. It is a value: a store returns a new one with every append."""

    app: str
    user: str
    id: str
    epoch: int = 0
    """Counts the lease holders. The store refuses an append with an older epoch."""
    revision: int = 0
    """Increases with every append; 0 means not stored yet."""
    last_sequence: int = 0
    """The sequence number of the newest event; 0 for an empty log."""
    bytes: int = 0
    """The size of the session's own events. A fork does not count the events that it inherits."""
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """The session's own keys."""
    app_state: dict[str, JsonValue] = Field(default_factory=dict)
    """The state shared by the app, without the prefix `app:`."""
    user_state: dict[str, JsonValue] = Field(default_factory=dict)
    """The state shared by the user's sessions, without the prefix `user:`."""
    head: Head = Head()
    holder: str | None = None
    """The lease holder when the session was read; None when there was none."""
    queued: int = 0
    """The number of messages in the inbox when the session was read."""
    stop: str | None = None
    """The invocation with a pending stop request when the session was read."""
    created_at: datetime
    updated_at: datetime

    @property
    def held(self) -> bool:
        """True if the session had a lease holder when it was read."""
        return self.holder is not None

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.app, self.user, self.id)

    @property
    def merged_state(self) -> dict[str, JsonValue]:
        """The state of all scopes in one mapping. Shared keys have their `app:` or `user:` prefix."""
        shared = {APP_PREFIX + key: value for key, value in self.app_state.items()}
        shared |= {USER_PREFIX + key: value for key, value in self.user_state.items()}
        return shared | self.state


class ScopedState(NamedTuple):
    """A state delta split by scope, without prefixes. A None value removes a key."""

    app: dict[str, JsonValue]
    user: dict[str, JsonValue]
    session: dict[str, JsonValue]


def split_state(delta: Mapping[str, JsonValue]) -> ScopedState:
    """Splits a delta by scope (behaviour A24). Drops `temp:` keys, which live only for one invocation."""
    scoped = ScopedState({}, {}, {})
    for key, value in delta.items():
        if key.startswith(APP_PREFIX):
            scoped.app[key.removeprefix(APP_PREFIX)] = value
        elif key.startswith(USER_PREFIX):
            scoped.user[key.removeprefix(USER_PREFIX)] = value
        elif not key.startswith(TEMP_PREFIX):
            scoped.session[key] = value
    return scoped


def storable(event: Event) -> Event:
    """Returns the event as stored: without `temp:` keys."""
    if not any(key.startswith(TEMP_PREFIX) for key in event.actions.state_delta):
        return event
    kept = {key: value for key, value in event.actions.state_delta.items() if not key.startswith(TEMP_PREFIX)}
    return event.with_actions(state_delta=kept)


def merge(state: Mapping[str, JsonValue], delta: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Returns the state after a delta. A None value removes the key."""
    merged = {**state, **delta}
    return {key: value for key, value in merged.items() if value is not None}


def fold(session: Session, events: Iterable[Event]) -> Session:
    """Returns the session after these events, whose sequence numbers follow `last_sequence`.

    The store sets revision and epoch; they stay unchanged here. A rewind cannot be folded onto a head: after a rewind,
    fold the visible log from the beginning.
    """
    head, state, app_state, user_state = session.head, session.state, session.app_state, session.user_state
    last, updated = session.last_sequence, session.updated_at
    for event in events:
        if event.actions.state_delta:
            scoped = split_state(event.actions.state_delta)
            state, app_state, user_state = (
                merge(state, scoped.session),
                merge(app_state, scoped.app),
                merge(user_state, scoped.user),
            )
        last, updated = event.sequence or last + 1, event.created_at
        head = _fold_head(head, event, last)
    return session.replace_valid(
        head=head, state=state, app_state=app_state, user_state=user_state, last_sequence=last, updated_at=updated
    )


def visible(events: Iterable[Event]) -> list[Event]:
    """Returns the events that no rewind hides, in append order. The input may be the whole log or one invocation."""
    log, kept = list(events), list[Event]()
    if all([event.actions.rewind is None for event in log]):  # noqa: C419 - a list is faster here
        return log
    hidden_from: float = inf
    for event in sorted(log, key=lambda event: -(event.sequence or 0)):
        if (event.sequence or 0) < hidden_from:
            kept.append(event)
        if event.actions.rewind is not None:
            hidden_from = min(hidden_from, event.actions.rewind.from_sequence)
    return kept[::-1]


def _fold_head(head: Head, event: Event, sequence: int) -> Head:
    """Returns the head after an event."""
    changed: dict[str, Any] = {}
    if event.actions.positions:
        changed["positions"] = head.positions | event.actions.positions
    if event.author == USER:
        changed |= _fold_message(head, event)
    elif not event.is_private:
        changed |= _fold_author(head, event, sequence)
    if event.content and (event.content.tool_calls or event.content.tool_results):
        changed["calls"] = _fold_calls(head.calls, event)
    changed["invocations"] = _fold_invocations(head.invocations, event, sequence)
    head = head.replace_valid(**changed)
    if event.actions.end and head.calls:
        open_ = {id_: call for id_, call in head.calls.items() if call.invocation_id != event.invocation_id}
        head = head.replace_valid(calls=open_)
    return head


def _fold_message(head: Head, event: Event) -> dict[str, Any]:
    """Returns the head's fields that a user's message changes."""
    if event.content is None:
        return {}
    said = Exchange(message=event.text[:RECENT_CHARACTERS], before=head.last_reply[-RECENT_CHARACTERS:])
    selection = event.actions.selection
    last = selection.verdicts[-1] if selection and selection.verdicts else None
    offered = tuple(each.agent for each in last.candidates) if last and last.outcome == "clarify" else ()
    recent = (*head.recent, said)[-RECENT_MESSAGES:]
    return {"turns": head.turns + 1, "recent": recent, "offered": offered, "named_next": None}


def _shortened(text: str) -> str:
    """Returns the beginning and the end of a long text: a question to the user is usually at the end."""
    if len(text) <= LAST_REPLY_CHARACTERS:
        return text
    half = LAST_REPLY_CHARACTERS // 2
    return f"{text[: half - len(_GAP)]}{_GAP}{text[-half:]}"


def _fold_author(head: Head, event: Event, sequence: int) -> dict[str, Any]:
    """Returns the head's fields that an agent's event changes: its marks, the active agent, the last reply."""
    authors = dict(head.authors)
    mark = authors.get(event.author, AuthorMark())
    changed: dict[str, Any] = {"authors": authors}
    if event.speaks:
        before = head.active_agent
        handed = before is not None and mark.handed >= authors.get(before, AuthorMark()).spoke
        matters = matters_after(head.matters, before, head.last_reply, now=event.author, handed=handed)
        if matters != head.matters:
            changed["matters"] = matters
        authors[event.author] = mark.replace(spoke=sequence)
        changed["active_agent"] = event.author
        changed["named_next"] = _named_next(head, event)
        if head.recent:
            changed["recent"] = (*head.recent[:-1], head.recent[-1].replace(agent=event.author))
        if text := event.text:
            changed["last_reply"] = _shortened(text)
    elif event.error:
        authors[event.author] = mark.replace(failed=sequence)
    elif event.actions.blocked_by:
        authors[event.author] = mark.replace(skipped=sequence)
    elif event.actions.end and max(mark.spoke, mark.failed) < _began(head, event):
        authors[event.author] = _after_silent_end(mark, event.actions.end, sequence)
    target = event.actions.transfer_to
    if target is not None:
        authors[target] = authors.get(target, AuthorMark()).replace(handed=sequence)
    return changed


def matters_after(
    matters: tuple[OpenMatter, ...], agent: str | None, said: str, *, now: str, handed: bool = False
) -> tuple[OpenMatter, ...]:
    """Returns the open matters once the agent `now` answers.

    Args:
        matters: The matters so far, oldest first.
        agent: The agent that answered before; None = none.
        said: Its last answer.
        now: The agent that answers. Its matter is taken up again, so it is no longer open.
        handed: True if the agent before handed the conversation over, so it left nothing.
    """
    if agent == now:
        return matters
    kept = tuple(each for each in matters if each.agent not in (agent, now))
    text = said[-OPEN_MATTER_CHARACTERS:].strip()
    if agent is not None and text and not handed:
        kept = (*kept, OpenMatter(agent=agent, said=text))
    kept = kept[-OPEN_MATTERS:]
    while sum(len(each.model_dump_json().encode()) + 1 for each in kept) > OPEN_MATTERS_BYTES:
        kept = kept[1:]
    return kept


def _named_next(head: Head, event: Event) -> str | None:
    """Returns the name that the author's last answer leaves for the next message; None after a transfer.

    Names in nested answers, as in a team, belong to the agent that runs the team.
    """
    if event.actions.transfer_to is not None:
        return None
    if not event.is_answer:
        return head.named_next if event.author == head.active_agent else None
    return None if event.branch.parent else event.actions.next or None


def _after_silent_end(mark: AuthorMark, end: End, sequence: int) -> AuthorMark:
    """Returns the mark of an author that gave no answer before the end. Unchanged when the author did not cause the end."""
    if end.reason == "completed":
        return mark.replace(skipped=sequence)
    return mark if end.reason in {"cancelled", "clarify"} else mark.replace(failed=sequence)


def _began(head: Head, event: Event) -> int:
    open_ = head.invocations.get(event.invocation_id)
    return open_.began if open_ else 0


def _fold_calls(calls: Mapping[str, OpenCall], event: Event) -> dict[str, OpenCall]:
    """Returns the open tool calls after an event: those that it makes, without those that it answers."""
    assert event.content is not None
    opened = {
        call.call_id: OpenCall(agent=event.author, invocation_id=event.invocation_id, tool=call.tool, branch=event.branch)
        for call in event.content.tool_calls
    }
    answered = {result.call_id for result in event.content.tool_results}
    return {id_: call for id_, call in {**calls, **opened}.items() if id_ not in answered}


def _fold_invocations(invocations: Mapping[str, OpenInvocation], event: Event, sequence: int) -> dict[str, OpenInvocation]:
    """Returns the open invocations after an event: begun, continued, waiting, or without the ended one."""
    id_, actions = event.invocation_id, event.actions
    others = {key: value for key, value in invocations.items() if key != id_}
    if actions.end:
        return others
    open_ = invocations.get(id_)
    if open_ is None:
        if event.author != USER or actions.selection is None:
            return others
        begun = OpenInvocation(agent=actions.selection.agent, began=sequence, since=sequence, last=sequence)
        return others | {id_: begun}
    changed: dict[str, Any] = {"last": sequence, "attempt": event.attempt}
    if actions.transfer_to and not event.is_private:
        changed |= {"agent": actions.transfer_to, "turn": open_.turn + 1, "since": sequence}
    if (waits := waits_after(open_.waits, event)) != open_.waits:
        changed["waits"] = waits
    if actions.awaits:
        changed["state"] = "waiting"
    if actions.checkpoint:
        changed |= {"since": sequence, "settled": event.attempt - 1}
    if event.author == USER:
        changed |= {"state": "running", "since": sequence, "attempt": 1, "settled": 0}
    return others | {id_: open_.replace(**changed)}


def waits_after(waits: tuple[tuple[str, Await], ...], event: Event) -> tuple[tuple[str, Await], ...]:
    """Returns the open waits of an invocation after its next event: the agents that wait and their waits, oldest first."""
    actions, content = event.actions, event.content
    closed = {actions.answers} | {result.call_id for result in (content.tool_results if content else ())}
    if actions.end:
        return ()
    if actions.awaits:
        closed.add(actions.awaits.id)
    left = tuple(wait for wait in waits if wait[1].id not in closed)
    return (*left, (event.author, actions.awaits)) if actions.awaits else left
