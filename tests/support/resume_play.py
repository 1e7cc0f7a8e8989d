"""What tests of resuming share: trees of agents, logs that say who spoke, and the verdict on them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, ErrorInfo, Event
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import Head, Session, fold
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.eligibility import eligible
from turnwise.selection.resume import Resume
from turnwise.testing.selector_suite import request_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILURE = ErrorInfo(code="agent.failed", message="m")


def card(name: str, parent: str | None = "root", **fields: Any) -> AgentCard:
    return AgentCard(**{"name": name, "parent": parent, "kind": "llm", **fields})


def tree_of(*cards: AgentCard) -> AgentTree:
    return AgentTree([card("root", None), *cards])


ABC = tree_of(card("a"), card("b"), card("c"))


def event(author: str, text: str | None = None, *, invocation: str = "i1", **fields: Any) -> Event:
    error, branch = fields.pop("error", None), fields.pop("branch", "1")
    return Event(
        id="e",
        author=author,
        invocation_id=invocation,
        created_at=NOW,
        branch=branch,
        content=None if text is None else text_content(text, "user" if author == "user" else "agent"),
        actions=Actions(**fields),
        error=error,
    )


def asks(agent: str, invocation: str = "i1") -> Event:
    selection = Selection(agent=agent, method="m", confidence=1.0, reason="r")
    return event("user", "hi", invocation=invocation, selection=selection)


def says(agent: str, text: str = "words", invocation: str = "i1") -> Event:
    return event(agent, text, invocation=invocation)


def head_of(log: Sequence[Event]) -> Head:
    return fold(Session(app="p", user="u", id="s", created_at=NOW, updated_at=NOW), log).head


async def resumed(tree: AgentTree, log: Sequence[Event], **options: Any) -> Verdict:
    request = request_for(tree, "and now?", head=head_of(log))
    return await Resume(**options).select(replace(request, eligible=eligible(tree).continuing))


def passed(verdict: Verdict) -> list[tuple[str, str]]:
    return [(each.agent, each.rule) for each in verdict.passed_over]
