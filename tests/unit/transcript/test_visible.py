"""What a view sees of the log, and which result belongs to which call."""

from dataclasses import replace

import pytest
from logs import asks, call, event, numbered, question, result
from pydantic import JsonValue

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Await, Branch, End, ErrorInfo, Event, Rewind, Summary
from turnwise.transcript.view import View, VisibleLog, visible_log

ME = View("a", Branch("1"), "i1")


def reading(*events: Event, view: View = ME) -> VisibleLog:
    return visible_log(numbered(events), view)


def texts(read_: VisibleLog) -> list[str]:
    return [read_.events[place].text for place in read_.order]


def results(read_: VisibleLog) -> list[object]:
    return [call.result and call.result.result for calls in read_.calls.values() for call in calls]


def test_what_failed_was_streamed_or_was_taken_back_is_gone() -> None:
    seen = reading(
        asks("hello"),
        event("a", "first try"),
        event("a", rewind=Rewind(from_sequence=2, invocation_id="i1"), attempt=2),
        event("a", "pie", partial=True),
        event("a", "broken", error=ErrorInfo(code="agent.failed", message="m")),
        event("a", "second try", attempt=2),
    )
    assert texts(seen) == ["hello", "second try"]


def test_branches_and_private_calls_are_respected() -> None:
    """A41: parallel children do not see each other, and nobody sees what was called in private."""
    seen = reading(
        asks("old", invocation="i0"),
        event("b", "secret", invocation="i0", branch="1/>b#1"),
        asks("hello"),
        event("a", "mine", branch="1/~a"),
        event("b", "the sibling's", branch="1/~b"),
        event("c", "called", branch="1/~a/>c#1"),
        view=View("a", Branch("1/~a"), "i1"),
    )
    assert texts(seen) == ["old", "hello", "mine"]


def test_only_what_is_foreign_by_agent_and_by_scope_is_hidden() -> None:
    """D7."""
    log = (
        event(USER, "user's", scope=("s2",)),
        event("a", "own", scope=("s2",)),
        event("b", "same", scope=("s1", "s2")),
        event("b", "general"),
        event("b", "foreign", scope=("s2",)),
    )
    assert texts(reading(*log, view=replace(ME, scopes=frozenset({"s1"})))) == ["user's", "own", "same", "general"]
    assert texts(reading(*log))[-1] == "foreign"


def test_a_label_stands_for_all_below_it() -> None:
    """D7: a flow within a flow has labels below its task's; one that only begins alike is another."""
    log = (
        asks("hi"),
        event("b", "task", scope=("f/t",)),
        event("b", "below", scope=("f/t/inner/u",)),
        event("b", "above", scope=("f",)),
        event("b", "beside", scope=("f/t2",)),
    )
    assert texts(reading(*log, view=replace(ME, scopes=frozenset({"f/t"})))) == ["hi", "task", "below"]
    assert texts(reading(*log, view=replace(ME, scopes=frozenset()))) == ["hi"]


def test_this_invocation_comes_last_even_if_another_ran_while_it_waited() -> None:
    seen = reading(
        asks("return"), event("a", "which?"), asks("weather?", invocation="i2"), event("b", "sunny", invocation="i2"),
        event(USER, "1001", answers="w"),
    )  # fmt: skip
    assert texts(seen) == ["weather?", "sunny", "return", "which?", "1001"]
    assert seen.current == 2


def test_results_find_their_calls_in_any_order() -> None:
    """D8: by id, author and invocation; the user may answer anybody's; the last result counts."""
    seen = reading(
        event("a", call("k1"), call("k2")),
        event("b", call("k1")),
        event("b", result("k2", "forged")),
        event("a", result("k2", "two")),
        event("a", result("k1", "begun")),
        event("a", result("k1", "one", tool="look")),
        event("b", result("k1", "b's")),
        event(USER, result("k2", "from outside")),
    )
    assert results(seen) == ["one", "from outside", "b's"]


def test_an_id_that_comes_again_is_another_call() -> None:
    seen = reading(event("a", call("k1")), event("a", result("k1", 1)), event("a", call("k1")), event("a", result("k1", 2)))
    assert results(seen) == [1, 2]


def test_questions_for_leave_are_nobodys_and_private_calls_only_their_callers() -> None:
    log = (
        event("a", call("k2", private=True), call("k3")),
        event("a", "May I?", question("k1", "k3"), awaits=Await(id="k1", kind="tool_result")),
        event(USER, result("k1", "yes", tool="confirm")),
    )
    assert [each.awaited for calls in reading(*log).calls.values() for each in calls] == [False, True]
    assert [each.part.call_id for calls in reading(*log).calls.values() for each in calls] == ["k2", "k3"]
    others = reading(*log, view=View("b", Branch("2"), "i1"))
    assert [each.part.call_id for calls in others.calls.values() for each in calls] == ["k3"]


@pytest.mark.parametrize(
    ("arguments", "private", "awaited"),
    [
        ({"call": "k3", "tool": "look"}, False, "k1"),
        ({"call": "k3", "tool": "look"}, True, "k2"),
        ({"call": "k3", "tool": "look"}, True, None),
        ({"call": ["k3"], "tool": "look"}, True, "k1"),
        ({"call": "k3"}, True, "k1"),
    ],
)
def test_a_tool_that_is_only_named_like_the_question_is_shown(
    arguments: dict[str, JsonValue], private: bool, awaited: str | None
) -> None:
    """D8: else its model would call it again and again."""
    part = ToolCallPart(call_id="k1", tool="confirm", arguments=arguments, private=private)
    asked = event("a", part, awaits=Await(id=awaited, kind="tool_result") if awaited else None)
    assert results(reading(asked, event("a", result("k1", "ok", tool="confirm")))) == ["ok"]


def test_a_call_that_waits_is_known_until_its_invocation_ends() -> None:
    waits = (event("a", call("k1"), call("k2"), awaits=Await(id="k1", kind="tool_result")),)
    assert [each.awaited for calls in reading(*waits).calls.values() for each in calls] == [True, False]
    ended = (*waits, event("a", "bye", end=End(reason="cancelled")))
    assert not any(each.awaited for calls in reading(*ended).calls.values() for each in calls)


def test_what_is_said_while_calls_run_stands_with_them() -> None:
    seen = reading(
        event("a", call("k1")), event("a", "working"), event(USER, "ok"), event("a", result("k1")), event("a", "done")
    )
    assert seen.interleaved == {0: [1]}
    assert texts(seen) == ["", "ok", "", "done"]


def test_it_knows_whether_the_invocations_beginning_is_there() -> None:
    assert reading(asks("hello")).begun
    assert not reading(event(USER, "reply", answers="w"), event(USER, result("k1"))).begun


def test_a_result_whose_call_may_stand_before_is_marked() -> None:
    assert reading(event("a", "so"), event("a", result("k1"))).dangling == 1
    assert reading(asks("hello"), event("a", result("k1"))).dangling is None


def test_the_last_summary_of_this_agent_counts() -> None:
    def made(by: str, **fields: object) -> Event:
        return event(by, summary=Summary(text="t", until=1), **fields)  # type: ignore[arg-type]

    assert reading(made("a"), made("a"), made("b")).summarized == 1
    assert reading(made("b"), made("a", branch="1/>x#1")).summarized is None
    assert visible_log([], ME).order == []
