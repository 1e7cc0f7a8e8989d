"""The fold: a session's head and state as a function of its log."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.content import Content, TextPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.events import Actions, Await, Branch, End, ErrorInfo, Event, Rewind
from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.facts.sessions import (
    LAST_REPLY_CHARACTERS,
    OPEN_MATTER_CHARACTERS,
    OPEN_MATTERS,
    OPEN_MATTERS_BYTES,
    RECENT_CHARACTERS,
    RECENT_MESSAGES,
    AuthorMark,
    Exchange,
    Head,
    OpenCall,
    OpenMatter,
    Session,
    fold,
    merge,
    split_state,
    storable,
    visible,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY = AuthorMark()


def empty(**fields: Any) -> Session:
    return Session(app="app", user="u", id="s", created_at=NOW, updated_at=NOW, **fields)


def selected(agent: str) -> Selection:
    return Selection(agent=agent, method="m", confidence=1.0, reason="r")


def event(author: str, text: str | None = None, *, invocation: str = "i1", branch: str = "1", **fields: Any) -> Event:
    """An event; keywords that are no fields of Event are actions."""
    own = {key: fields.pop(key) for key in ("content", "error") if key in fields}
    if text is not None:
        own["content"] = text_content(text, "user" if author == "user" else "agent")
    return Event(
        id="e", author=author, invocation_id=invocation, created_at=NOW, branch=Branch(branch), actions=Actions(**fields), **own
    )


def asks(agent: str, text: str = "hi", invocation: str = "i1") -> Event:
    return event("user", text, invocation=invocation, selection=selected(agent))


def head_of(events: Sequence[Event]) -> Head:
    return fold(empty(), events).head


FAILURE = ErrorInfo(code="agent.failed", message="m")

AUTHORS = st.sampled_from(["a", "b", "c"])
INVOCATIONS = st.sampled_from(["i1", "i2", "i3"])
KEYS = st.sampled_from(["k", "app:k", "user:k", "temp:k"])


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Any log, plausible or not: a fold must stand all of them."""
    log = []
    for _ in range(draw(st.integers(0, 12))):
        invocation, author = draw(INVOCATIONS), draw(AUTHORS)
        kinds = [
            asks(author, invocation=invocation),
            event("user", "reply", invocation=invocation, answers="w"),
            event("user", None, invocation=invocation, answers="w"),
            event(author, "text", invocation=invocation),
            event(author, "private", invocation=invocation, branch="1/>x"),
            event(author, None, invocation=invocation, error=FAILURE),
            event(author, "no", invocation=invocation, blocked_by="g"),
            event(author, None, invocation=invocation, transfer_to="b"),
            event(author, "?", invocation=invocation, awaits=Await(id="w")),
            event(author, None, invocation=invocation, end=End()),
            event(author, "bye", invocation=invocation, end=End(reason="cancelled")),
            event(author, None, invocation=invocation, state_delta={draw(KEYS): draw(st.none() | st.integers(0, 3))}),
            event(author, None, invocation=invocation, positions={"iterative": 2}),
            event(author, None, invocation=invocation, content=Content(parts=(ToolCallPart(call_id="w", tool="t"),))),
            event("user", None, invocation=invocation, content=Content(role="user", parts=(ToolResultPart(call_id="w"),))),
        ]
        log.append(draw(st.sampled_from(kinds)))
    return log


@given(logs(), st.integers(0, 12))
@settings(max_examples=100)
def test_folding_in_two_steps_is_folding_at_once(log: list[Event], cut: int) -> None:
    assert fold(fold(empty(), log[:cut]), log[cut:]) == fold(empty(), log)


@given(logs())
@settings(max_examples=60)
def test_the_head_survives_a_round_trip(log: list[Event]) -> None:
    session = fold(empty(), log)
    assert Session.model_validate_json(session.model_dump_json()) == session


@given(logs())
@settings(max_examples=60)
def test_the_fold_changes_nothing_it_is_given(log: list[Event]) -> None:
    before = empty()
    kept = before.model_dump_json()
    fold(before, log)
    assert before.model_dump_json() == kept


@given(logs())
@settings(max_examples=100)
def test_what_always_holds_of_a_head(log: list[Event]) -> None:
    session = fold(empty(), log)
    head = session.head
    assert session.last_sequence == len(log)
    assert "user" not in head.authors
    assert head.active_agent is None or head.active_agent in head.authors
    for mark in head.authors.values():
        assert max(mark.spoke, mark.handed, mark.failed, mark.skipped) <= len(log)
    for open_ in head.invocations.values():
        assert 1 <= open_.began <= len(log)
        assert open_.turn >= 1
    assert set(head.invocations) <= {e.invocation_id for e in log if e.actions.selection}
    if log and log[-1].actions.end:
        over = log[-1].invocation_id
        assert over not in head.invocations
        assert over not in {call.invocation_id for call in head.calls.values()}


def test_the_head_does_not_grow_with_the_log() -> None:
    """A9: what a decision reads has a size that depends on the agents, not on the turns."""

    def turns(count: int) -> Head:
        log = [e for i in range(count) for e in (asks("a", invocation=f"i{i}"), event("a", "x", invocation=f"i{i}", end=End()))]
        return head_of(log)

    assert len(turns(500).model_dump_json()) - len(turns(10).model_dump_json()) < 20


def test_sequence_numbers_come_from_the_events_or_follow_on() -> None:
    numbered = event("a", "x").replace(sequence=41)
    session = fold(empty(last_sequence=40), [numbered, event("b", "y")])
    assert session.last_sequence == 42
    assert session.head.authors["a"].spoke == 41
    assert session.head.authors["b"].spoke == 42


def test_the_last_reply_is_what_was_said_last_and_is_cut() -> None:
    head = head_of([asks("a"), event("a", "x" * 5_000), event("b", None, transfer_to="a")])
    assert set(head.last_reply) == set("x …")
    assert len(head.last_reply) == LAST_REPLY_CHARACTERS
    assert head.active_agent == "b"


def test_of_a_long_reply_the_beginning_and_the_end_are_kept() -> None:
    """C9: what an agent asks at the end of a long answer was asked."""
    head = head_of([asks("a"), event("a", "Well. " + "x" * 5_000 + " Which one?")])
    assert head.last_reply.startswith("Well. ")
    assert head.last_reply.endswith("x Which one?")


def test_recent_messages_are_the_last_few_with_who_answered_them() -> None:
    """C9: a follow-up is judged with what was said before."""
    log = [asks("a", "one"), event("a", "x"), asks("b", "two"), event("b", "y" * 9), asks("b", "z" * 1_000, invocation="i2")]
    recent = head_of(log).recent
    assert recent == (
        Exchange(message="one", agent="a"),
        Exchange(message="two", agent="b", before="x"),
        Exchange(message="z" * RECENT_CHARACTERS, before="y" * 9),
    )
    later = head_of([*log, *(asks("c", f"{number}", invocation=f"i{number}") for number in range(3, 7))]).recent
    assert len(later) == RECENT_MESSAGES
    assert [exchange.message for exchange in later] == ["two", "z" * RECENT_CHARACTERS, "3", "4", "5", "6"]


def test_of_what_was_said_before_a_message_the_end_is_kept() -> None:
    """C9: that is where the question stands."""
    log = [asks("a", "one"), event("a", "x" * 500 + " And your name?"), asks("a", "Ann", invocation="i2")]
    assert head_of(log).recent[-1].before == "x" * (RECENT_CHARACTERS - 15) + " And your name?"


def test_a_matter_that_is_left_stays_open_until_its_agent_answers_again() -> None:
    """C9: with the end of what the agent said last; an agent that goes on leaves nothing."""
    log = [asks("a"), event("a", "x" * 300 + " Which one?"), asks("a"), event("a", "And when?")]
    assert head_of(log).matters == ()
    log += [asks("b"), event("b", "It is open.")]
    assert head_of(log).matters == (OpenMatter(agent="a", said="And when?"),)
    log += [asks("c"), event("c", "y" * 300)]
    assert [each.agent for each in head_of(log).matters] == ["a", "b"]
    log += [asks("a"), event("a", "At nine, then.")]
    assert head_of(log).matters == (
        OpenMatter(agent="b", said="It is open."),
        OpenMatter(agent="c", said="y" * OPEN_MATTER_CHARACTERS),
    )


def test_an_agent_that_hands_the_conversation_over_leaves_nothing_open() -> None:
    """C9"""
    log = [asks("a"), event("a", "Billing can do that.", transfer_to="b"), event("b", "Hello.")]
    assert head_of(log).matters == ()


@pytest.mark.parametrize("said", ["z" * 400, "ü" * 400, "short?", '"' * 400])
def test_open_matters_are_bounded(said: str) -> None:
    """C9: in number, and in bytes; the latest are kept."""
    log = [each for number in range(20) for each in (asks(f"a{number}"), event(f"a{number}", said))]
    kept = head_of(log).matters
    assert 2 <= len(kept) <= OPEN_MATTERS
    assert kept[-1].agent == "a18"
    assert sum(len(each.model_dump_json().encode()) for each in kept) <= OPEN_MATTERS_BYTES


def test_what_a_clarifying_question_offered_is_known_until_the_next_message() -> None:
    """E5: the answer is resolved against what was offered, and only the very next message is such an answer."""
    offers = Verdict(
        selector="clarify", outcome="clarify", candidates=(Candidate(agent="b", score=0.5), Candidate(agent="a", score=0.4))
    )
    asked = selected("root").replace(outcome="clarify", verdicts=(offers,))
    log = [event("user", "hm", selection=asked), event("root", "Which one?", end=End(reason="clarify"))]
    assert head_of(log).offered == ("b", "a")
    assert head_of([*log, asks("b", "the first", invocation="i2")]).offered == ()
    assert head_of([event("user", "hm", selection=asked.replace(verdicts=()))]).offered == ()


def test_turns_count_messages() -> None:
    head = head_of([asks("a"), event("a", "x"), event("user", None, answers="w"), asks("a", invocation="i2")])
    assert head.turns == 2


class TestAuthors:
    """A9, A10, A11: the marks that the resume rule reads."""

    def test_saying_something(self) -> None:
        """A9"""
        assert head_of([asks("a"), event("a", "x")]).authors == {"a": AuthorMark(spoke=2)}

    def test_handing_on_marks_both(self) -> None:
        head = head_of([asks("a"), event("a", None, transfer_to="b")])
        assert head.authors == {"a": AuthorMark(spoke=2), "b": AuthorMark(handed=2)}
        assert head.invocations["i1"].agent == "b"
        assert head.invocations["i1"].turn == 2

    def test_an_error_is_no_word(self) -> None:
        """A10"""
        head = head_of([asks("a"), event("a", "oh", error=FAILURE)])
        assert head.authors == {"a": AuthorMark(failed=2)}
        assert head.active_agent is None

    def test_a_blocked_answer_is_no_word(self) -> None:
        """A10"""
        assert head_of([asks("a"), event("a", "oh", blocked_by="g")]).authors == {"a": AuthorMark(skipped=2)}

    def test_an_end_without_a_word_is_a_skip(self) -> None:
        assert head_of([asks("a"), event("a", None, end=End())]).authors == {"a": AuthorMark(skipped=2)}

    def test_an_end_after_a_word_is_none(self) -> None:
        log = [asks("a"), event("a", "x"), event("a", None, end=End())]
        assert head_of(log).authors == {"a": AuthorMark(spoke=2)}

    def test_a_word_of_an_earlier_message_does_not_count_for_this_one(self) -> None:
        log = [asks("a"), event("a", "x", end=End()), asks("a", invocation="i2"), event("a", None, invocation="i2", end=End())]
        assert head_of(log).authors == {"a": AuthorMark(spoke=2, skipped=4)}

    def test_a_failure_and_then_the_end_are_one_failure(self) -> None:
        log = [asks("a"), event("a", None, error=FAILURE), event("a", None, end=End(reason="failed"))]
        assert head_of(log).authors == {"a": AuthorMark(failed=2)}

    @pytest.mark.parametrize(
        ("reason", "mark"),
        [
            ("cancelled", NOBODY),
            ("clarify", NOBODY),
            ("limit:invocation_seconds", AuthorMark(failed=2)),
            ("failed", AuthorMark(failed=2)),
        ],
    )
    def test_an_end_that_is_no_choice_of_the_author_is_no_skip(self, reason: str, mark: AuthorMark) -> None:
        assert head_of([asks("a"), event("a", None, end=End(reason=reason))]).authors["a"] == mark

    def test_private_events_mark_nobody(self) -> None:
        log = [asks("a"), event("b", "x", branch="1/>b#1"), event("b", None, branch="1/>b#1", transfer_to="c")]
        head = head_of(log)
        assert head.authors == {}
        assert head.invocations["i1"].agent == "a"


class TestInvocations:
    def test_a_message_opens_and_an_end_closes(self) -> None:
        assert head_of([asks("a")]).invocations["i1"].agent == "a"
        assert head_of([asks("a"), event("a", "x", end=End())]).invocations == {}

    def test_a_question_waits_until_it_is_answered(self) -> None:
        """A42"""
        waiting = [asks("a"), event("a", "?", awaits=Await(id="w1"))]
        open_ = head_of(waiting).invocations["i1"]
        assert (open_.state, open_.waits) == ("waiting", (("a", Await(id="w1")),))
        answered = head_of([*waiting, event("user", "yes", selection=selected("a"), answers="w1")]).invocations["i1"]
        assert (answered.state, answered.waits, answered.began) == ("running", (), 1)

    def test_another_message_leaves_the_wait_open(self) -> None:
        """A42"""
        head = head_of([asks("a"), event("a", "?", awaits=Await(id="w1")), asks("b", invocation="i2")])
        assert head.invocations["i1"].state == "waiting"
        assert head.invocations["i2"].state == "running"

    def test_a_tool_result_answers_its_wait(self) -> None:
        """A6, A42"""
        call = Content(parts=(ToolCallPart(call_id="c1", tool="t"),))
        log = [asks("a"), event("a", content=call, awaits=Await(id="c1", kind="tool_result"))]
        assert head_of(log).calls == {"c1": OpenCall(agent="a", invocation_id="i1", tool="t", branch=Branch("1"))}
        result = Content(role="user", parts=(ToolResultPart(call_id="c1", result=1),))
        head = head_of([*log, event("user", content=result)])
        assert head.calls == {}
        assert head.invocations["i1"].waits == ()

    def test_a_wait_announced_twice_is_one(self) -> None:
        log = [asks("a"), event("a", "?", awaits=Await(id="w1")), event("b", "?", awaits=Await(id="w2"))]
        head = head_of([*log, event("a", "?", awaits=Await(id="w1"))])
        assert [wait.id for _, wait in head.invocations["i1"].waits] == ["w2", "w1"]

    def test_waiting_lists_the_newest_invocation_first(self) -> None:
        log = [
            asks("a"),
            event("a", "?", awaits=Await(id="w1")),
            asks("b", invocation="i2"),
            event("b", "?", invocation="i2", awaits=Await(id="w2")),
        ]
        assert [(id_, agent, wait.id) for id_, agent, wait in head_of(log).waiting()] == [("i2", "b", "w2"), ("i1", "a", "w1")]

    def test_an_end_forgets_the_calls_of_its_invocation(self) -> None:
        calls = Content(parts=(ToolCallPart(call_id="c1", tool="t"), ToolCallPart(call_id="c2", tool="t")))
        log = [asks("a"), event("a", content=calls), asks("b", invocation="i2")]
        other = event("b", content=Content(parts=(ToolCallPart(call_id="c3", tool="t"),)), invocation="i2")
        cancelled = Content(parts=(ToolResultPart(call_id="c1", failed=True),))
        head = head_of([*log, other, event("a", content=cancelled, end=End(reason="cancelled"))])
        assert list(head.calls) == ["c3"]


class TestState:
    """A24"""

    def test_a_delta_is_taken_apart_by_scope(self) -> None:
        """A24"""
        scoped = split_state({"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4, "other:o": 5})
        assert scoped == ({"a": 1}, {"u": 2}, {"s": 3, "other:o": 5})

    def test_none_removes_a_key(self) -> None:
        assert merge({"a": 1, "b": 2}, {"a": None, "c": 3, "d": None}) == {"b": 2, "c": 3}

    def test_it_is_read_back_merged_with_prefixes(self) -> None:
        """A24"""
        session = fold(empty(), [event("a", None, state_delta={"app:x": 1, "user:x": 2, "x": 3, "temp:x": 4})])
        assert session.merged_state == {"app:x": 1, "user:x": 2, "x": 3}

    def test_temp_is_not_stored(self) -> None:
        """A24"""
        made = event("a", "x", state_delta={"temp:x": 1, "y": 2})
        assert storable(made).actions.state_delta == {"y": 2}
        assert made.actions.state_delta == {"temp:x": 1, "y": 2}
        without = event("a", "x", state_delta={"y": 2})
        assert storable(without) is without


def test_positions_are_kept_by_key() -> None:
    """B3"""
    head = head_of([event("user", "x", positions={"a": 1, "b": 2}), event("user", "x", positions={"a": 2})])
    assert head.positions == {"a": 2, "b": 2}


def test_the_time_is_the_last_events() -> None:
    later = event("a", "x").replace(created_at=NOW + timedelta(hours=1))
    assert fold(empty(), [event("a", "x"), later]).updated_at == NOW + timedelta(hours=1)


def test_parts_that_are_not_text_do_not_change_the_last_reply() -> None:
    content = Content(parts=(TextPart(text=""), ToolCallPart(call_id="1", tool="t")))
    assert head_of([asks("a"), event("a", "said"), event("a", content=content)]).last_reply == "said"


def rewound(sequence: int, from_sequence: int) -> Event:
    taken = Rewind(from_sequence=from_sequence, invocation_id="i1")
    return event("a", rewind=taken).replace(sequence=sequence)


def plain(sequence: int) -> Event:
    return event("a", "x").replace(sequence=sequence)


def test_what_rewinds_hide_is_not_visible_nested_ones_too() -> None:
    """A44; a rewind that is hidden itself still hides."""
    log = [plain(1), plain(2), plain(3), rewound(4, 2), plain(5), rewound(6, 4), plain(7)]
    assert [e.sequence for e in visible(log)] == [1, 6, 7]
    assert visible([]) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=12))
def test_visible_is_what_setting_hidden_flags_one_by_one_leaves(steps: list[tuple[bool, int]]) -> None:
    """A44: as a store does it, with every append."""
    log, hidden = [], set[int]()
    for sequence, (rewinds, back_to) in enumerate(steps, 1):
        log.append(rewound(sequence, min(back_to, sequence)) if rewinds else plain(sequence))
        if rewinds:
            hidden |= set(range(min(back_to, sequence), sequence))
    assert [e.sequence for e in visible(log)] == [e.sequence for e in log if e.sequence not in hidden]


def test_an_open_invocation_knows_where_its_turn_began_and_its_attempt() -> None:
    """Decision 6: what a new attempt takes back is what stands above `since`."""
    log = [
        event("user", "hi", selection=selected("a")),
        event("a", "one moment"),
        event("a", transfer_to="b"),
        event("b", "working"),
        event("b", rewind=Rewind(from_sequence=4, invocation_id="i1")).replace(attempt=2),
    ]
    numbered = [e.replace(sequence=number) for number, e in enumerate(log, 1)]
    states = [fold(empty(), numbered[:count]).head.invocations["i1"] for count in (1, 2, 3, 4)]
    assert [(open_.since, open_.turn, open_.agent) for open_ in states] == [(1, 1, "a"), (1, 1, "a"), (3, 2, "b"), (3, 2, "b")]
    again = fold(fold(empty(), numbered[:3]), numbered[4:]).head.invocations["i1"]
    assert (again.since, again.attempt, again.turn) == (3, 2, 2)
    reply = event("user", "go on", selection=selected("b"))
    assert fold(fold(empty(), numbered[:4]), [reply]).head.invocations["i1"].attempt == 1


@pytest.mark.parametrize(
    ("after", "named"),
    [
        ([], "b"),
        ([event("a", content=Content(parts=(ToolResultPart(call_id="c", result=1),)))], "b"),
        ([event("a", "and more")], None),
        ([event("a", "or rather", next="c")], "c"),
        ([event("a", "or nobody", next="")], None),
        ([event("a", transfer_to="b")], None),
        ([event("b", "said below", branch="1/b", next="a")], None),
        ([event("z", content=Content(parts=(ToolCallPart(call_id="c", tool="t"),)))], None),
        ([event("b", "in private", branch="1/>b#1", next="a")], "b"),
        ([event("a", error=ErrorInfo(code="agent.failed", message="away"))], "b"),
        ([event("user", "next one", selection=selected("b"), invocation="i2")], None),
    ],
)
def test_the_head_keeps_whom_the_last_answer_named(after: list[Event], named: str | None) -> None:
    """B4, B6: for one message, and only until the floor goes to it."""
    log = [asks("a"), event("a", "on", next="b"), *after]
    assert head_of(log).named_next == named


def test_a_head_without_open_matters_is_stored_as_before() -> None:
    """A rewind folds the visible log again, so it forgets what was left since."""
    log = [asks("a"), event("a", "Which one?")]
    assert "matters" not in head_of(log).model_dump_json()
    left = head_of([*log, asks("b"), event("b", "Open.")])
    assert Head.model_validate_json(left.model_dump_json()) == left


def test_a_head_from_before_tags_were_kept_still_opens() -> None:
    """Decision 12: and one that names nobody is written as it always was."""
    old = '{"authors":{"a":{"spoke":2,"handed":0,"failed":0,"skipped":0}},"active_agent":"a","last_reply":"on","turns":1}'
    assert Head.model_validate_json(old).named_next is None
    assert "named_next" not in head_of([asks("a"), event("a", "done")]).model_dump_json()
    kept = head_of([asks("a"), event("a", "on", next="Self")])
    assert Head.model_validate_json(kept.model_dump_json()) == kept
