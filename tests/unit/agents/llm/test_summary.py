from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from turnwise.agents.llm.summary import Summarizing, older_part, summed_up
from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, Branch, Event, JobRequest, Summary
from turnwise.facts.sessions import SessionKey
from turnwise.ports.model import LENGTH, ModelReply
from turnwise.ports.stores import BackgroundJob
from turnwise.testing.models import ScriptedModel
from turnwise.transcript.compile import compile_transcript
from turnwise.transcript.earlier import Places
from turnwise.transcript.view import Budget, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VIEW = View("clerk", Branch("1"), "now")
BUDGET = Budget(tokens=10_000, events=9)
JOB = BackgroundJob(SessionKey("app", "ada", "s"), "clerk", "e9", JobRequest(kind="summary", until=4), 1)


class Log:
    """These events in pages, as a job reads them."""

    def __init__(self, events: list[Event]) -> None:
        self._events, self.read = events, 0

    async def backwards(self, page: int = 40) -> AsyncIterator[list[Event]]:
        for end in range(len(self._events), 0, -page):
            found = self._events[max(0, end - page) : end]
            self.read += len(found)
            yield found


def noting(sequence: int, text: str, *, until: int) -> Event:
    """The event of a summary."""
    (event,) = log("job-1")
    actions = Actions(summary=Summary(text=text, until=until))
    return event.replace(sequence=sequence, content=None, actions=actions)


def log(*invocations: str) -> list[Event]:
    return [
        Event(id=f"e{n}", author="clerk", invocation_id=i, created_at=NOW, content=text_content(i), sequence=n)
        for n, i in enumerate(invocations, 1)
    ]


def places(*invocations: str) -> Places:
    return Places(range(1, len(invocations) + 1), invocations)


def uncovered(events: list[Event], *, most: int = BUDGET.events) -> list[str]:
    """The invocations of the events that no summary covers."""
    made = compile_transcript(events, VIEW, text_content("hi", "user"), BUDGET._replace(events=most))
    return list(made.uncovered.invocations)


def test_the_older_half_is_summed_up_to_the_end_of_an_invocation() -> None:
    assert older_part(places(*"aabbccdd")).invocations == (*"aabb",)
    assert older_part(places(*"aaabbb")).invocations == (*"aaa",)
    assert older_part(places(*"aabbbb")) == places(*"aa")


def test_one_invocation_alone_has_no_older_half() -> None:
    assert older_part(places()).sequences == range(1, 1)
    assert older_part(places(*"aaaa")).invocations == ()


def test_an_invocation_that_runs_is_never_summed_up() -> None:
    assert uncovered(log(*"ab", "now")) == ["a", "b"]
    assert uncovered(log("now", "a", "now", "b", "now")) == ["a", "b"]


def test_what_is_summed_up_already_is_not_summed_up_again() -> None:
    assert uncovered([*log(*"aabb"), noting(5, "They said a.", until=2)]) == ["b", "b", "job-1"]
    assert uncovered([*log(*"aabb"), noting(5, "They said b.", until=5)]) == []
    assert uncovered(log(*"aabbccdd", "now"), most=3) == ["c", "d", "d"]


@pytest.mark.parametrize(
    ("text", "finish", "kept"),
    [(" short ", "stop", "short"), ("cut", LENGTH, "cut […]"), ("x" * 5_000, "stop", "x" * 4_000 + " […]")],
)
async def test_notes_whose_end_is_missing_say_so(text: str, finish: str, kept: str) -> None:
    """They are read in place of the conversation."""
    made = await summed_up(ScriptedModel(ModelReply(text_content(text), finish=finish)), JOB, Log(log(*"aabbccdd")), BUDGET)
    assert made is not None
    assert made.summary == Summary(text=kept, until=4)


def considered(events: list[Event], view: View = VIEW, *, wanted: bool = True) -> Event:
    """The last event with what a turn asks for that reads these."""
    summarizing = Summarizing(wanted=wanted)
    summarizing.consider(compile_transcript(events, view, text_content("hi", "user"), BUDGET), view, BUDGET)
    return summarizing.put(events[-1])


def test_a_turn_that_reads_much_asks_for_a_job() -> None:
    """Up to the end of the older half; what a flow's agent sees goes with it."""
    events = log(*"aabbccdd", "now")
    assert considered(events).actions.jobs == (JobRequest(kind="summary", until=4),)
    (job,) = considered(events, replace(VIEW, scopes=frozenset({"b", "a"}))).actions.jobs
    assert job.scopes == ("a", "b")
    assert considered(log(*"aabb", "now")).actions.jobs == ()
    assert considered(events, wanted=False).actions.jobs == ()


def test_a_private_call_asks_for_none() -> None:
    """No later invocation would see its summary."""
    assert considered(log(*"aabbccdd", "now"), View("clerk", Branch("1/>clerk#1"), "now")).actions.jobs == ()


async def test_what_a_summary_covers_is_not_summed_up_again() -> None:
    """Nor paid for: a process may have died after it recorded the summary, and before it deleted the job."""
    model = ScriptedModel()
    events = log(*"aabbccdd")
    events.append(noting(9, "They said a.", until=4))
    assert await summed_up(model, JOB, Log(events), BUDGET) is None
    assert model.requests == []


async def test_only_what_is_new_is_read_beside_the_last_summary() -> None:
    model = ScriptedModel("They said a and b.")
    events = [*log(*"aabb"), noting(5, "They said a.", until=2)]
    made = await summed_up(model, JOB, Log(events), BUDGET)
    assert made is not None
    (request,) = model.requests
    assert "They said a." in request.instructions
    assert [message.text for message in request.messages if message.role == "agent"] == ["b\nb"]


async def test_as_much_is_read_as_the_model_is_shown() -> None:
    model, long = ScriptedModel("Much."), Log(log(*(["x"] * 1_000), *"aabb"))
    job = JOB._replace(request=JobRequest(kind="summary", until=1_002))
    assert await summed_up(model, job, long, BUDGET) is not None
    assert long.read < 300
