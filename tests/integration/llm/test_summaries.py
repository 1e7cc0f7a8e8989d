"""Summaries are jobs: stored with the end of a turn, worked off after it by any process, used by later turns."""

import asyncio
from typing import Any

import pytest
from llm_play import heard
from runner_fixtures import MakeRunner as Process
from runner_play import Holds, InFront, ask, key, killed, reason, soon, texts

from turnwise import LlmAgent, ProcessConfig, Runner, agent
from turnwise.facts.content import Content, text_content
from turnwise.facts.errors import ModelRefused, ModelUnavailable
from turnwise.facts.events import Summary
from turnwise.facts.usage import Usage
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.ports.model import ModelReply, ModelRequest
from turnwise.runner.queue import job_worker
from turnwise.testing.fakes import FunctionGuardrail
from turnwise.testing.models import FunctionModel, calls
from turnwise.tools.built_in import ask_user
from turnwise.transcript.view import Budget

BUDGET = Budget(tokens=400, events=8)


class Summarizer(FunctionModel):
    """Sums up as `notes 1`, `notes 2` and so on, each when `go` is set; `asked` is set when one is begun."""

    def __init__(self, *, open_: bool = False) -> None:
        self.requests: list[ModelRequest] = []
        self.go, self.asked = asyncio.Event(), asyncio.Event()
        if open_:
            self.go.set()

        async def sum_up(request: ModelRequest) -> Any:
            self.requests.append(request)
            number = len(self.requests)
            self.asked.set()
            await self.go.wait()
            return ModelReply(text_content(f"notes {number}"), Usage(model="s", output_tokens=5))

        super().__init__(sum_up)


def clerk(summary: Any, seen: list[ModelRequest] | None = None) -> LlmAgent:
    async def reply(request: ModelRequest) -> str:
        if seen is not None:
            seen.append(request)
        await asyncio.sleep(0)
        return "Noted."

    return LlmAgent("clerk", model=FunctionModel(reply), history=BUDGET, summary_model=summary)


async def summaries(runner: Runner, session: str = "s") -> list[Summary]:
    return [e.actions.summary for e in await runner.store.events(key(session)) if e.actions.summary]


async def made(runner: Runner, count: int, session: str = "s") -> list[Summary]:
    """The summaries on record, once there are that many."""
    with runner.store.signals.watch(key(session)) as watch:
        while len(found := await summaries(runner, session)) < count:
            await watch.next(0.05)
    return found


async def talk(runner: Runner, turns: int, session: str = "s") -> None:
    for n in range(turns):
        assert reason(await soon(ask(runner, f"message {n}", session))) == "completed"


async def test_a_summary_model_slower_than_the_answers_keeps_its_summaries(process: Process) -> None:
    """Each summary takes as long as four turns; it delays none of them, and later turns read it."""
    summary, seen = Summarizer(), list[ModelRequest]()
    runner = process(clerk(summary, seen))
    kept = 0
    for _ in range(5):
        await talk(runner, 4)
        if not summary.requests:
            continue
        assert len(summary.requests) == kept + 1, "one at a time"
        summary.go.set()
        kept = len(await soon(made(runner, kept + 1)))
        summary.go.clear()
    assert kept >= 2
    await talk(runner, 1)
    assert heard(seen[-1])[0][1].startswith(f'<said note="summary">notes {kept}</said>')


async def test_what_grows_too_long_is_summed_up_after_the_turn(process: Process) -> None:
    """The summary is an event of the agent, with what it took; later turns read it in place of what it covers."""
    summary, seen = Summarizer(open_=True), list[ModelRequest]()
    runner = process(clerk(summary, seen))
    while not summary.requests:
        await talk(runner, 1)
        await soon(runner.recover())
    (notes,) = await summaries(runner)
    stored = await runner.store.events(key())
    covered = [event.text for event in stored if (event.sequence or 0) <= notes.until]
    assert covered in (["message 0", "Noted."], ["message 0", "Noted."] * 2)
    (request,) = summary.requests
    assert [text for _, text in heard(request)][:2] == ["message 0", "Noted."]
    assert [role for role, _ in heard(request)][-1] == "user"
    await talk(runner, 1)
    assert heard(seen[-1])[0][1].startswith('<said note="summary">notes 1</said>')


async def test_the_job_is_stored_with_the_end_of_the_turn(process: Process) -> None:
    """A process that dies right after leaves it to others."""
    runner = process(clerk(Summarizer()))
    await talk(runner, 8)
    asking = [event for event in await runner.store.events(key()) if event.actions.jobs]
    assert asking
    assert all(event.actions.end is not None for event in asking)


async def test_an_empty_summary_is_none_and_what_it_took_is_told(process: Process) -> None:
    asked: list[ModelRequest] = []

    def nothing(request: ModelRequest) -> Any:
        asked.append(request)
        return ModelReply(Content(), Usage(model="s", output_tokens=5))

    runner = process(clerk(FunctionModel(nothing)))
    await talk(runner, 6)
    await soon(runner.recover())
    stored = await runner.store.events(key())
    assert await summaries(runner) == []
    usages = [event.actions.usage for event in stored if event.actions.usage]
    assert asked
    assert sum(usage.calls for usage in usages) == 6 + len(asked)


async def test_earlier_notes_go_into_the_next(process: Process) -> None:
    summary = Summarizer(open_=True)
    runner = process(clerk(summary))
    for n in range(14):
        await ask(runner, f"message {n}")
        await soon(runner.recover())
    kept = await summaries(runner)
    assert len(kept) >= 2
    assert [notes.until for notes in kept] == sorted({notes.until for notes in kept})
    assert f"notes {len(kept) - 1}" in summary.requests[-1].instructions


@pytest.mark.parametrize("how", ["waits", "fails"])
async def test_a_turn_that_gives_no_answer_leaves_it_to_the_next(process: Process, how: str) -> None:
    """What is written with the end is asked for with the end."""
    summary = Summarizer(open_=True)

    async def reply(request: ModelRequest) -> Any:
        if not request.messages[-1].text.endswith("stop"):
            return "Noted."
        return calls("ask_user", {"question": "Why?"}) if how == "waits" else ModelRefused("No.")

    model = FunctionModel(reply)
    runner = process(LlmAgent("clerk", model=model, history=BUDGET, summary_model=summary, tools=[ask_user]))
    await talk(runner, 2)
    for _ in range(6):
        assert reason(await ask(runner, "stop")) == {"waits": "waiting", "fails": "failed"}[how]
        if how == "waits":
            assert reason(await ask(runner, "so")) == "completed"
    await talk(runner, 1)
    await soon(runner.recover())
    assert await summaries(runner)


async def test_a_message_that_comes_meanwhile_is_answered_at_once(process: Process) -> None:
    """The result waits for the answer's end; neither makes the other fail."""
    summary, stuck, go = Summarizer(), asyncio.Event(), asyncio.Event()

    async def reply(request: ModelRequest) -> str:
        if "wait" in request.messages[-1].text:
            stuck.set()
            await go.wait()
        return "Noted."

    runner = process(LlmAgent("clerk", model=FunctionModel(reply), history=BUDGET, summary_model=summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    invocation = await runner.start("wait", user="ada", session="s")
    await soon(stuck.wait())
    summary.go.set()
    await asyncio.sleep(0.1)
    assert await summaries(runner) == []
    go.set()
    result = await invocation.result()
    assert (reason(result), result.text) == ("completed", "Noted.")
    (kept,) = await soon(made(runner, 1))
    event = next(e for e in await runner.store.events(key()) if e.actions.summary)
    assert (event.author, event.content) == ("clerk", None)
    assert event.invocation_id != invocation.id
    assert event.actions.usage is not None
    assert event.actions.usage.output_tokens == 5
    assert kept.until < (event.sequence or 0)
    assert (await runner.sessions.get(key())).head.active_agent == "clerk"


class NeverGivenBack(InFront):
    """The jobs of a store as a process has them that dies: it gives nothing back."""

    holder = ""

    async def claim(self, app: str, lease: Any, *, limit: int) -> Any:
        self.holder = lease.holder
        return await self._inner.claim(app, lease, limit=limit)

    async def put_back(self, *_: Any, **__: Any) -> None:
        pass


async def test_another_process_takes_up_what_a_dead_one_left(process: Process) -> None:
    """Only then: before, nobody else pays for the same summary."""
    hangs, works = Summarizer(), Summarizer(open_=True)
    store = process(clerk(hangs)).store
    dying = InFront(store, jobs=NeverGivenBack(store.jobs))
    first = process(clerk(hangs), store=dying)
    second = process(clerk(works))
    async with killed():
        await talk(first, 6)
        await soon(hangs.asked.wait())
        for _ in range(3):
            await asyncio.sleep(0.2)
            assert await second.recover() == 0
    await store.leases.leave(dying.jobs.holder)
    assert await soon(second.recover()) == 1
    assert [summary.text for summary in await summaries(second)] == ["notes 1"]
    assert (len(hangs.requests), len(works.requests)) == (1, 1)


async def test_a_job_that_kills_its_processes_is_dropped(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    hangs, works = Summarizer(), Summarizer(open_=True)
    store = process(clerk(hangs)).store
    for n in range(3):
        dying = InFront(store, jobs=NeverGivenBack(store.jobs))
        runner = process(clerk(hangs), store=dying)
        async with killed():
            worker = asyncio.create_task(runner.work())
            if n == 0:
                await talk(runner, 6)
            await soon(hangs.asked.wait())
        assert worker.done()
        hangs.asked.clear()
        await store.leases.leave(dying.jobs.holder)
    runner = process(clerk(works))
    assert await soon(runner.recover()) == 1
    assert "is dropped after 4 attempts: its process died each time" in caplog.text
    assert (len(hangs.requests), works.requests) == (3, [])


async def test_a_runner_that_closes_lets_others_go_on(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits a little for what it has begun; the attempt does not count."""
    monkeypatch.setattr(job_worker, "CLOSE_SECONDS", 0.05)
    hangs, works = Summarizer(), Summarizer(open_=True)
    first = process(clerk(hangs))
    await talk(first, 6)
    await soon(hangs.asked.wait())
    await soon(first.close())
    second = process(clerk(works))
    assert await soon(second.recover()) == 1
    assert [summary.text for summary in await summaries(second)] == ["notes 1"]


async def test_a_runner_that_closes_waits_for_a_summary_that_is_nearly_ready(process: Process) -> None:
    summary = Summarizer()
    runner = process(clerk(summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    asyncio.get_running_loop().call_later(0.05, summary.go.set)
    await soon(runner.close())
    other = process(clerk(None))
    assert [each.text for each in await summaries(other)] == ["notes 1"]


async def test_a_rewind_drops_what_it_touches(process: Process) -> None:
    """Also while it is made: nothing of it is recorded, and later turns ask anew."""
    summary = Summarizer()
    runner = process(clerk(summary), process=ProcessConfig(lease_seconds=0.3))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    first = next(e.invocation_id for e in await runner.store.events(key()))
    await runner.sessions.rewind(key(), first)
    summary.go.set()
    await asyncio.sleep(0.2)
    assert await summaries(runner) == []
    await talk(runner, 8)
    assert (await soon(made(runner, 1)))[0].text == "notes 2"


async def test_a_rewind_behind_its_source_leaves_it(process: Process) -> None:
    summary = Summarizer()
    runner = process(clerk(summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    last = (await runner.store.events(key()))[-1].invocation_id
    await runner.sessions.rewind(key(), last)
    summary.go.set()
    assert len(await soon(made(runner, 1))) == 1


async def test_a_fork_and_its_source_sum_up_on_their_own(process: Process) -> None:
    summary = Summarizer()
    runner = process(clerk(summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    await runner.sessions.fork(key(), "copy")
    summary.go.set()
    await soon(made(runner, 1))
    assert await summaries(runner, "copy") == []
    await talk(runner, 1, "copy")
    assert len(await soon(made(runner, 1, "copy"))) == 1


async def test_what_is_deleted_gets_no_summary(process: Process) -> None:
    summary = Summarizer()
    runner = process(clerk(summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    await runner.sessions.delete(key())
    await runner.sessions.create(key())
    summary.go.set()
    await asyncio.sleep(0.1)
    assert await runner.store.events(key()) == []


async def test_a_model_that_always_fails_is_asked_a_few_times(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    """The turns complete, and a log line says that the job is dropped; a later turn asks anew."""
    asked: list[ModelRequest] = []

    def fail(request: ModelRequest) -> Exception:
        asked.append(request)
        return ModelUnavailable("Overloaded.")

    runner = process(clerk(FunctionModel(fail)), process=ProcessConfig(job_retry_seconds=0))
    while not asked:
        await talk(runner, 1)
    await soon(runner.recover())
    assert "is dropped after 3 attempts: model.unavailable" in caplog.text
    assert len(asked) == 3
    assert caplog.text.count("is retried") == 2
    await talk(runner, 1)
    await soon(runner.recover())
    assert len(asked) == 6
    assert await summaries(runner) == []


async def test_a_job_rests_before_it_is_tried_again(process: Process) -> None:
    """However many turns come meanwhile."""
    asked: list[ModelRequest] = []

    def fail(request: ModelRequest) -> Exception:
        asked.append(request)
        return ModelUnavailable("Overloaded.")

    runner = process(clerk(FunctionModel(fail)), process=ProcessConfig(job_retry_seconds=600))
    await talk(runner, 20)
    await soon(runner.recover())
    assert len(asked) == 1


async def test_many_sessions_are_summed_up_a_few_at_a_time(process: Process) -> None:
    summary = Summarizer()
    runner = process(clerk(summary))
    names = [f"s-{n}" for n in range(30)]
    await asyncio.gather(*(talk(runner, 6, name) for name in names))
    assert len(summary.requests) <= job_worker.AT_ONCE
    summary.go.set()
    await soon(runner.recover())
    assert [len(await summaries(runner, name)) for name in names] == [1] * 30
    assert len(summary.requests) == 30


async def left_undone(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that a process began and did not come to."""
    monkeypatch.setattr(job_worker, "CLOSE_SECONDS", 0.05)
    summary = Summarizer()
    runner = process(clerk(summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    await runner.close()


async def test_a_job_of_an_agent_that_is_not_known_rests(
    process: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left to processes that know it."""
    await left_undone(process, monkeypatch)
    stranger = LlmAgent("other", model=FunctionModel(lambda _: "Hm."))
    runner = process(stranger, process=ProcessConfig(unknown_agent_seconds=600))
    await soon(runner.recover())
    assert "is retried: this process has no such agent" in caplog.text
    assert await soon(runner.recover()) == 0


async def test_a_job_of_an_agent_that_does_none_is_dropped(
    process: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await left_undone(process, monkeypatch)

    @agent(name="clerk")
    async def plain(message: str) -> str:
        return message

    runner = process(plain)
    await soon(runner.recover())
    assert "is dropped after 1 attempts: the agent does no jobs" in caplog.text
    assert await soon(runner.recover()) == 0


async def test_guardrails_judge_a_summary_as_an_answer(process: Process) -> None:
    """A21: what is blocked is not kept, and what it took is told."""
    guardrail = FunctionGuardrail("no-notes", lambda _, text: GuardrailVerdict("block") if "notes" in text else None)
    summary = Summarizer(open_=True)
    runner = process(clerk(summary), guardrails=[guardrail])
    await talk(runner, 6)
    await soon(runner.recover())
    blocked = [e for e in await runner.store.events(key()) if e.actions.guarded]
    assert blocked
    for event in blocked:  # each later message asks for a summary again
        assert (event.actions.summary, event.actions.guarded[0].guardrail) == (None, "no-notes")
        assert event.actions.usage is not None


async def test_a_rewind_is_not_refused_because_a_summary_came_between(process: Process) -> None:
    """A44"""
    summary = Summarizer()
    runner = process(clerk(summary))
    await talk(runner, 6)
    await soon(summary.asked.wait())
    late = Holds(runner.store, "take")
    other = process(clerk(None), store=late)
    last = (await runner.store.events(key()))[-1].invocation_id
    rewinding = asyncio.create_task(other.sessions.rewind(key(), last))
    await soon(late.reached.wait())
    summary.go.set()
    await soon(made(runner, 1))
    late.go.set()
    await soon(rewinding)
    assert await summaries(runner) == []
    assert "message 5" not in await texts(runner)
