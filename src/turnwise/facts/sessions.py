"""A session as a pure fold over its events, and the head that a turn reads instead of the log."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf
from typing import Literal, NamedTuple

from pydantic import Field, JsonValue

from turnwise.facts.events import USER, Await, End, Event
from turnwise.facts.fact import Fact, optional

LAST_REPLY_CHARACTERS = 2_000
RECENT_MESSAGES, RECENT_CHARACTERS = 6, 300
APP_PREFIX, USER_PREFIX, TEMP_PREFIX = "app:", "user:", "temp:"
_GAP = " … "


class SessionKey(NamedTuple):
    """Who and what: the app, the user and the session's id; unique together."""

    app: str
    user: str
    id: str


class AuthorMark(Fact):
    """The last sequence numbers at which an author did something; 0 = never.

    spoke: said something, handed on, or asked. handed: was given the floor. failed: an error, or an end by a limit before it
    spoke. skipped: ended its turn without a word, or a guardrail stopped it.
    """

    spoke: int = 0
    handed: int = 0
    failed: int = 0
    skipped: int = 0


class OpenCall(Fact):
    """A tool call without a result, and the branch on which it was made."""

    agent: str
    invocation_id: str
    tool: str
    branch: str = optional("")


class OpenInvocation(Fact):
    """An invocation that has not ended. `agent` holds the floor, in turn number `turn`, for the `attempt`-th time.

    began, since and last are sequence numbers: of its first event, of the one by which the floor was given or taken up again
    last or a checkpoint was made, and of its last event. What stands above `since` is run again in a new attempt. settled:
    how many attempts it took to come to the last checkpoint, less the one that came there.
    """

    state: Literal["running", "waiting"] = "running"
    agent: str
    turn: int = 1
    attempt: int = 1
    settled: int = 0
    began: int = 0
    since: int = 0
    last: int = 0
    waits: tuple[tuple[str, Await], ...] = ()
    """Who waits for what, oldest first."""


class Exchange(Fact):
    """An earlier message of the user, cut to 300 characters, and who answered it; None = nobody did.

    before: how the reply ended that the user had read then, at most 300 characters; empty when there was none.
    """

    message: str
    agent: str | None = None
    before: str = optional("")


class Head(Fact):
    """All that a decision needs of a session's past, of a size that does not grow with the log.

    authors: marks by author, users aside. active_agent: who spoke last. named_next: the name in the tag of its last answer, as
    it wrote it, for the next message; None = no name, or the floor went to that agent already. last_reply: what it said; of
    more than 2,000 characters the beginning and the end. recent: the user's last 6 messages, oldest first. offered: the agents
    that the last answer let the user choose from, in the order they were shown; empty when it was no clarifying question.
    invocations: the open ones by id. calls: tool calls without a result by call id. positions: places in fixed orders. turns:
    how many messages of the user the log holds.
    """

    authors: dict[str, AuthorMark] = Field(default_factory=dict)
    active_agent: str | None = None
    named_next: str | None = optional(None)
    last_reply: str = ""
    recent: tuple[Exchange, ...] = ()
    offered: tuple[str, ...] = ()
    invocations: dict[str, OpenInvocation] = Field(default_factory=dict)
    calls: dict[str, OpenCall] = Field(default_factory=dict)
    positions: dict[str, int] = Field(default_factory=dict)
    turns: int = 0

    def waiting(self) -> tuple[tuple[str, str, Await], ...]:
        """Open waits as (invocation id, agent, wait), newest invocation first."""
        newest = sorted(self.invocations.items(), key=lambda item: -item[1].began)
        return tuple((id_, agent, wait) for id_, open_ in newest for agent, wait in open_.waits)


class Session(Fact):
    """A session as of `revision`: a value; a store gives a new one with every append.

    epoch: counts the holders of the lease; an append with an older one is refused. revision: goes up with every append,
    0 = not stored yet. last_sequence: the newest event's number, 0 for an empty log. state: this session's keys;
    `app_state` and `user_state` hold the shared ones, without their prefix. As it was read: holder: who had the lease, None =
    nobody. queued: how many messages its inbox held. stop: the invocation that somebody wants stopped.
    """

    app: str
    user: str
    id: str
    epoch: int = 0
    revision: int = 0
    last_sequence: int = 0
    state: dict[str, JsonValue] = Field(default_factory=dict)
    app_state: dict[str, JsonValue] = Field(default_factory=dict)
    user_state: dict[str, JsonValue] = Field(default_factory=dict)
    head: Head = Head()
    holder: str | None = None
    queued: int = 0
    stop: str | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def held(self) -> bool:
        """Whether somebody had the lease when it was read."""
        return self.holder is not None

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.app, self.user, self.id)

    @property
    def merged_state(self) -> dict[str, JsonValue]:
        """The state of all scopes in one mapping, shared keys with their `app:` or `user:` prefix."""
        shared = {APP_PREFIX + key: value for key, value in self.app_state.items()}
        shared |= {USER_PREFIX + key: value for key, value in self.user_state.items()}
        return shared | self.state


class ScopedState(NamedTuple):
    """A state delta taken apart by scope, without prefixes; None values remove a key."""

    app: dict[str, JsonValue]
    user: dict[str, JsonValue]
    session: dict[str, JsonValue]


def split_state(delta: Mapping[str, JsonValue]) -> ScopedState:
    """Takes a delta apart by scope (behaviour A24). `temp:` keys are dropped: they live for one invocation only."""
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
    """The event as it is stored: without `temp:` keys."""
    if not any(key.startswith(TEMP_PREFIX) for key in event.actions.state_delta):
        return event
    kept = {key: value for key, value in event.actions.state_delta.items() if not key.startswith(TEMP_PREFIX)}
    return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": kept})})


def merge(state: Mapping[str, JsonValue], delta: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The state after a delta; a None value removes the key."""
    merged = {**state, **delta}
    return {key: value for key, value in merged.items() if value is not None}


def fold(session: Session, events: Iterable[Event]) -> Session:
    """The session after these events, which carry the sequence numbers that follow `last_sequence`.

    Revision and epoch are the store's and stay. A rewind cannot be folded onto a head: whoever appends one folds the
    visible log anew.
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
    return session.model_copy(
        update={
            "head": head,
            "state": state,
            "app_state": app_state,
            "user_state": user_state,
            "last_sequence": last,
            "updated_at": updated,
        }
    )


def visible(events: Iterable[Event]) -> list[Event]:
    """What rewinds leave of these stored events, in append order. They may be the whole log, or one invocation's."""
    kept: list[Event] = []
    hidden_from: float = inf
    for event in sorted(events, key=lambda event: -(event.sequence or 0)):
        if (event.sequence or 0) < hidden_from:
            kept.append(event)
        if event.actions.rewind is not None:
            hidden_from = min(hidden_from, event.actions.rewind.from_sequence)
    return kept[::-1]


def _fold_head(head: Head, event: Event, sequence: int) -> Head:
    changed: dict[str, object] = {}
    if event.actions.positions:
        changed["positions"] = head.positions | event.actions.positions
    if event.author == USER:
        changed |= _fold_message(head, event)
    elif not event.is_private:
        changed |= _fold_author(head, event, sequence)
    if event.content and (event.content.tool_calls or event.content.tool_results):
        changed["calls"] = _fold_calls(head.calls, event)
    changed["invocations"] = _fold_invocations(head.invocations, event, sequence)
    head = head.model_copy(update=changed)
    if event.actions.end and head.calls:
        open_ = {id_: call for id_, call in head.calls.items() if call.invocation_id != event.invocation_id}
        head = head.model_copy(update={"calls": open_})
    return head


def _fold_message(head: Head, event: Event) -> dict[str, object]:
    if event.content is None:
        return {}
    said = Exchange(message=event.text[:RECENT_CHARACTERS], before=head.last_reply[-RECENT_CHARACTERS:])
    selection = event.actions.selection
    last = selection.verdicts[-1] if selection and selection.verdicts else None
    offered = tuple(each.agent for each in last.candidates) if last and last.outcome == "clarify" else ()
    recent = (*head.recent, said)[-RECENT_MESSAGES:]
    return {"turns": head.turns + 1, "recent": recent, "offered": offered, "named_next": None}


def _shortened(text: str) -> str:
    """The end stays: a question to the user stands there."""
    if len(text) <= LAST_REPLY_CHARACTERS:
        return text
    half = LAST_REPLY_CHARACTERS // 2
    return f"{text[: half - len(_GAP)]}{_GAP}{text[-half:]}"


def _fold_author(head: Head, event: Event, sequence: int) -> dict[str, object]:
    authors = dict(head.authors)
    mark = authors.get(event.author, AuthorMark())
    changed: dict[str, object] = {"authors": authors}
    if event.speaks:
        authors[event.author] = mark.model_copy(update={"spoke": sequence})
        changed["active_agent"] = event.author
        changed["named_next"] = _named_next(head, event)
        if head.recent:
            changed["recent"] = (*head.recent[:-1], head.recent[-1].model_copy(update={"agent": event.author}))
        if text := event.text:
            changed["last_reply"] = _shortened(text)
    elif event.error:
        authors[event.author] = mark.model_copy(update={"failed": sequence})
    elif event.actions.blocked_by:
        authors[event.author] = mark.model_copy(update={"skipped": sequence})
    elif event.actions.end and max(mark.spoke, mark.failed) < _began(head, event):
        outcome = _silent_end(event.actions.end)
        authors[event.author] = mark.model_copy(update={outcome: sequence} if outcome else {})
    target = event.actions.transfer_to
    if target is not None:
        authors[target] = authors.get(target, AuthorMark()).model_copy(update={"handed": sequence})
    return changed


def _named_next(head: Head, event: Event) -> str | None:
    """The name that the author's last answer leaves for the next message. Whom it handed the floor to has its turn now; what
    is said below the holder of the floor, as in a team, belongs to that agent.
    """
    if event.actions.transfer_to is not None:
        return None
    if not event.is_answer:
        return head.named_next if event.author == head.active_agent else None
    return None if "/" in event.branch else event.actions.next or None


def _silent_end(end: End) -> str | None:
    """Which mark an end leaves whose author has not spoken; None when it was not the author's doing."""
    if end.reason == "completed":
        return "skipped"
    return None if end.reason in {"cancelled", "clarify"} else "failed"


def _began(head: Head, event: Event) -> int:
    open_ = head.invocations.get(event.invocation_id)
    return open_.began if open_ else 0


def _fold_calls(calls: Mapping[str, OpenCall], event: Event) -> dict[str, OpenCall]:
    assert event.content is not None
    opened = {
        call.call_id: OpenCall(agent=event.author, invocation_id=event.invocation_id, tool=call.tool, branch=event.branch)
        for call in event.content.tool_calls
    }
    answered = {result.call_id for result in event.content.tool_results}
    return {id_: call for id_, call in {**calls, **opened}.items() if id_ not in answered}


def _fold_invocations(invocations: Mapping[str, OpenInvocation], event: Event, sequence: int) -> dict[str, OpenInvocation]:
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
    changed: dict[str, object] = {"last": sequence, "attempt": event.attempt}
    if actions.transfer_to and not event.is_private:
        changed |= {"agent": actions.transfer_to, "turn": open_.turn + 1, "since": sequence}
    if actions.awaits:
        others_waits = tuple(wait for wait in open_.waits if wait[1].id != actions.awaits.id)
        changed |= {"state": "waiting", "waits": (*others_waits, (event.author, actions.awaits))}
    if actions.checkpoint:
        changed |= {"since": sequence, "settled": event.attempt - 1}
    if event.author == USER:
        results = event.content.tool_results if event.content else ()
        answered = {actions.answers} | {result.call_id for result in results}
        waits = tuple(wait for wait in open_.waits if wait[1].id not in answered)
        changed |= {"state": "running", "waits": waits, "since": sequence, "attempt": 1, "settled": 0}
    return others | {id_: open_.model_copy(update=changed)}
