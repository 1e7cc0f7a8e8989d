"""A log that is compiled bit by bit reads as one that is compiled from nothing, and is cut at a steady place."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import Phase, given, settings, strategies as st
from logs import AGENTS, BRANCHES, asks, call, event, log_of, numbered, opening_of, result

from turnwise.facts.content import BlobPart, Content, text_content
from turnwise.facts.events import Branch, End, Event, Rewind, Summary
from turnwise.facts.sessions import visible
from turnwise.transcript.compile import CompiledLog, Transcript, compile_transcript
from turnwise.transcript.earlier import FORGET_FROM, KEPT, EarlierLog
from turnwise.transcript.view import Budget, View

SEEDS = st.integers(0, 2**64)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
PLENTY = Budget(10_000_000, 10_000)
HI = text_content("hi", "user")


def renamed(events: Sequence[Event], number: int) -> list[Event]:
    """The events of a made-up log under invocations of their own."""
    return [each.replace(invocation_id=f"{each.invocation_id}.{number}") for each in events]


def long_log(chance: Random) -> list[Event]:
    """Several made-up logs after each other. Now and then one goes on with an invocation of the one before, and rewinds."""
    log: list[Event] = []
    number = 0
    for _ in range(chance.randint(1, 6)):
        number += chance.random() < 0.8
        log += renamed(log_of(chance, most=10), number)
        if log and chance.random() < 0.2:
            rewind = Rewind(from_sequence=chance.randint(1, len(log)), invocation_id="r")
            log.append(event("user", invocation=f"r.{len(log)}", rewind=rewind))
    return numbered(log)


class Reader:
    """One agent that reads the log at some of its ends, as turns do, and keeps what it compiled."""

    def __init__(self, agent: str, scopes: frozenset[str] | None, *, as_text: bool) -> None:
        self.agent, self.scopes, self.as_text = agent, scopes, as_text
        self._log: CompiledLog | None = None
        self.reused = 0

    def view(self, chance: Random, log: Sequence[Event]) -> View:
        return View(self.agent, Branch(chance.choice(BRANCHES)), log[-1].invocation_id, self.scopes, calls_as_text=self.as_text)

    def read(self, stored: Sequence[Event], view: View, opening: Content, budget: Budget) -> Transcript:
        """What the agent reads, by the rules of `agents.history`: `stored` are the events that no rewind hides."""
        own = [each for each in stored if each.invocation_id == view.invocation_id]
        others = [each for each in stored if each.invocation_id != view.invocation_id]
        log = self._log
        last = log.last if log is not None else None
        if (
            log is None
            or last is None
            or last not in stored
            or log.holds(view.invocation_id)
            or not log.extend([each for each in others if (each.sequence or 0) > (last.sequence or 0)])
        ):
            log = None
        if log is None:
            log = CompiledLog(view)
            assert log.extend(others)
        else:
            self.reused += 1
        made = log.transcript(own, view, opening, budget)
        is_prefix = log.last is not None and (not own or (log.last.sequence or 0) < (own[0].sequence or 0))
        self._log = log if is_prefix else None
        return made


@given(SEEDS)
@settings(max_examples=150, deadline=None, phases=UNSHRUNK)
def test_what_is_compiled_in_pieces_reads_as_what_is_compiled_at_once(seed: int) -> None:
    """D7, D8, D9, A41: with rewinds, other agents' events, further attempts, scopes, summaries and private calls."""
    chance = Random(seed)
    log = long_log(chance)
    readers = [
        Reader(agent, chance.choice([None, None, frozenset({"s1"})]), as_text=chance.random() < 0.2) for agent in AGENTS[:2]
    ]
    budget = Budget(chance.choice([400, 4_000, 10**6]), chance.choice([6, 10**4]))
    for end in sorted(chance.sample(range(1, len(log) + 1), min(len(log), 8))):
        stored = [each for each in visible(log[:end]) if not each.partial]
        if not stored:
            continue
        reader = chance.choice(readers)
        view = reader.view(chance, stored)
        opening = opening_of(chance, stored, view)
        assert reader.read(stored, view, opening, budget).messages == compile_transcript(stored, view, opening, budget).messages


def talk(turns: int, *, words: int = 20) -> list[Event]:
    """A conversation whose last message is still to be answered."""
    log: list[Event] = []
    for turn in range(turns):
        invocation = f"t{turn}"
        log += [
            asks(f"Question {turn} " + "why " * words, invocation=invocation),
            event("a", call(f"k{turn}", order=turn), invocation=invocation),
            event("a", result(f"k{turn}"), invocation=invocation),
            event("a", f"Answer {turn} " + "so " * words, invocation=invocation, end=End()),
        ]
    return numbered(log)


def test_a_conversation_is_compiled_once() -> None:
    """Each turn adds its own events to what the turns before compiled."""
    log, reader, chance = talk(30), Reader("a", None, as_text=False), Random(1)
    for end in range(1, len(log) + 1, 4):
        stored = log[:end]
        view = reader.view(chance, stored)
        assert reader.read(stored, view, HI, PLENTY) == compile_transcript(stored, view, HI, PLENTY)
    assert reader.reused == 28


def earlier(log: Sequence[Event]) -> EarlierLog:
    made = EarlierLog(View("a", Branch("1"), "now"))
    assert made.extend(log)
    return made


def test_what_would_change_what_is_compiled_is_refused() -> None:
    log = talk(3)
    waits = [*log[:-1], event("b", "Late.", invocation="t1").replace(sequence=12)]
    made = earlier(log[:8])
    before = list(made.groups)
    assert not made.extend(waits[8:])
    hides = event("user", invocation="r", rewind=Rewind(from_sequence=8, invocation_id="t1"), sequence=9)
    assert not made.extend([hides])
    assert made.groups == before
    keeps = hides.replace(actions=hides.actions.replace(rewind=None))
    assert made.extend([keeps])


@pytest.mark.parametrize("budget", [Budget(4_000, 10**6), Budget(10**6, 60)])
def test_a_cut_stays_for_many_turns(budget: Budget) -> None:
    """A log that has outgrown its budget is shown from one place on, until a quarter of the budget is new."""
    log = talk(200)
    cuts: list[int] = []
    for end in range(400, len(log), 4):
        made = earlier(log[:end])
        cut = made.cut(*budget, lowest=0, is_limited=False)
        assert cut.first >= cut.fits
        cuts.append(made.sequence(cut.first))
        shown = made.groups[cut.first :]
        tokens, events = sum(group.tokens for group in shown), sum(group.events for group in shown)
        assert tokens <= budget.tokens
        assert events <= budget.events
        assert tokens >= KEPT * budget.tokens * 0.9 or events >= KEPT * budget.events
    assert cuts == sorted(cuts)
    assert len(set(cuts)) <= len(cuts) / 3  # a quarter of the budget is four turns or more
    assert all((cut - 1) % 4 == 0 for cut in cuts)  # each at the beginning of an invocation


def test_a_cut_depends_on_the_log_alone() -> None:
    """Another process, which has read less of the log, cuts at the same place."""
    log, budget = talk(200), Budget(4_000, 10**6)
    whole = earlier(log)
    part = earlier(log[600:])
    places = [made.sequence(made.cut(*budget, lowest=0, is_limited=False).first) for made in (whole, part)]
    assert places[0] == places[1]


def test_a_cut_in_one_long_invocation_falls_between_its_groups() -> None:
    log = numbered([asks("Go.", invocation="t"), *(event("a", f"Step {n} " * 10, invocation="t") for n in range(100))])
    made = earlier(log)
    cut = made.cut(1_000, 10**6, lowest=0, is_limited=False)
    assert cut.fits <= cut.first < len(made.groups)
    assert sum(group.tokens for group in made.groups[cut.first :]) >= 700


def test_what_no_budget_needs_is_forgotten() -> None:
    """Memory does not grow with a long conversation, and nothing that is shown changes."""
    log, budget, reader = talk(1_200), Budget(2_000, 10**6), CompiledLog(View("a", Branch("1"), "now"))
    before = 0
    for end in range(0, len(log), 400):
        assert reader.extend(log[end : end + 400])
        reader.transcript((), View("a", Branch("1"), "now"), HI, budget)
        before = max(before, len(reader.earlier.groups))
    assert len(reader.earlier.groups) < 2 * FORGET_FROM + 400 < len(earlier(log).groups)
    view = View("a", Branch("1"), "now")
    assert reader.transcript((), view, HI, budget).messages == compile_transcript(log, view, HI, budget).messages


def test_a_limit_of_events_cuts_at_a_steady_place_too() -> None:
    """The newest events that may be read move with the log; the cut does not."""
    log, view = talk(300), View("a", Branch("1"), "now")
    firsts = set()
    for end in range(800, 1_000, 4):
        reader = CompiledLog(view)
        reader.extend(log[:end])
        made = reader.transcript((), view, HI, PLENTY, limit=200)
        firsts.add(made.messages[0].text)
        narrow = CompiledLog(view)
        narrow.extend(log[end - 200 : end])
        assert narrow.transcript((), view, HI, PLENTY, limit=200).messages == made.messages
    assert len(firsts) <= 8  # of 50 turns, which are the whole window


def test_summaries_and_files_count() -> None:
    file = BlobPart(data=b"x" * 100_000, mime_type="image/png")
    small = earlier(numbered([asks("hello", invocation="t")]))
    large = earlier(numbered([asks(file, invocation="t")]))
    assert large.bytes >= small.bytes + 90_000
    summed = earlier(
        numbered([asks("hello", invocation="t"), event("a", summary=Summary(text="Hi.", until=1), invocation="j")])
    )
    assert summed.summary is not None
    assert (summed.summary.sequence, summed.summary.summary.until) == (2, 1)
