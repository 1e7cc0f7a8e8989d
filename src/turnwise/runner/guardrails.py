"""Runs the app's guardrails, in order, on messages, tool calls, answers, and what is remembered and recalled.

A sync `check` runs in a thread. A check that hangs blocks its thread, never the event loop.
"""

import asyncio
import contextvars
import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, NamedTuple, cast

from pydantic import JsonValue, ValidationError

from turnwise.facts.content import Content, DataPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import AgentFailed, MessageError
from turnwise.facts.events import ErrorInfo, Event, Guarded
from turnwise.facts.limits import Limits
from turnwise.facts.memory import TEXT_CHARACTERS, MemoryEntry
from turnwise.facts.messages import OfferedTool
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.ports.context import is_stopped
from turnwise.ports.guardrail import Guardrail, GuardrailVerdict, Place
from turnwise.runner.admission import check_offers
from turnwise.runner.guardrail_results import (
    GuardrailResult,
    StreamStage,
    effective_verdict,
    redacted_call,
    with_checked_answer,
    with_checked_calls,
    with_checked_summary,
    without_sealed_parts,
)

NAME = "tools"
"""The name of the data part that holds the offered tools for guardrails."""
WITHHELD = "withheld"
"""Replaces the tool's name in a blocked call, if guardrails do not allow the name."""
_PLAIN_NAME = re.compile(r"|(?!(?:[^0-9]*[0-9]){7})[a-z][a-z0-9_.#/?>~-]{0,47}")
"""Names that need no check: short, lower case, with at most six digits. They cannot hold an address, a number or a key."""

log = logging.getLogger("turnwise.runner")

MOST_THREADS = 8
"""The number of checks that run at once in this process. Others wait, at most for a check's timeout."""


class Guardrails:
    """The guardrails of an app. Each one checks the content as its predecessors left it.

    A guardrail that raises, times out or returns an invalid verdict blocks the content, with a reason that names it.

    Args:
        seconds: The timeout of one check.
    """

    def __init__(self, guardrails: Sequence[Guardrail], seconds: float) -> None:
        self._guardrails, self._seconds = guardrails, seconds
        self._allowed_names: set[str] = set()

    async def message(self, content: Content) -> GuardrailResult:
        """Checks a user's message."""
        return await self._run_all("message", content, None)

    async def offers(self, tools: tuple[OfferedTool, ...]) -> tuple[tuple[OfferedTool, ...], tuple[Guarded, ...]]:
        """Checks the tools that a caller offers, as a message.

        Returns:
            The allowed tools and the guardrails' actions. If the last action is a block, the caller's message is
            blocked.
        """
        if not tools or not self._guardrails:
            return tools, ()
        passed = await self._run_all("message", as_content(tools), None)
        return allowed_tools(passed.content) if passed.guarded else tools, passed.guarded

    async def brief(self, content: Content, author: str) -> GuardrailResult:
        """Checks the brief of a handoff, as an answer."""
        passed = await self._run_all("answer", content, author)
        return passed._replace(content=without_sealed_parts(passed.content)) if passed.guarded and passed.content else passed

    async def name(self, name: str, author: str) -> tuple[str, tuple[Guarded, ...]]:
        """Checks a name that an agent made up, as an answer.

        Returns:
            The quoted name, shortened to the maximum length of agent names, and the guardrails' actions.
        """
        passed = await self._run_all("answer", text_content(name), author)
        if passed.content is None:
            return "a name that is withheld", passed.guarded
        left = passed.content.text
        shown = repr(left[:NAME_CHARACTERS])
        return (f"{shown}…" if len(left) > NAME_CHARACTERS else shown), passed.guarded

    async def error(self, code: object, text: str, author: str) -> tuple[ErrorInfo, tuple[Guarded, ...]]:
        """Checks an agent's error, as an answer. A code that may not be recorded becomes `agent.failed`.

        Returns:
            The error as it is recorded, and the guardrails' actions on its text.
        """
        known = code if isinstance(code, str) and 0 < len(code) <= NAME_CHARACTERS else AgentFailed.code
        kept = known if await self.allows_name(known, author) else AgentFailed.code
        passed = await self._run_all("answer", text_content(text), author)
        if passed.guarded:
            withheld = f"Agent {author!r} failed; what the error says is withheld."
            text = withheld if passed.content is None else passed.content.text
        return ErrorInfo(code=kept, message=text), passed.guarded

    async def allows(self, text: str, author: str) -> bool:
        """Returns whether all guardrails leave the agent's text unchanged, checked as an answer."""
        return not (await self._run_all("answer", text_content(text), author)).guarded

    async def allows_name(self, name: str, author: str) -> bool:
        """Returns whether a name that an agent chose may be recorded: it is plain, or `allows` it. Asks once for each name."""
        if not self._guardrails or name in self._allowed_names or _PLAIN_NAME.fullmatch(name):
            return True
        if not await self.allows(name, author):
            return False
        self._allowed_names.add(name)
        return True

    async def check_names(self, what: str, names: Iterable[str], author: str) -> None:
        """Raises AgentFailed if a name may not be recorded. The error does not hold the name.

        Args:
            what: The kind of names, for the error: "the key of a step".
            names: The names.
            author: The agent that chose them.
        """
        for name in names:
            if not await self.allows_name(name, author):
                problem = f"A guardrail does not let {what} of agent {author!r} into the log."
                raise AgentFailed(problem, fix="Choose a name that holds no text of users, models or tools.")

    async def verdict(self, verdict: Verdict, author: str) -> Verdict:
        """Returns a selector's verdict as it is recorded. A model's text in it is checked as an answer."""
        if verdict.usage is None or not self._guardrails:
            return verdict
        reason, question = [await self._said_by_model(text, author) for text in (verdict.reason, verdict.question)]
        return verdict.replace(reason=reason, question=question)

    async def selection(self, selection: Selection) -> Selection:
        """Returns the decision as it is recorded: with checked verdicts. See `verdict`."""
        checked = [await self.verdict(verdict, selection.agent) for verdict in selection.verdicts]
        reason = selection.reason
        for before, after in zip(selection.verdicts, checked, strict=True):
            if before.reason and before.reason != after.reason:
                reason = reason.replace(before.reason, after.reason)
        return selection.replace(verdicts=tuple(checked), reason=reason)

    async def _said_by_model(self, text: str, author: str) -> str:
        passed = await self._run_all("answer", text_content(text), author)
        return "The model's text is withheld." if passed.content is None else passed.content.text

    async def event(self, event: Event) -> Event:
        """Returns an agent's event as it is recorded: checks its error, its summary, each tool call, then its content.

        An event that is already blocked is not checked again.
        """
        if not self._guardrails or event.actions.blocked_by:
            return event
        if event.error is not None:
            event = await self._with_error(event, event.error)
        if event.actions.summary is not None:
            event = with_checked_summary(
                event, await self._run_all("answer", text_content(event.actions.summary.text), event.author)
            )
        if event.content is None:
            return event
        guarded: tuple[Guarded, ...] = ()
        calls = []
        for call in event.content.tool_calls:
            passed = await self._run_all("tool_call", Content(parts=(call,)), event.author, call.call_id)
            call = redacted_call(call, passed)  # noqa: PLW2901
            if passed.content is None and not await self.allows_name(call.tool, event.author):
                call = call.replace(tool=WITHHELD)  # noqa: PLW2901
            calls.append(call)
            guarded += passed.guarded
        event = with_checked_calls(event, calls, guarded)
        if event.content is None or all(isinstance(part, ToolCallPart) for part in event.content.parts):
            return event
        passed = await self._run_all("answer", event.content, event.author)
        checked = with_checked_answer(event, passed)
        return await self._with_allowed_tools(checked) if passed.guarded else checked

    async def _with_allowed_tools(self, event: Event) -> Event:
        """Returns the event with tool names in its results only where they may be recorded."""
        content = event.content or Content()
        refused = {part.tool for part in content.tool_results if not await self.allows_name(part.tool, event.author)}
        parts = tuple(
            part.replace(tool=WITHHELD) if isinstance(part, ToolResultPart) and part.tool in refused else part
            for part in content.parts
        )
        return event.replace(content=content.replace(parts=parts)) if refused else event

    async def _with_error(self, event: Event, error: ErrorInfo) -> Event:
        """Returns the event with its checked error."""
        checked, guarded = await self.error(error.code, error.message, event.author)
        actions = event.actions.replace(guarded=(*event.actions.guarded, *guarded))
        return event.replace(error=checked, actions=actions)

    def stages(self, author: str) -> Sequence[StreamStage] | None:
        """Returns the stream stages for that author's answers; None when a guardrail must see the whole answer."""
        reaches = [_reach(guardrail) for guardrail in self._guardrails]
        known = [reach for reach in reaches if reach is not None]
        if len(known) < len(reaches):
            return None
        return [
            StreamStage(partial(self._check_text, guardrail, author), reach)
            for guardrail, reach in zip(self._guardrails, known, strict=True)
        ]

    async def _check_text(self, guardrail: Guardrail, author: str, text: str) -> str | None:
        """Returns a piece of an answer after one guardrail; None when it blocks."""
        verdict = await self._verdict(guardrail, "answer", text_content(text), author)
        if verdict.action == "block":
            return None
        return text if verdict.content is None else verdict.content.text

    async def _run_all(self, place: Place, content: Content, agent: str | None, call_id: str | None = None) -> GuardrailResult:
        """Runs all guardrails in order; each one checks what its predecessor left. Stops at the first block."""
        record: list[Guarded] = []
        for guardrail in self._guardrails:
            verdict = await self._verdict(guardrail, place, content, agent)
            if verdict.action == "allow":
                continue
            record.append(Guarded(guardrail=_name(guardrail), action=verdict.action, reason=verdict.reason, call_id=call_id))
            if verdict.content is None:
                return GuardrailResult(None, tuple(record))
            content = verdict.content
        return GuardrailResult(content, tuple(record))

    async def _verdict(self, guardrail: Guardrail, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Returns one guardrail's verdict. If it raises, times out or returns an invalid one, the verdict is a block."""
        clock, task = asyncio.timeout(self._seconds), asyncio.current_task()
        try:
            async with clock:
                verdict = effective_verdict(await _call_guardrail(guardrail, place, content, agent), place, content)
            problem = "" if verdict else "gave no verdict that could be followed"
        except BaseException as error:
            # SystemExit, a panic of an extension module, an unrequested cancellation: the guardrail failed.
            if is_stopped(error, task):
                raise
            verdict, problem = None, f"raised {type(error).__name__} {_raised_at(error)}"
            if clock.expired():
                problem = f"took longer than {self._seconds:g} s (limits.guardrail_seconds){_stuck_threads()}"
        if verdict is not None:
            return verdict
        # Without the exception's text, which may quote the checked content.
        log.error("The guardrail %r %s; the %s is blocked.", _name(guardrail), problem, place.replace("_", " "))
        return GuardrailVerdict("block", reason=f"The guardrail {_name(guardrail)!r} could not check this.")


def as_content(tools: Sequence[OfferedTool]) -> Content:
    """Returns the tools as the content that guardrails check."""
    data: list[JsonValue] = [tool.model_dump(mode="json") for tool in tools]
    return Content(role="user", parts=(DataPart(name=NAME, data=data),))


def allowed_tools(content: Content | None) -> tuple[OfferedTool, ...]:
    """Returns the tools in a checked content. Drops tools with a name or schema that a guardrail made invalid."""
    parts = content.parts if content is not None else ()
    data = next((part.data for part in parts if isinstance(part, DataPart) and part.name == NAME), None)
    left: dict[str, OfferedTool] = {}
    for tool in _read(data) if isinstance(data, list) else ():
        left.setdefault(tool.name, tool)
    return tuple(left.values())


class MemoryGuard(Guardrails):
    """The guardrails of an app, for entries of the memory, too."""

    async def remembered(self, entry: MemoryEntry, agent: str | None) -> MemoryEntry:
        """Returns the entry as it may be remembered. Raises AgentFailed when a guardrail blocks it."""
        checked = await self.memory(entry, agent)
        if checked is None:
            raise AgentFailed("A guardrail does not let this be remembered.", fix="Leave it out, or remember something else.")
        return checked

    async def memory(self, entry: MemoryEntry, agent: str | None) -> MemoryEntry | None:
        """Returns an entry as it may be remembered or read; None when a guardrail blocks it."""
        if not self._guardrails:
            return entry
        passed = await self._run_all("memory", text_content(entry.text), agent)
        if not passed.guarded:
            return entry
        # An entity's value may be what was taken out.
        left = passed.content.text[:TEXT_CHARACTERS] if passed.content is not None else ""
        return entry.replace(text=left, entity=None, kind="fact" if entry.entity else entry.kind) if left.strip() else None


class _Outcome(NamedTuple):
    value: Any = None
    problem: BaseException | None = None


@dataclass
class _Job:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[_Outcome]"
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    has_begun: bool = False
    is_abandoned: bool = False


class CheckThreads:
    """A pool of at most `most` daemon threads, started on demand. Safe to use from several event loops."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self.most = most
        self.stuck = 0
        """The number of threads that run a check whose caller no longer waits."""
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._busy = 0

    async def run(self, work: Callable[[], Any]) -> Any:
        """Runs `work` in a thread; returns its result or raises its exception.

        When cancelled, work in progress continues in its thread and counts as stuck until it ends. Queued work is
        dropped.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        with self._lock:
            self._busy += 1
            starts = self._threads < min(self.most, self._busy)
            self._threads += starts
        self._jobs.put(job)
        if starts:
            threading.Thread(target=self._work, name="turnwise-check", daemon=True).start()
        try:
            outcome = await job.done
        except asyncio.CancelledError:
            with self._lock:
                job.is_abandoned = True
                self.stuck += job.has_begun
            raise
        if outcome.problem is not None:
            raise outcome.problem
        return outcome.value

    def _work(self) -> None:
        while True:
            self._do(self._jobs.get())

    def _do(self, job: _Job) -> None:
        """Runs one job in a worker thread and delivers its result. Skips a job that was cancelled while queued."""
        with self._lock:
            job.has_begun = not job.is_abandoned
            self._busy -= not job.has_begun
        if not job.has_begun:
            return
        try:
            outcome = _Outcome(job.context.run(job.work))
        except BaseException as problem:
            outcome = _Outcome(problem=problem)
        with self._lock:
            self._busy -= 1
            self.stuck -= job.is_abandoned
            if not job.is_abandoned:
                _deliver(job, outcome)


CHECKS = CheckThreads()
"""The pool of this process."""


def _read(data: Sequence[JsonValue]) -> Iterator[OfferedTool]:
    """Yields the data that are valid tools, and skips the others."""
    for each in data:
        try:
            tool = OfferedTool.model_validate(each, strict=True)
            check_offers([tool], Limits(tools=1))
        except (ValidationError, MessageError):
            continue
        yield tool


async def _call_guardrail(guardrail: Guardrail, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
    """Calls the guardrail's `check`; a sync one runs in a thread."""
    if iscoroutinefunction(guardrail.check):
        return cast(GuardrailVerdict, await guardrail.check(place, content, agent))
    said = await CHECKS.run(partial(guardrail.check, place, content, agent))
    return cast(GuardrailVerdict, await said if isawaitable(said) else said)


def _stuck_threads() -> str:
    return f"; {CHECKS.stuck} of {CHECKS.most} threads for checks are stuck" if CHECKS.stuck else ""


def _name(guardrail: Guardrail) -> str:
    return str(guardrail.name)


def _reach(guardrail: Guardrail) -> int | None:
    """Returns the guardrail's reach; None when it must see the whole answer."""
    reach = getattr(guardrail, "reach", None)
    return reach if isinstance(reach, int) and reach >= 0 else None


def _raised_at(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"in {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""


def _deliver(job: _Job, outcome: _Outcome) -> None:
    if not job.loop.is_closed():
        job.loop.call_soon_threadsafe(lambda: None if job.done.done() else job.done.set_result(outcome))
