"""The transcript as a whole: what must hold for every log, view and budget (behaviours D7, D8, D9, A41)."""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, note, settings, strategies as st
from logs import asks, call, event, is_question, log_of, numbered, opening_of, result, view_of

from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.events import USER, Branch, End, Event, Summary
from turnwise.facts.sessions import visible
from turnwise.transcript.compile import compile_transcript, problems, reaches_far_enough
from turnwise.transcript.fences import fenced
from turnwise.transcript.view import Budget, View

PLENTY = Budget(10_000_000, 10_000)
SEEDS = st.integers(0, 2**64)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
WORD = re.compile(r"\bw\d+[a-z]?\d?\b")
MARK = re.compile(r"[<\uff1c]\W*said\b", re.IGNORECASE)


class Situation(NamedTuple):
    log: list[Event]
    view: View
    opening: Content
    budget: Budget

    def __repr__(self) -> str:
        log = [each.model_dump_json(exclude_defaults=True) for each in self.log]
        shown = "\n".join([*log, str(self.view), repr(self.opening), str(self.budget)])
        return re.sub(r"(.{1,5}?)\1{20,}", r"\1…", shown)


def situation(seed: int) -> Situation:
    chance = Random(seed)
    log = log_of(chance)
    view = view_of(chance, log)
    budget = Budget(
        chance.choice([chance.randint(0, 400), chance.randint(0, 20_000)]), chance.choice([chance.randint(0, 12), 10_000])
    )
    made = Situation(log, view, opening_of(chance, log, view), budget)
    note(repr(made))
    return made


def words(value: Any) -> list[str]:
    """The words by which texts of a generated log can be told, in the order they stand in anything."""
    if isinstance(value, str):
        return WORD.findall(value)
    if isinstance(value, dict):
        return words(list(value.values()))
    if isinstance(value, list | tuple):
        return [word for item in value for word in words(item)]
    return words(value.model_dump()) if hasattr(value, "model_dump") else []


def parts_of(content: Content | None, *kinds: type) -> list[Any]:
    return [part for part in content.parts if isinstance(part, kinds)] if content else []


def reaches(view: View, each: Event) -> bool:
    """Whether an agent's history holds it."""
    same = each.invocation_id == view.invocation_id
    return Branch(view.branch).sees(Branch(each.branch)) if same else not each.is_private


def seen(log: Sequence[Event], view: View) -> Iterator[Event]:
    """By the words of the behaviours: what the view may see of a log."""
    for each in visible(each for each in log if not each.partial):
        foreign = each.author not in (USER, view.agent)
        if each.error or not reaches(view, each):
            continue
        at_or_below = [f"{label}/".startswith(f"{scope}/") for label in each.scope for scope in view.scopes or ()]
        if foreign and view.scopes is not None and each.scope and not any(at_or_below):
            continue
        yield each


def may_show(case: Situation) -> set[str]:
    """The words that may be shown: of what is seen, less private calls of others, questions for leave, and their results."""
    log, view, opening, _ = case
    shown, called = set(words(opening)), set()
    for each in seen(log, view):
        own = each.author == view.agent
        for part in each.content.parts if each.content and not asks_leave(each) else ():
            if isinstance(part, ToolCallPart):
                if part.private and not own:
                    continue
                called.add((each.invocation_id, part.call_id))
            elif isinstance(part, ToolResultPart):
                if (each.invocation_id, part.call_id) not in called:
                    continue
            elif isinstance(part, ThinkingPart) and not is_of_run(each, view):
                continue
            shown.update(words(part))
        brief, summary = each.actions.brief, each.actions.summary
        if brief is not None and (each.author == USER or (each.actions.transfer_to == view.agent and not own)):
            shown.update(words(brief))
        if summary is not None and own:
            shown.update(words(summary))
    return shown


def asks_leave(each: Event) -> bool:
    return any(is_question(part) for part in parts_of(each.content, ToolCallPart))


def is_of_run(each: Event, view: View) -> bool:
    return (each.invocation_id, each.branch, each.author) == (view.invocation_id, view.branch, view.agent)


@given(SEEDS)
@settings(max_examples=150, deadline=None, phases=UNSHRUNK)
def test_every_transcript_is_valid_and_within_the_budget(seed: int) -> None:
    """D9."""
    case = situation(seed)
    made = compile_transcript(*case)
    assert problems(made.messages) == []
    assert made.tokens <= max(case.budget.tokens, compile_transcript(*case[:3], Budget(0, 0)).tokens)
    assert compile_transcript(*case) == made


@given(SEEDS)
@settings(max_examples=150, deadline=None, phases=UNSHRUNK)
def test_nothing_foreign_is_the_agents_own_and_nothing_hidden_is_shown(seed: int) -> None:
    """D7, D8, A41."""
    case = situation(seed)
    own = {word for each in case.log if each.author == case.view.agent for word in words(each.content)}
    allowed = may_show(case)
    for budget in (case.budget, PLENTY):
        messages = compile_transcript(*case[:3], budget).messages
        assert set(words(messages)) <= allowed
        assert set(words([message for message in messages if message.role == "agent"])) <= own
        for message in messages:
            for part in parts_of(message, TextPart, ThinkingPart) if message.role == "user" else ():
                assert not MARK.search(fenced(part.text)[1])
                assert part.seal is None


@given(SEEDS)
@settings(max_examples=100, deadline=None, phases=UNSHRUNK)
def test_told_in_words_nothing_is_a_call(seed: int) -> None:
    """What a model without tools is sent: no provider refuses it."""
    case = situation(seed)
    outside = View(case.view.agent, Branch(""), "", case.view.scopes, calls_as_text=True)
    for budget in (case.budget, PLENTY):
        messages = compile_transcript(case.log, outside, case.opening, budget).messages
        assert problems(messages) == []
        assert not [part for message in messages for part in parts_of(message, ToolCallPart, ToolResultPart, ThinkingPart)]


@given(SEEDS)
@settings(max_examples=120, deadline=None, phases=UNSHRUNK)
def test_with_room_everything_is_shown_once(seed: int) -> None:
    """D8: every text of the user, of the agent and of others that it sees, and the opening."""
    case = situation(seed)
    log, view, opening, _ = case
    log = [each.with_actions(summary=None) for each in log]
    found = words(compile_transcript(log, view, opening, PLENTY).messages)
    opens = words(parts_of(opening, TextPart))
    for each in seen(log, view):
        if asks_leave(each):
            continue
        content = each.actions.brief or each.content if each.author == USER else each.content
        for word in set(words(parts_of(content, TextPart))) - set(opens):
            assert found.count(word) == 1
    called = "/>" in view.branch or view.giver is not None  # then the log holds the same words as another message, too
    assert all(found.count(word) == 1 or (called and found.count(word) > 1) for word in opens)


@given(SEEDS, st.integers(0, 24))
@settings(max_examples=300, deadline=None, phases=UNSHRUNK)
def test_what_stands_before_a_window_that_reaches_far_enough_changes_nothing(seed: int, cut: int) -> None:
    case = situation(seed)
    log, view, opening, budget = case
    for window in (log[cut:], [each for each in visible(log[cut:]) if reaches(view, each)]):
        if reaches_far_enough(window, view, budget):
            assert (
                compile_transcript(window, view, opening, budget).messages
                == compile_transcript(log, view, opening, budget).messages
            )


def talk(turns: int) -> list[Event]:
    """A conversation of two agents with tools; its last message is still to be answered."""
    log: list[Event] = []
    for turn in range(turns):
        name, invocation = "ab"[turn % 2], f"t{turn}"
        log += [
            asks(f"Where is order {turn}?", invocation=invocation),
            event(name, "I look.", call(f"k{turn}", order=turn), invocation=invocation),
            event(name, result(f"k{turn}", {"order": turn, "status": "sent"}), invocation=invocation),
            event(name, f"Order {turn} is on its way.", invocation=invocation, end=End()),
        ]
    return numbered([*log, asks("And all of them?", invocation="now")])


def read_backwards(log: Sequence[Event], view: View, budget: Budget, page: int = 10) -> list[Event]:
    """As much of the log as it takes, from its end on."""
    start = len(log)
    while start > 0:
        start = max(0, start - page)
        if reaches_far_enough(log[start:], view, budget):
            break
    return list(log[start:])


@pytest.mark.parametrize("turns", [10, 100, 1_000])
def test_how_much_is_read_does_not_depend_on_the_length_of_the_log(turns: int) -> None:
    log, view, opening = talk(turns), View("a", Branch("1"), "now"), text_content("And all of them?", "user")
    for budget in (Budget(500, 1_000), Budget(100_000, 20)):
        window = read_backwards(log, view, budget)
        assert len(window) <= 30
        assert (
            compile_transcript(window, view, opening, budget).messages
            == compile_transcript(log, view, opening, budget).messages
        )


def test_a_summary_is_as_far_as_one_has_to_read() -> None:
    log = talk(100)
    log.insert(390, event("a", summary=Summary(text="All orders are sent.", until=385), invocation="t97"))
    log, view, budget = numbered(log), View("a", Branch("1"), "now"), Budget(100_000, 1_000)
    window = read_backwards(log, view, budget)
    assert 16 <= len(window) <= 26
    made = compile_transcript(window, view, text_content("And all of them?", "user"), budget)
    assert made.messages == compile_transcript(log, view, text_content("And all of them?", "user"), budget).messages
    assert made.messages[0].text.startswith('<said note="summary">All orders are sent.</said>')


def test_a_window_that_begins_between_a_summary_and_what_it_covers_is_too_short() -> None:
    log = talk(4)
    log.insert(12, event("a", summary=Summary(text="Two orders are sent.", until=8), invocation="t2"))
    log, view = numbered(log), View("a", Branch("1"), "now")
    assert [reaches_far_enough(log[start:], view, PLENTY) for start in (7, 8, 9, 12)] == [True, True, False, False]


def test_a_window_that_begins_between_a_call_and_its_result_is_too_short() -> None:
    """What the agent said meanwhile belongs to the call, and is shown with it or not at all."""
    begins = [asks("old", invocation="t0"), event("a", call("k"), invocation="t0")]
    window = [event("a", "working", invocation="t0"), event("a", result("k"), invocation="t0"), asks("hi", invocation="now")]
    log, view, budget = numbered([*begins, *window]), View("a", Branch("1"), "now"), Budget(10_000, 2)
    assert not reaches_far_enough(log[2:], view, budget)
    assert reaches_far_enough(log, view, budget)
    made = compile_transcript(log, view, text_content("hi", "user"), budget)
    assert [message.text for message in made.messages] == ["hi"]


def test_two_agents_read_one_conversation_each_as_its_own() -> None:
    """D8."""
    log, opening = talk(2), text_content("And all of them?", "user")
    told = [
        [(message.role, [getattr(part, "text", part.kind) for part in message.parts]) for message in made.messages]
        for made in (compile_transcript(log, View(name, Branch("1"), "now"), opening, PLENTY) for name in "ab")
    ]
    others = [
        [
            f'<said by="{name}">I look.</said>',
            f'<said by="{name}" calls="look">{{"order":{turn}}} → {{"order":{turn},"status":"sent"}}</said>',
            f'<said by="{name}">Order {turn} is on its way.</said>',
        ]
        for turn, name in enumerate("ab")
    ]
    own = [
        [
            ("agent", ["I look.", "tool_call"]),
            ("user", ["tool_result"]),
            ("agent", [f"Order {turn} is on its way."]),
        ]
        for turn in range(2)
    ]
    assert told[0] == [
        ("user", ["Where is order 0?"]),
        *own[0],
        ("user", ["Where is order 1?", *others[1], "And all of them?"]),
    ]
    assert told[1] == [
        ("user", ["Where is order 0?", *others[0], "Where is order 1?"]),
        *own[1],
        ("user", ["And all of them?"]),
    ]
