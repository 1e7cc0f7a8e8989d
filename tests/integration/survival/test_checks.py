"""The checks of survival find what they are there to find: each of them, on a log that is broken in its way."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from survival_play.checks import CHECKS, Findings, answer_seconds, broken, misread, repeats, seconds_after_return, waits
from survival_play.logs import Log

from turnwise import Event
from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, End, Rewind, StepRecord
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey, visible

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = "s0.stepped.p1-1", "s0.counting.p1-2"


def event(author: str, process: str, invocation: str, text: str = "", attempt: int = 1, **actions: Any) -> Event:
    named = f"event-{process}-{invocation}-{author}-{text}-{'-'.join(actions)}-{attempt}"
    id_ = f"message:s0:{text}" if author == "user" else named
    return Event(
        id=id_,
        author=author,
        invocation_id=f"invocation-{invocation}",
        created_at=BEGAN,
        content=text_content(text) if text else None,
        actions=Actions(**actions),
        attempt=attempt,
    )


def step(key: str, value: str) -> tuple[StepRecord, ...]:
    return (StepRecord(key=f"1:{key}", value=value),)


SELECTED = Selection(agent="stepped", method="direct", confidence=1.0, outcome="chosen", reason="")
EVENTS = [
    event("user", "", "p1-a", ONE, selection=SELECTED),
    event("stepped", "p1", "p1-a", steps=step("first", "x")),
    event("stepped", "p2", "p1-a", attempt=2, rewind=Rewind(from_sequence=2, invocation_id="invocation-p1-a")),
    event("stepped", "p2", "p1-a", attempt=2, steps=step("second", "y")),
    event("stepped", "p2", "p1-a", f"stepped {ONE} x y", attempt=2, end=End()),
    event("user", "", "p1-b", TWO, selection=SELECTED),
    event("counting", "p1", "p1-b", f"counting {TWO}", state_delta={"counted": 1}),
    event("counting", "p1", "p1-b", f"counted {TWO}", state_delta={"answered": 1}, end=End()),
]


def seconds(after: float) -> float:
    return (BEGAN + timedelta(seconds=after)).timestamp()


def line(after: float, process: str = "p1", **fields: Any) -> dict[str, Any]:
    return {"time": seconds(after), "process": process, **fields}


def log_of(events: list[Event], **changed: Any) -> Log:
    stored = [each.replace(sequence=n, created_at=BEGAN + timedelta(seconds=n)) for n, each in enumerate(events, 1)]
    state: dict[str, Any] = {"counted": 1, "answered": 1}
    log = Log(SessionKey("survival", "ann", "s0"), stored, visible(stored), [ONE, TWO], state, len(stored))
    return log._replace(**changed)


def good(**changed: Any) -> Findings:
    found = Findings(
        logs=[log_of(EVENTS)],
        sends=[line(0, id=ONE), line(5, id=TWO)],
        acks=[line(0.5, id=ONE), line(6, id=TWO)],
        results=[line(9, id=ONE, text=f"stepped {ONE} x y"), line(9, id=TWO, text=f"counting {TWO}\ncounted {TWO}")],
        troubles=[],
        errors=[],
        work=[line(1, id=ONE, place="first"), line(3, "p2", id=ONE, place="second"), line(7, id=TWO, place="counting")],
        ends=[line(5, invocation="invocation-p1-a"), line(8, invocation="invocation-p1-b")],
        kills=[{"killed": "p1", "at": seconds(2.5)}],
        refusals=[],
        returns=[],
    )
    return found._replace(**changed)


def with_events(change: Callable[[list[Event]], None], **changed: Any) -> Findings:
    events = list(EVENTS)
    change(events)
    return good(logs=[log_of(events, **changed)])


def unended(events: list[Event]) -> None:
    events[-1] = event("counting", "p1", "p1-b", f"counted {TWO}", state_delta={"answered": 1})


def without(place: int) -> Callable[[list[Event]], None]:
    return lambda events: events.__delitem__(place)


def moved(events: list[Event]) -> None:
    events.insert(4, events.pop(5))


def renumbered() -> Findings:
    log = log_of(EVENTS)
    del log.stored[1]
    return good(logs=[log])


ON_TIME = good()
BROKEN: list[tuple[str, Findings]] = [
    ("acknowledged messages lost", good(acks=[*ON_TIME.acks, line(7, id="s0.plain.p1-3")])),
    ("accepted messages without exactly one answer", with_events(unended)),
    ("accepted messages without exactly one answer", with_events(without(5))),
    ("accepted messages without exactly one answer", with_events(lambda events: events.extend(events[-3:]))),
    ("accepted messages without exactly one answer", good(logs=[log_of(EVENTS, accepted=[ONE, TWO, "s0.plain.p1-3"])])),
    ("gaps in sequences", renumbered()),
    ("gaps in sequences", with_events(lambda events: events.append(events[-1]))),
    ("messages out of order", good(logs=[log_of(EVENTS, accepted=[TWO, ONE])])),
    ("messages out of order", good(sends=[line(7, id=ONE), line(5, id=TWO)])),
    ("interleavings", with_events(moved)),
    ("answers with wrong words", good(results=[line(9, id=ONE, text="something else")])),
    ("answers with wrong words", with_events(without(6))),
    ("states that miscount", good(logs=[log_of(EVENTS, state={"counted": 2, "answered": 1})])),
    ("recorded work done again", good(work=[*ON_TIME.work, line(4, "p2", id=ONE, place="first")])),
    ("failures that are no typed errors", good(errors=[line(1, problem="KeyError")])),
]


def test_nothing_is_wrong_with_a_good_log() -> None:
    assert list(broken(good())) == []


@pytest.mark.parametrize(("check", "found"), BROKEN, ids=[f"{n} {name}" for n, (name, _) in enumerate(BROKEN)])
def test_a_broken_log_is_found(check: str, found: Findings) -> None:
    assert CHECKS[check](found) != []


def test_every_check_is_shown_to_fail() -> None:
    assert {name for name, _ in BROKEN} == set(CHECKS)


def test_repeated_work_is_told_apart() -> None:
    """Before its record, after it by who had been superseded, and outside of steps."""
    again = [line(0.9, id=ONE, place="first"), line(9, "p1", id=ONE, place="second"), line(9, id=TWO, place="counting")]
    counted = repeats(good(work=[*ON_TIME.work, *again]))
    assert (counted.recorded, counted.unrecorded, counted.late, counted.outside) == ([], 1, 1, 1)


def test_a_wait_is_counted_from_the_kill() -> None:
    waited = waits(good())
    assert [round(each, 3) for each in waited.seconds] == [2.5]
    assert (waited.from_living, waited.attempts) == (0, 2)
    assert waits(good(kills=[])).from_living == 1
    assert [round(each, 3) for each in answer_seconds(good())] == [2.0, 4.5]


def test_what_waited_at_the_engines_return_is_counted_from_then() -> None:
    """ONE is acknowledged after half a second and ends after five, TWO after six and eight."""
    found = good(returns=[line(0.2), line(2), line(7), line(9)])
    assert [round(each, 3) for each in seconds_after_return(found)] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda seen: seen, False),
        (lambda seen: seen[:-1], True),
        (lambda seen: [*seen[:2], seen[1], *seen[2:]], True),
        (lambda seen: [seen[1], seen[0], *seen[2:]], True),
        (lambda seen: [*seen, (99, "foreign")], True),
    ],
)
def test_a_reader_that_missed_something_is_found(change: Callable[[list[Any]], list[Any]], wrong: bool) -> None:
    log = log_of(EVENTS)
    seen = change([(each.sequence, each.id) for each in log.visible[:4]])
    assert bool(misread(log, ONE, seen)) is wrong
    everything = change([(each.sequence, each.id) for each in log.stored[:5]])
    assert bool(misread(log, ONE, everything, several_attempts=True)) is wrong
