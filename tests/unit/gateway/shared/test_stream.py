"""What a reader sees, whatever the protocol."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from logs import asks, call, event, question, result

from turnwise.facts.content import ThinkingPart, text_content
from turnwise.facts.events import Await, Event, Rewind
from turnwise.gateway.shared.stream import (
    MessageAborted,
    MessageCompleted,
    MessageStarted,
    ReaderStream,
    Retracted,
    StreamItem,
    TextPiece,
    ToolCalled,
    ToolReturned,
    Waiting,
)

WORDS = st.text(st.sampled_from("ab \n字"), max_size=20)


def said(id_: str, text: str, **fields: Any) -> Event:
    return event("a", *([text] if text else []), **fields).replace(id=id_)


def piece(id_: str, text: str, offset: int | None = None, **fields: Any) -> Event:
    return said(id_, text, partial=True, **fields).replace(offset=offset)


def items(*events: Event, **options: bool) -> list[StreamItem]:
    stream = ReaderStream(**options)
    return [item for each in events for item in stream.feed(each)]


def told(found: Iterable[StreamItem]) -> list[tuple[str, ...]]:
    """The messages, in short."""
    lines: list[tuple[str, ...]] = []
    for item in found:
        match item:
            case MessageStarted(each, kind):
                lines.append(("started", each.id, kind))
            case TextPiece(each, text):
                lines.append(("piece", each.id, text))
            case MessageCompleted(each, text, sent):
                lines.append(("completed", each.id, text, sent))
            case MessageAborted(each):
                lines.append(("aborted", each.id))
            case _:
                lines.append((type(item).__name__,))
    return lines


def seen(found: Iterable[StreamItem]) -> dict[str, str]:
    """The texts of a reader who appends pieces and the rest of each message, and starts over where there is no rest."""
    texts: dict[str, str] = {}
    open_: set[str] = set()
    for item in found:
        match item:
            case MessageStarted(each):
                assert each.id not in open_
                open_.add(each.id)
                texts[each.id] = ""
            case TextPiece(each, text, offset):
                assert (each.id in open_, len(texts[each.id])) == (True, offset)
                texts[each.id] += text
            case MessageCompleted(each, text, sent) as message:
                assert (sent, bool(sent)) == (texts[each.id] if each.id in open_ else "", each.id in open_)
                texts[each.id] = text if message.rest is None else sent + message.rest
                open_.discard(each.id)
            case MessageAborted(each):
                open_.remove(each.id)
                del texts[each.id]
    assert not open_
    return texts


def live(id_: str, text: str, random: Random, **fields: Any) -> list[Event]:
    """Pieces of a text, some of them lost, repeated or late."""
    pieces = list[Event]()
    for _ in range(random.randint(0, 8)):
        begin = (
            random.randint(0, len(text))
            if random.random() < 0.5
            else len("".join(each.text for each in pieces)) % (len(text) + 1)
        )
        end = random.randint(begin, len(text))
        pieces += [piece(id_, text[begin:end], begin, **fields)] if end > begin else []
    return pieces


@pytest.mark.parametrize("serial", [False, True])
@given(st.lists(st.tuples(WORDS, st.integers(0, 2)), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_assembled_texts_are_the_stored_ones(serial: bool, spoken: list[tuple[str, int]], random: Random) -> None:
    """However they are cut, whatever is lost or repeated, whoever speaks at once, and after any number of attempts."""
    lines: list[list[Event]] = []
    for number, (text, lost) in enumerate(spoken):
        fields = {"branch": f"1/~{number}"}
        line: list[Event] = []
        for attempt in range(lost):
            line += live(f"e{number}.{attempt}", text, random, **fields)
        lines.append([*line, *live(f"e{number}", text, random, **fields), said(f"e{number}", text, **fields)])
    events = [each for line in lines for each in line[:-1] if "." in each.id]
    events.append(event("a", rewind=Rewind(from_sequence=2, invocation_id="i1")))
    lines = [[each for each in line if "." not in each.id] for line in lines]
    while lines := [line for line in lines if line]:
        events.append(random.choice(lines).pop(0))
    stored = {each.id: each.text for each in events if not each.partial and each.text}
    assert {id_: text for id_, text in seen(items(*events, serial=serial)).items() if text} == stored


def test_pieces_come_once_and_without_gaps() -> None:
    found = items(piece("1", "ab", 0), piece("1", "bc", 1), piece("1", "ef", 4), said("1", "abcdef"))
    assert told(found) == [
        ("started", "1", "text"),
        ("piece", "1", "ab"),
        ("piece", "1", "c"),
        ("completed", "1", "abcdef", "abc"),
    ]
    assert isinstance(found[-1], MessageCompleted)
    assert found[-1].rest == "def"


def test_a_reader_who_came_late_gets_the_whole() -> None:
    assert told(items(piece("1", "cd", 2), piece("1", "ef"), said("1", "abcdef"))) == [("completed", "1", "abcdef", "")]


def test_a_text_that_was_changed_has_no_rest_and_one_that_was_blocked_is_empty() -> None:
    changed = items(piece("1", "secret", 0), said("1", "*****"))[-1]
    assert isinstance(changed, MessageCompleted)
    assert (changed.text, changed.sent, changed.rest) == ("*****", "secret", None)
    assert told(items(piece("1", "secret", 0), said("1", "")))[-1] == ("completed", "1", "", "secret")


def test_what_is_not_for_the_user_is_no_message() -> None:
    hidden: list[dict[str, Any]] = [{"branch": "1/>b#1"}, {"scope": ("task",)}]
    assert (
        items(asks("hi"), *(each for fields in hidden for each in (piece("1", "x", 0, **fields), said("1", "x", **fields))))
        == []
    )


def test_a_new_attempt_aborts_what_the_last_one_began() -> None:
    again = event("a", rewind=Rewind(from_sequence=2, invocation_id="i1"))
    stream = ReaderStream()
    found = [*stream.feed(piece("1", "half", 0)), *stream.feed(again), *stream.feed(said("2", "whole"))]
    assert told(found)[2:] == [("aborted", "1"), ("Retracted",), ("completed", "2", "whole", "")]
    assert found[3] == Retracted(2)
    assert stream.open == set()


def test_one_message_at_a_time() -> None:
    """Of parallel agents none is started; another branch waits, and another message of the branch takes its place."""
    assert told(items(piece("1", "x", 0, branch="1/~b"), serial=True)) == []
    assert told(items(piece("1", "x", 0), piece("2", "y", 0, branch="2"), serial=True))[2:] == []
    taken = [("aborted", "1"), ("started", "2", "text"), ("piece", "2", "y")]
    assert told(items(piece("1", "x", 0), piece("2", "y", 0), serial=True))[2:] == taken
    handed = event("a", transfer_to="b")
    assert told(items(piece("1", "x", 0), handed, piece("2", "y", 0, branch="2"), serial=True))[2:] == taken
    assert told(items(piece("1", "x", 0), piece("2", "y", 0, branch="2")))[2:] == taken[1:]


def test_thinking_is_a_message_that_the_text_completes() -> None:
    thought = said("1", "", partial=True).replace(content=event("a", ThinkingPart(text="hm")).content)
    whole = said("1", "so").replace(content=event("a", ThinkingPart(text="hm"), "so").content)
    assert told(items(thought, piece("1", "s", 0), whole, thinking=True)) == [
        ("started", "1", "thinking"),
        ("piece", "1", "hm"),
        ("completed", "1", "hm", "hm"),
        ("started", "1", "text"),
        ("piece", "1", "s"),
        ("completed", "1", "so", "s"),
    ]
    assert told(items(whole, thinking=True)) == [("completed", "1", "hm", ""), ("completed", "1", "so", "")]
    assert told(items(thought, whole)) == [("completed", "1", "so", "")]


def test_calls_results_and_waits() -> None:
    """A question for approval is a text and a wait; each wait comes once, with a call that an earlier event made (A42)."""
    late = Await(id="k1", kind="tool_result")
    asked = event("a", "May I?", question("k2-ok", "k2"), awaits=Await(id="k2-ok", kind="tool_result"))
    stream = ReaderStream()
    stream.know([call("k0")])
    events = [event("a", call("k1")), event("a", awaits=late), event("a", awaits=late), asked, event("a", result("k1"))]
    events.append(event("a", awaits=Await(id="k0", kind="tool_result")))
    found = [item for each in events for item in stream.feed(each)]
    kinds = [ToolCalled, Waiting, MessageCompleted, Waiting, ToolReturned, Waiting]
    assert [type(item) for item in found] == kinds
    waits = [item.wait for item in found if isinstance(item, Waiting)]
    assert [(wait.id, wait.kind, wait.call and wait.call.call_id) for wait in waits] == [
        ("k1", "tool_result", "k1"),
        ("k2-ok", "confirmation", "k2-ok"),
        ("k0", "tool_result", "k0"),
    ]


def test_partial_events_of_calls_have_no_items() -> None:
    partial = event("a", call("k1"), partial=True)
    assert items(partial, partial.replace(content=text_content(""))) == []
