from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head, OpenInvocation, Session
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.runner.message.open_invocations import message_of_orphan, orphan_end, orphan_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TREE = AgentTree([AgentCard(name="a")])


def session(**fields: Any) -> Session:
    fields.setdefault("head", Head(invocations={"i": OpenInvocation(agent="a", began=1, since=1, last=3)}))
    return Session(app="app", user="u", id="s", created_at=NOW, updated_at=NOW, **fields)


def test_a_running_invocation_is_an_orphan_when_nobody_holds_its_session() -> None:
    """Decision 6."""
    orphan = orphan_of(session())
    assert orphan is not None
    assert orphan.invocation_id == "i"
    assert orphan_of(session(holder="another")) is None
    assert orphan_of(session(holder="me"), me="me") is not None, "I gave it up when the store was away"


def test_waiting_invocations_are_left_alone() -> None:
    waits = Head(invocations={"i": OpenInvocation(state="waiting", agent="a", began=1)})
    assert orphan_of(session(head=waits)) is None


def test_an_orphan_is_run_again_up_to_the_limit_of_attempts() -> None:
    first, last = session(), session(head=Head(invocations={"i": OpenInvocation(agent="a", attempt=3)}))
    assert fate(first) is None
    assert fate(last) == "limit:attempts"


def test_what_was_to_be_stopped_is_not_run_again() -> None:
    assert fate(session(stop="i")) == "cancelled"
    assert fate(session(stop="another")) is None


def test_an_agent_that_is_gone_is_not_run_again() -> None:
    """Decision 10."""
    assert fate(session(head=Head(invocations={"i": OpenInvocation(agent="gone")}))) == "failed"


def test_what_was_asked_is_the_last_message_of_the_user() -> None:
    chosen = Actions(selection=Selection(agent="a", method="m", confidence=1.0, reason="r"))
    said = [("user", "hi"), ("a", "name?"), ("user", "Ada"), ("a", "thanks")]
    events = [event(str(n), author, text, actions=chosen) for n, (author, text) in enumerate(said)]
    asked = message_of_orphan(events)
    assert asked is not None
    assert asked.text == "Ada"
    assert message_of_orphan(events[1:2]) is None


def fate(of: Session) -> str | None:
    orphan = orphan_of(of)
    assert orphan is not None
    end = orphan_end(orphan, of, TREE, attempts=3)
    return end.reason if end else None


def event(id_: str, author: str, text: str, **fields: Any) -> Event:
    return Event(id=id_, author=author, invocation_id="i", created_at=NOW, content=text_content(text), **fields)
