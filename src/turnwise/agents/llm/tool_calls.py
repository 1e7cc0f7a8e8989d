"""Runs the tool calls of one step, from the model's answer to their results.

plain calls, concurrently ─ approval questions ─┬─ all answered: approved calls ─┬─ later results ─ `last` calls
                                                └─ the turn waits               └─ the turn waits

The caller runs the tools that it offered, so their results always come later. A turn that waits runs again from its
start; recorded calls are replayed, not repeated.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents import approval
from turnwise.agents.llm.model_call import PARTS, TOKENS
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.content import Content, ToolCallPart, ToolResultPart
from turnwise.facts.errors import LimitReached, StaleWriter, ToolFailed, TurnwiseError
from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext, Show, Suspend, is_stopped
from turnwise.ports.tool import ChecksCalls, Tool, ToolCall, ToolSpec
from turnwise.tools.event_loop import run_together
from turnwise.tools.function import check_result_size, consumed, is_long

RAW_CHARACTERS = 200
CUT_OFF = {
    TOKENS: ": your answer ran into its limit of tokens before the call was whole. Call it again, with less in one answer.",
    PARTS: ", nor was what you called after it: your answer had more parts than are allowed. Call again, fewer at once.",
}
"""The text a model gets for the last call of an answer that was cut off."""
ERROR_CHARACTERS = 500


class ToolOutcome(NamedTuple):
    """The result of a tool call as the model sees it."""

    result: JsonValue
    failed: bool = False
    """True if the result is an error text."""


class ToolCallJob:
    """One tool call of a step and its progress.

    Args:
        place: The step and the position in it, as `step.position`; the key for recording.
        outcome: The result for the model, once it is known.
        begun: True if the tool was started, or the caller runs it, and the result comes later.
    """

    def __init__(
        self, place: str, part: ToolCallPart, tool: Tool | None, outcome: ToolOutcome | None = None, *, begun: bool = False
    ) -> None:
        self.place, self.part, self.outcome, self.begun = place, part, outcome, begun
        self._tool = tool

    @property
    def tool(self) -> Tool:
        """The tool that is called. Valid only while the call is open."""
        assert self._tool is not None
        return self._tool

    @property
    def is_open(self) -> bool:
        return self.outcome is None and not self.begun

    @property
    def result(self) -> ToolResultPart:
        outcome = self.outcome or ToolOutcome(None)
        return ToolResultPart(call_id=self.part.call_id, tool=self.part.tool, result=outcome.result, failed=outcome.failed)


class StepResults(NamedTuple):
    """The results of all calls of one step, in their order."""

    results: Sequence[ToolResultPart]
    recorded: frozenset[str]
    """The ids of the calls with results in the log."""


class _NotRecorded(Exception):
    """The result needs no record, because the tool's effect is already recorded.

    A failure has no such effect, so it is recorded like that of any other tool.
    """

    def __init__(self, outcome: ToolOutcome) -> None:
        super().__init__()
        self.outcome = outcome


class ToolRunner:
    """Makes the tool calls of one step. It keeps no state between steps: the log does."""

    def __init__(self, context: AgentContext, toolbox: Toolbox, *, characters: int) -> None:
        self._context, self._toolbox, self._characters = context, toolbox, characters

    async def act(self, step: int, event: Event) -> StepResults:
        """Makes the calls of the event and returns their results.

        If the step stops early, the finished results are recorded first. The model of any later turn then sees them.

        Raises:
            Suspend: Some calls wait, and all others are recorded.
        """
        calls = event.content.tool_calls if event.content else ()
        jobs = [await self._new_job(f"{step}.{place}", call, event) for place, call in enumerate(calls)]
        await self._recorded_results(step)  # replay recorded results before any new work
        try:
            await self._settle_all(jobs)
        except Suspend:
            await self._record_results(step, jobs)
            raise
        except (Exception, asyncio.CancelledError) as error:
            if not (isinstance(error, LimitReached) and error.which == "events"):
                with suppress(TurnwiseError):  # the first error explains the failure
                    await self._record_results(step, jobs)
            raise
        return StepResults([job.result for job in jobs], (await self._recorded_results(step))[1])

    async def _record_results(self, step: int, jobs: Sequence[ToolCallJob]) -> None:
        """Records the results that are known but not recorded yet. A typed answer is recorded only at the end."""
        count, recorded = await self._recorded_results(step)
        output = self._toolbox.output.spec.name if self._toolbox.output else None
        known = [job.result for job in jobs if job.outcome is not None and job.part.tool != output]
        new = tuple(result for result in known if result.call_id not in recorded)

        async def make(_: Show) -> Event:
            return self._context.event(Content(parts=new))

        if new:
            await self._context.once(f"told#{step}.{count + 1}", make)

    async def _recorded_results(self, step: int) -> tuple[int, frozenset[str]]:
        """Returns how many partial records of results this step has, and the ids of their calls."""
        count, call_ids = 0, frozenset[str]()
        while (key := f"told#{step}.{count + 1}") in self._context.recorded:
            event = await self._context.once(key, _never)
            call_ids |= {result.call_id for result in event.content.tool_results} if event.content else frozenset()
            count += 1
        return count, call_ids

    async def _settle_all(self, jobs: Sequence[ToolCallJob]) -> None:
        """Gets an outcome for every call. Raises Suspend if some calls wait."""
        to_approve = [job for job in jobs if job.is_open and await self._needs_approval(job)]
        unattended = [job for job in jobs if job.is_open and job not in to_approve]
        waits = await self._make_all(job for job in unattended if not job.tool.rules.last)
        for job in to_approve:
            await self._ask_approval(job)
        to_approve = [job for job in to_approve if job.is_open]
        # Results that arrived are replayed before any new work.
        waits |= await self._await([job for job in jobs if job.begun], self._take_result)
        undecided = await self._await(to_approve, self._take_decision, id_of=approval.question_id)
        if not undecided:
            waits |= await self._make_all(job for job in to_approve if job.is_open and not job.tool.rules.last)
            waits |= await self._await([job for job in jobs if job.begun], self._take_result)
        if waits or undecided:
            raise Suspend
        await self._make_last([job for job in jobs if job.is_open])

    async def _new_job(self, place: str, call: ToolCallPart, event: Event) -> ToolCallJob:
        """Returns the job of one call. A refused call, or one of an unknown tool, has its failed outcome already."""
        problem = refusal_reason(call, event)
        if call.offered and not problem:
            return self._caller_job(place, call)
        tool = None if problem else await self._toolbox.find(call.tool)
        if tool is None and not problem:
            # A call that was made needs no tool any more, and its toolset may be unavailable now.
            if (key := f"tool#{place}") in self._context.recorded:
                outcome = ToolOutcome(**await self._context.step(key, _never))
                begun = f"later#{place}" in self._context.recorded
                return ToolCallJob(place, call, None, None if begun else outcome, begun=begun)
            own = await self._toolbox.every()
            names = ", ".join([*own, *self._toolbox.offered(own)]) or "none"
            unavailable = "".join(f" Some tools cannot be had now: {why}" for why in self._toolbox.problems)
            problem = f"There is no tool {call.tool[:64]!r}{' now' if unavailable else ''}. Your tools: {names}.{unavailable}"
        return ToolCallJob(place, call, tool, ToolOutcome(problem, failed=True) if problem else None)

    def _caller_job(self, place: str, call: ToolCallPart) -> ToolCallJob:
        """Creates the job of a tool that the caller offered. The agent's tools do not matter: they may have changed since."""
        spec = self._toolbox.offer(call.tool)
        problem = argument_problem(spec, call.arguments) if spec else ""
        return ToolCallJob(place, call, None, ToolOutcome(problem, failed=True) if problem else None, begun=not problem)

    def _call(self, job: ToolCallJob) -> ToolCall:
        return ToolCall(job.part.call_id, job.part.arguments, self._context)

    async def _needs_approval(self, job: ToolCallJob) -> bool:
        """Checks whether the call needs approval. A call with bad arguments fails without a question."""
        confirm = job.tool.rules.confirm
        if not confirm:
            return False
        if f"tool#{job.place}" not in self._context.recorded:
            job.outcome = bad_arguments(job.tool, self._call(job), characters=self._characters)
        if job.outcome is not None:
            return False
        if confirm is True:
            return True
        return bool(await self._context.step(f"confirm?#{job.place}", lambda: self._ask_rule(job)))

    async def _ask_rule(self, job: ToolCallJob) -> bool:
        return await approval.is_needed(job.tool, self._call(job))

    async def _ask_approval(self, job: ToolCallJob) -> None:
        """Asks a person to approve the call. If a guardrail blocks the question, the call fails."""

        async def make(_: Show) -> Event:
            return approval.question(self._context, job.part)

        event = await self._context.once(f"confirm#{job.place}", make)
        if event.actions.awaits is None:
            by = event.actions.guarded[-1].guardrail if event.actions.guarded else "a guardrail"
            job.outcome = ToolOutcome(f"It was not called: the question whether it may was blocked by {by}.", failed=True)

    def _take_decision(self, job: ToolCallJob, result: ToolResultPart) -> None:
        answer = approval.answer_of(result)
        if not answer.approved:
            job.outcome = ToolOutcome(approval.refusal(answer), failed=True)

    def _take_result(self, job: ToolCallJob, result: ToolResultPart) -> None:
        job.outcome, job.begun = ToolOutcome(shortened(result.result, self._characters), result.failed), False

    async def _await(
        self,
        jobs: Sequence[ToolCallJob],
        take: Callable[[ToolCallJob, ToolResultPart], None],
        *,
        id_of: Callable[[str], str] = str,
    ) -> bool:
        """Passes each job its awaited result to `take`. Returns True if some results are missing."""
        try:
            results = await self._context.results(*(id_of(job.part.call_id) for job in jobs)) if jobs else ()
        except Suspend:
            return True
        for job, result in zip(jobs, results, strict=True):
            take(job, result)
        return False

    async def _make_all(self, jobs: Iterable[ToolCallJob]) -> bool:
        """Makes the calls concurrently. Returns True if some of them wait."""
        return any(await run_together([self._make_one(job) for job in jobs]))

    async def _make_last(self, jobs: Sequence[ToolCallJob]) -> None:
        """Makes the calls one after the other."""
        for job in jobs:
            if await self._make_one(job):
                raise Suspend
        if await self._await([job for job in jobs if job.begun], self._take_result):
            raise Suspend

    async def _make_one(self, job: ToolCallJob) -> bool:
        """Makes the call unless it is recorded. Returns True if it waits and has to be made again."""

        async def work() -> ToolResultPart:
            outcome = await call_tool(job.tool, self._call(job), characters=self._characters)
            if not (job.tool.rules.recorded or outcome.failed):
                raise _NotRecorded(outcome)
            # Guardrails see the result before it is recorded. The note that a call has begun is not its result, so it
            # gets another id.
            later = job.tool.rules.later and not outcome.failed
            id_ = f"{job.part.call_id}-begun" if later else job.part.call_id
            return ToolResultPart(call_id=id_, tool=job.part.tool, result=outcome.result, failed=outcome.failed)

        try:
            recorded: Any = await self._context.step(f"tool#{job.place}", work)
            outcome = ToolOutcome(**recorded)
        except _NotRecorded as error:
            outcome = error.outcome
        except Suspend:
            return True
        if job.tool.rules.later and not outcome.failed:
            await self._context.step(f"later#{job.place}", lambda: True)
            job.begun = True
        else:
            job.outcome = outcome
        return False


def refusal_reason(call: ToolCallPart, event: Event) -> str:
    """Returns the reason why the call is not made, regardless of its tool; empty if it may be made.

    A guardrail may have blocked it, or its arguments may be incomplete.
    """
    blocked = next((g for g in event.actions.guarded if g.call_id == call.call_id and g.action == "block"), None)
    if blocked is not None:
        because = f": {blocked.reason}" if blocked.reason else "."
        return f"It was not called: {blocked.guardrail} blocked it{because}"
    if call.raw is None:
        return ""
    is_last = event.content is not None and event.content.tool_calls[-1].call_id == call.call_id
    if is_last and event.actions.cut_off in CUT_OFF:
        return f"It was not called{CUT_OFF[event.actions.cut_off]}"
    return f"It was not called: its arguments have to be one JSON object, and are: {call.raw[:RAW_CHARACTERS]}"


def argument_problem(spec: ToolSpec, arguments: Mapping[str, JsonValue]) -> str:
    """Checks the argument names against the tool's schema: missing and unknown ones.

    Returns the problem as text, or an empty string. The tool itself checks the rest.
    """
    schema: Mapping[str, Any] = spec.parameters
    properties, required = schema.get("properties"), schema.get("required")
    # The schema of an external toolset may hold anything.
    known = [name for name in properties if isinstance(name, str)] if isinstance(properties, Mapping) else []
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []
    missing = [name for name in needed if name not in arguments]
    unknown = [name for name in arguments if name not in known] if schema.get("additionalProperties") is False else []
    problems = [*(f"{name!r} is missing" for name in missing), *(f"{name!r} is not a parameter" for name in unknown)]
    if not problems:
        return ""
    return f"The arguments do not fit: {'; '.join(problems)}. Parameters: {', '.join(known) or 'none'}."


async def call_tool(tool: Tool, call: ToolCall, *, characters: int) -> ToolOutcome:
    """Runs the tool and returns its result, or its failure as a result that the model can react to.

    The result has at most `characters` characters, with a mark if it was cut. Other errors of a session or a store may
    come from another session that the tool uses. A problem of this session shows when the result is recorded.

    Raises:
        Suspend: The tool waits.
        StaleWriter: Nothing can be recorded any more.
        LimitReached: The event limit is reached (`events`).
    """
    seconds = call.context.config.limits.tool_seconds if tool.rules.seconds is None else tool.rules.seconds
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(seconds) as clock:
            given = [await tool.run(call)]
        return ToolOutcome(await _as_read(given, tool.spec.name, characters))
    except (StaleWriter, Suspend):
        raise
    except ToolFailed as problem:
        return ToolOutcome(shortened(str(problem), characters), failed=True)
    except BaseException as error:
        # An unrequested cancellation, SystemExit or a panic of an extension module is a failure of the tool, not ours.
        if is_stopped(error, task):
            raise
        if isinstance(error, LimitReached) and error.which == "events":
            raise
        if isinstance(error, TimeoutError) and clock.expired():
            return ToolOutcome(f"{tool.spec.name} took longer than {seconds:g} s.", failed=True)
        return _failure(error)


def bad_arguments(tool: Tool, call: ToolCall, *, characters: int) -> ToolOutcome | None:
    """Checks the arguments before the call. Returns the same failure as `call_tool`, or None if no problem is found."""
    if not isinstance(tool, ChecksCalls):
        problem = argument_problem(tool.spec, call.arguments)
        return ToolOutcome(problem, failed=True) if problem else None
    try:
        tool.check_call(call)
    except ToolFailed as problem:
        return ToolOutcome(shortened(str(problem), characters), failed=True)
    except Exception as error:
        return _failure(error)
    return None


async def _as_read(given: list[JsonValue], tool: str, characters: int) -> JsonValue:
    """Returns the result in the list as a model reads it: shortened. A long one is converted and freed in a thread.

    Raises as `shortened`, and ToolFailed as `check_result_size`.
    """
    if not is_long(given[0]):
        return shortened(given.pop(), characters)
    return await asyncio.to_thread(consumed, _long_as_read, given, tool, characters)


def _long_as_read(value: JsonValue, tool: str, characters: int) -> JsonValue:
    check_result_size(value, tool)
    return shortened(value, characters)


def shortened(value: JsonValue, characters: int) -> JsonValue:
    """Returns the value if it is short enough; otherwise the beginning of its text, which states the full length.

    Raises:
        TypeError, ValueError, RecursionError: The value is not JSON.
    """
    if isinstance(value, str) and len(value) > characters:
        return _cut(value, characters)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()
    plain: JsonValue = json.loads(text)
    shown = plain if isinstance(plain, str) else text
    if len(shown) <= characters:
        return plain
    return _cut(shown, characters)


def _cut(text: str, characters: int) -> str:
    shown = text[:characters].encode("utf-8", "replace").decode()
    return f"{shown}… [cut: this is the beginning of {len(text):,} characters]"


def _failure(error: BaseException) -> ToolOutcome:
    return ToolOutcome(f"{type(error).__name__}: {_message_of(error)[:ERROR_CHARACTERS]}", failed=True)


def _message_of(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "it cannot say what went wrong"


async def _never(*_: Any) -> Any:
    raise AssertionError("It is on record.")
