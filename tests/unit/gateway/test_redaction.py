"""What users are shown of the records, and what is for operators alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.agents.approval import CONFIRM
from turnwise.facts.callers import Caller
from turnwise.facts.content import (
    Content,
    DataPart,
    Part,
    Seal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    text_content,
)
from turnwise.facts.events import USER, Actions, Await, Branch, End, ErrorInfo, Event, JobRequest, StepRecord, Summary
from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict
from turnwise.facts.sessions import Session
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.redaction import FAILED, Redactor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TREE = AgentTree(
    [AgentCard(name="desk"), AgentCard(name="open", parent="desk"), AgentCard(name="vault", parent="desk", roles=("staff",))]
)
USERS = Caller(id="u", user="ann")
STAFF = Caller(id="s", user="sue", agent_roles=("staff",))
OPERATOR = Caller(id="o", role="operator")


def event(*parts: Part, author: str = "desk", branch: str = "1", partial: bool = False, **actions: Any) -> Event:
    return Event(
        id="e",
        author=author,
        invocation_id="i",
        created_at=NOW,
        content=Content(parts=parts) if parts else None,
        actions=Actions(**actions),
        branch=Branch(branch),
        partial=partial,
    )


def shown(given: Event, caller: Caller = USERS) -> Event:
    return Redactor(caller, TREE).event(given)


def parts_of(given: Event) -> tuple[Part, ...]:
    content = shown(given).content
    return content.parts if content else ()


CALL = ToolCallPart(call_id="c", tool="find", arguments={"secret": 1}, seal=Seal(provider="p"))


@pytest.mark.parametrize("caller", [OPERATOR, Caller(id="a", role="admin")])
def test_operators_see_everything(caller: Caller) -> None:
    whole = event(
        ThinkingPart(text="hm"), CALL, state_delta={"app:x": 1}, steps=(StepRecord(key="k"),), brief=text_content("b")
    )
    assert shown(whole, caller) is whole


def test_what_is_thought_and_private_is_not_shown() -> None:
    text = TextPart(text="hello")
    private = DataPart(data={"x": 1}, private=True)
    assert parts_of(event(ThinkingPart(text="hm"), text, private)) == (text,)
    assert shown(event(ThinkingPart(text="hm"))).content is None


def test_of_a_tool_its_name_is_shown_and_neither_arguments_nor_result() -> None:
    result = ToolResultPart(call_id="c", tool="find", result={"row": 1}, failed=True)
    assert parts_of(event(CALL, result)) == (
        ToolCallPart(call_id="c", tool="find"),
        ToolResultPart(call_id="c", tool="find", failed=True),
    )
    assert parts_of(event(CALL.replace(private=True))) == ()


def test_a_call_that_waits_for_the_user_is_shown_whole() -> None:
    """A42. One that waits for somebody else is as any other."""
    asked = ToolCallPart(call_id="c-ok", tool=CONFIRM, arguments={"tool": "find", "call": "c"}, private=True)
    assert parts_of(event(asked, awaits=Await(id="c-ok", kind="tool_result"))) == (asked,)
    assert parts_of(event(CALL, awaits=Await(id="c", kind="tool_result"))) == (ToolCallPart(call_id="c", tool="find"),)
    offered = CALL.replace(offered=True)
    assert parts_of(event(offered)) == (offered,)


def test_pieces_of_a_call_are_not_shown() -> None:
    piece = ToolCallPart(call_id="c", tool="find", raw='{"secr')
    assert shown(event(piece, partial=True)).content is None


def test_what_a_provider_wants_back_is_not_shown() -> None:
    assert parts_of(event(TextPart(text="hi", seal=Seal(provider="p", data={"x": 1})))) == (TextPart(text="hi"),)


def test_what_is_asked_in_private_is_not_shown_unless_it_asks_the_user() -> None:
    assert shown(event(TextPart(text="psst"), branch="1/>vault")).content is None
    asked = event(TextPart(text="Which?"), branch="1/>vault", awaits=Await(id="w"))
    assert shown(asked).text == "Which?"


def test_what_users_said_is_shown_as_they_said_it() -> None:
    said = event(ToolResultPart(call_id="c", result=5), author=USER)
    assert shown(said).content == said.content


def test_of_the_actions_users_see_no_records_and_no_state_of_the_app() -> None:
    whole = event(
        TextPart(text="x"),
        state_delta={"app:n": 1, "user:n": 2, "n": 3},
        state_before={"app:n": 0, "n": None},
        steps=(StepRecord(key="k", state_delta={"app:n": 1}),),
        brief=text_content("told"),
        summary=Summary(text="so far", until=1),
        jobs=(JobRequest(kind="summary", until=1),),
        next="Vault",
        transfer_to="open",
    )
    actions = shown(whole).actions
    assert actions == Actions(state_delta={"user:n": 2, "n": 3}, state_before={"n": None}, transfer_to="open")


def test_what_an_agent_raised_is_not_shown() -> None:
    failed = event(end=End(reason="failed", detail="password=x")).replace(
        error=ErrorInfo(code="agent.failed", message="password=x")
    )
    seen = shown(failed)
    assert seen.error == ErrorInfo(code="agent.failed", message=FAILED)
    assert seen.actions.end == End(reason="failed", detail=FAILED)
    late = End(reason="limit:steps", detail="Too many.")
    assert Redactor(USERS, TREE).end(late) == late


def test_agents_out_of_reach_are_taken_out_of_a_selection() -> None:
    """C20."""
    verdict = Verdict(
        selector="s",
        outcome="clarify",
        candidates=(
            Candidate(agent="vault", score=0.9),
            Candidate(agent="open", score=0.8),
            Candidate(agent="gone", score=0.1),
        ),
        passed_over=(Exclusion(agent="vault", rule="r"),),
        also=("vault", "open"),
    )
    selection = Selection(
        agent="open",
        method="m",
        confidence=1.0,
        reason="",
        verdicts=(verdict,),
        excluded=(Exclusion(agent="vault", rule="roles"), Exclusion(agent="open", rule="resting")),
        excluded_count=60,
    )
    seen = Redactor(USERS, TREE).selection(selection)
    assert [each.agent for each in seen.verdicts[0].candidates] == ["open", "gone"]
    assert seen.verdicts[0].also == ("open",)
    assert seen.verdicts[0].passed_over == ()
    # Of those that are counted and not listed nobody knows how many the user would know of.
    assert ([each.agent for each in seen.excluded], seen.excluded_count) == (["open"], 1)
    known = selection.replace(excluded_count=2)
    assert Redactor(STAFF, TREE).selection(selection) == known
    assert Redactor(OPERATOR, TREE).selection(selection) is selection
    assert shown(event(author=USER, selection=selection)).actions.selection == seen


def test_what_a_selection_says_of_agents_out_of_reach_is_taken_out() -> None:
    """C20."""
    verdict = Verdict(
        selector="s",
        reason="vault, who would answer, may not be chosen.",
        question="open or vault?",
        candidates=(
            Candidate(agent="open", score=0.8, evidence="as vault's"),
            Candidate(agent="desk", score=0.1, evidence="x"),
        ),
        passed_over=(Exclusion(agent="open", rule="forbidden", detail="forbidden by vault"),),
        ignored=("direct_agent_id 'vault': it is open to staff only",),
    )
    reason = "Nothing pointed to another agent, so desk takes it: vault may not be chosen."
    selection = Selection(agent="desk", method="default_fallback", confidence=0.6, reason=reason, verdicts=(verdict,))
    seen = Redactor(USERS, TREE).selection(selection)
    assert "vault" not in seen.model_dump_json()
    assert seen.reason == "It was chosen by default_fallback."
    assert [(each.agent, each.evidence) for each in seen.verdicts[0].candidates] == [("open", ""), ("desk", "x")]
    kept = selection.replace(reason="The vaulting horse of desk.")
    assert Redactor(USERS, TREE).selection(kept).reason == kept.reason


def test_the_state_that_all_users_share_is_for_operators() -> None:
    session = Session(
        app="a", user="ann", id="s", created_at=NOW, updated_at=NOW, state={"n": 1}, app_state={"x": 1}, user_state={"y": 2}
    )
    assert Redactor(USERS, TREE).state(session) == {"n": 1, "user:y": 2}
    assert Redactor(OPERATOR, TREE).state(session) == {"n": 1, "user:y": 2, "app:x": 1}


def test_who_is_reached() -> None:
    """C20."""
    reach = {name: [Redactor(caller, TREE).reaches(name) for caller in (USERS, STAFF, OPERATOR)] for name in ("open", "vault")}
    assert reach == {"open": [True, True, True], "vault": [False, True, True]}
    assert Redactor(Caller(id="x", agent_roles=None), TREE).reaches("vault")
    assert Redactor(USERS, TREE).reaches("who left long ago")
