"""The tool calls of one step, from the model's answer to their results.

plain ones side by side ─ questions to a person ─┬─ all answered: what was agreed to ─┬─ late results ─ the `last` ones
                                                 └─ the turn waits                    └─ the turn waits

Calls of tools that the caller offered are the caller's to make: here their results are late ones.

A turn that waits is run again from its beginning: what is on record is found there and not done again.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents import approval
from turnwise.agents.concurrency import run_together
from turnwise.agents.llm.stream import PARTS, TOKENS
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.content import Content, ToolCallPart, ToolResultPart
from turnwise.facts.errors import LimitReached, StaleWriter, ToolFailed, TurnwiseError
from turnwise.facts.events import Event
from turnwise.ports.context import AgentContext, Show, Suspend
from turnwise.ports.stopping import is_stopped
from turnwise.ports.tool import ChecksCalls, Tool, ToolCall, ToolSpec

RAW_CHARACTERS = 200
CUT_OFF = {
    TOKENS: ": your answer ran into its limit of tokens before the call was whole. Call it again, with less in one answer.",
    PARTS: ", nor was what you called after it: your answer had more parts than are allowed. Call again, fewer at once.",
}
"""What a model is told of the last call of an answer that was cut off."""


def refusal_reason(call: ToolCallPart, event: Event) -> str:
    """Why that call of the event is not made, whatever tool it is for; empty when it may be."""
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
    """What is plainly wrong with the arguments by the tool's schema: names that are missing, and names that it has not.

    Empty when there is nothing; the tool itself checks the rest.
    """
    schema: Mapping[str, Any] = spec.parameters
    properties, required = schema.get("properties"), schema.get("required")
    # A schema of a foreign toolset may hold anything.
    known = [name for name in properties if isinstance(name, str)] if isinstance(properties, Mapping) else []
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []
    missing = [name for name in needed if name not in arguments]
    unknown = [name for name in arguments if name not in known] if schema.get("additionalProperties") is False else []
    problems = [*(f"{name!r} is missing" for name in missing), *(f"{name!r} is not a parameter" for name in unknown)]
    if not problems:
        return ""
    return f"The arguments do not fit: {'; '.join(problems)}. Parameters: {', '.join(known) or 'none'}."


ERROR_CHARACTERS = 500


class ToolOutcome(NamedTuple):
    """What the model is told; `failed`: that is an error."""

    result: JsonValue
    failed: bool = False


async def call_tool(tool: Tool, call: ToolCall, *, characters: int) -> ToolOutcome:
    """What the tool gave, or how it failed: a result that the model can react to.

    At most `characters` of it, with a mark where it was cut. Raises Suspend when the tool waits, and StaleWriter: nothing can
    be recorded any more. Other errors of a session or a store may be those of another one, which the tool uses; whether this
    one has a problem shows when the result is recorded.
    """
    seconds = call.context.config.limits.tool_seconds if tool.rules.seconds is None else tool.rules.seconds
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(seconds) as clock:
            given = await tool.run(call)
        return ToolOutcome(shortened(given, characters))
    except (StaleWriter, Suspend):
        raise
    except ToolFailed as problem:
        return ToolOutcome(shortened(str(problem), characters), failed=True)
    except BaseException as error:
        # A cancellation that nobody asked for, SystemExit, a panic of an extension module: the tool's failure, not ours.
        if is_stopped(error, task):
            raise
        if isinstance(error, LimitReached) and error.which == "events":
            raise
        if isinstance(error, TimeoutError) and clock.expired():
            return ToolOutcome(f"{tool.spec.name} took longer than {seconds:g} s.", failed=True)
        return _raised(error)


def bad_arguments(tool: Tool, call: ToolCall, *, characters: int) -> ToolOutcome | None:
    """What the model is told of a call that the tool would not take, as `call_tool` tells it; None when it would, as far as can
    be known before.
    """
    if not isinstance(tool, ChecksCalls):
        problem = argument_problem(tool.spec, call.arguments)
        return ToolOutcome(problem, failed=True) if problem else None
    try:
        tool.check_call(call)
    except ToolFailed as problem:
        return ToolOutcome(shortened(str(problem), characters), failed=True)
    except Exception as error:
        return _raised(error)
    return None


def shortened(value: JsonValue, characters: int) -> JsonValue:
    """The value as it can be stored and is short enough; one that is too long is text, and says how long it was.

    TypeError, ValueError, RecursionError for what is no JSON value.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()
    plain: JsonValue = json.loads(text)
    shown = plain if isinstance(plain, str) else text
    if len(shown) <= characters:
        return plain
    return f"{shown[:characters]}… [cut: this is the beginning of {len(shown):,} characters]"


def _raised(error: BaseException) -> ToolOutcome:
    return ToolOutcome(f"{type(error).__name__}: {_words(error)[:ERROR_CHARACTERS]}", failed=True)


def _words(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "it cannot say what went wrong"


class ToolCallJob:
    """One call, and how far it is. place: its step and its place in it. told: what the model is told, once that is known.
    begun: whether the tool ran, or the caller runs it, and its result comes later.
    """

    def __init__(
        self, place: str, part: ToolCallPart, tool: Tool | None, told: ToolOutcome | None = None, *, begun: bool = False
    ) -> None:
        self.place, self.part, self.told, self.begun = place, part, told, begun
        self._tool = tool

    @property
    def tool(self) -> Tool:
        """The tool that is called; ask only when nothing is told yet."""
        assert self._tool is not None
        return self._tool

    @property
    def is_open(self) -> bool:
        return self.told is None and not self.begun

    @property
    def result(self) -> ToolResultPart:
        told = self.told or ToolOutcome(None)
        return ToolResultPart(call_id=self.part.call_id, tool=self.part.tool, result=told.result, failed=told.failed)


class StepResults(NamedTuple):
    """The results of all calls of a step, in their order; said: the ids of those calls whose results are in the log by now."""

    results: Sequence[ToolResultPart]
    said: frozenset[str]


class _NotRecorded(Exception):
    """What the tool gave is on record by what it did. That it failed is not, and has to become a step like any other's."""

    def __init__(self, told: ToolOutcome) -> None:
        super().__init__()
        self.told = told


class ToolRunner:
    """Makes the calls of one step after the other. It keeps nothing between them: the log does."""

    def __init__(self, context: AgentContext, toolbox: Toolbox, *, characters: int) -> None:
        self._context, self._toolbox, self._characters = context, toolbox, characters

    async def act(self, step: int, event: Event) -> StepResults:
        """What came of the event's calls. Suspend when some of them wait, and all others are recorded.

        However it ends before all is done, what was done is said first: whatever is said next in this conversation, by
        whomever, its model reads what came of the calls that were made.
        """
        calls = event.content.tool_calls if event.content else ()
        jobs = [await self._job(f"{step}.{place}", call, event) for place, call in enumerate(calls)]
        await self._said(step)  # before anything new is done, the turn comes to all that was said
        try:
            await self._work_off(jobs)
        except Suspend:
            await self._say(step, jobs)
            raise
        except (Exception, asyncio.CancelledError) as error:
            if not (isinstance(error, LimitReached) and error.which == "events"):
                with suppress(TurnwiseError):  # the first error is the one that tells why
                    await self._say(step, jobs)
            raise
        return StepResults([job.result for job in jobs], (await self._said(step))[1])

    async def _say(self, step: int, jobs: Sequence[ToolCallJob]) -> None:
        """Says what is told by now and was not said before. An answer of a type is said at the end alone."""
        count, said = await self._said(step)
        output = self._toolbox.output.spec.name if self._toolbox.output else None
        told = [job.result for job in jobs if job.told is not None and job.part.tool != output]
        new = tuple(result for result in told if result.call_id not in said)

        async def make(_: Show) -> Event:
            return self._context.event(Content(parts=new))

        if new:
            await self._context.once(f"told#{step}.{count + 1}", make)

    async def _said(self, step: int) -> tuple[int, frozenset[str]]:
        """How often something was said before all calls of the step were done, and of which calls."""
        count, said = 0, frozenset[str]()
        while (key := f"told#{step}.{count + 1}") in self._context.recorded:
            event = await self._context.once(key, _never)
            said |= {result.call_id for result in event.content.tool_results} if event.content else frozenset()
            count += 1
        return count, said

    async def _work_off(self, jobs: Sequence[ToolCallJob]) -> None:
        """Sees to it that something is told of every call. Suspend when some of them wait."""
        asked = [job for job in jobs if job.is_open and await self._asks(job)]
        plain = [job for job in jobs if job.is_open and job not in asked]
        waits = await self._make(job for job in plain if not job.tool.rules.last)
        for job in asked:
            await self._question(job)
        asked = [job for job in asked if job.is_open]
        # Before anything new is done, the turn comes to all that it waited for.
        waits |= await self._await([job for job in jobs if job.begun], self._arrived)
        undecided = await self._await(asked, self._decided, id_of=approval.question_id)
        if not undecided:
            waits |= await self._make(job for job in asked if job.is_open and not job.tool.rules.last)
            waits |= await self._await([job for job in jobs if job.begun], self._arrived)
        if waits or undecided:
            raise Suspend
        await self._make_last([job for job in jobs if job.is_open])

    async def _job(self, place: str, call: ToolCallPart, event: Event) -> ToolCallJob:
        problem = refusal_reason(call, event)
        if call.offered and not problem:
            return self._offered(place, call)
        tool = None if problem else await self._toolbox.find(call.tool)
        if tool is None and not problem:
            # A call that was made needs no tool any more, and its tool may be out of reach now.
            if (key := f"tool#{place}") in self._context.recorded:
                told = ToolOutcome(**await self._context.step(key, _never))
                begun = f"later#{place}" in self._context.recorded
                return ToolCallJob(place, call, None, None if begun else told, begun=begun)
            own = await self._toolbox.every()
            names = ", ".join([*own, *self._toolbox.offered(own)]) or "none"
            away = "".join(f" Some tools cannot be had now: {why}" for why in self._toolbox.problems)
            problem = f"There is no tool {call.tool[:64]!r}{' now' if away else ''}. Your tools: {names}.{away}"
        return ToolCallJob(place, call, tool, ToolOutcome(problem, failed=True) if problem else None)

    def _offered(self, place: str, call: ToolCallPart) -> ToolCallJob:
        """The call of a tool that the caller offered, as the call itself says: whatever tools there are by now."""
        spec = self._toolbox.offer(call.tool)
        problem = argument_problem(spec, call.arguments) if spec else ""
        return ToolCallJob(place, call, None, ToolOutcome(problem, failed=True) if problem else None, begun=not problem)

    def _call(self, job: ToolCallJob) -> ToolCall:
        return ToolCall(job.part.call_id, job.part.arguments, self._context)

    async def _asks(self, job: ToolCallJob) -> bool:
        """Whether a person has to be asked first. A call that the tool will not take is nobody's to decide on."""
        confirm = job.tool.rules.confirm
        if not confirm:
            return False
        if f"tool#{job.place}" not in self._context.recorded:
            job.told = bad_arguments(job.tool, self._call(job), characters=self._characters)
        if job.told is not None:
            return False
        if confirm is True:
            return True
        return bool(await self._context.step(f"confirm?#{job.place}", lambda: self._needs(job)))

    async def _needs(self, job: ToolCallJob) -> bool:
        return await approval.is_needed(job.tool, self._call(job))

    async def _question(self, job: ToolCallJob) -> None:
        async def make(_: Show) -> Event:
            return approval.question(self._context, job.part)

        event = await self._context.once(f"confirm#{job.place}", make)
        if event.actions.awaits is None:
            by = event.actions.guarded[-1].guardrail if event.actions.guarded else "a guardrail"
            job.told = ToolOutcome(f"It was not called: the question whether it may was blocked by {by}.", failed=True)

    def _decided(self, job: ToolCallJob, result: ToolResultPart) -> None:
        answer = approval.answer_of(result)
        if not answer.approved:
            job.told = ToolOutcome(approval.refusal(answer), failed=True)

    def _arrived(self, job: ToolCallJob, result: ToolResultPart) -> None:
        job.told, job.begun = ToolOutcome(shortened(result.result, self._characters), result.failed), False

    async def _await(
        self,
        jobs: Sequence[ToolCallJob],
        take: Callable[[ToolCallJob, ToolResultPart], None],
        *,
        id_of: Callable[[str], str] = str,
    ) -> bool:
        """Gives each job the result that it waits for; True when not all are there."""
        try:
            results = await self._context.results(*(id_of(job.part.call_id) for job in jobs)) if jobs else ()
        except Suspend:
            return True
        for job, result in zip(jobs, results, strict=True):
            take(job, result)
        return False

    async def _make(self, jobs: Iterable[ToolCallJob]) -> bool:
        """Makes these calls side by side; True when some of them wait."""
        return any(await run_together([self._make_one(job) for job in jobs]))

    async def _make_last(self, jobs: Sequence[ToolCallJob]) -> None:
        """Makes these calls one after the other."""
        for job in jobs:
            if await self._make_one(job):
                raise Suspend
        if await self._await([job for job in jobs if job.begun], self._arrived):
            raise Suspend

    async def _make_one(self, job: ToolCallJob) -> bool:
        """Makes the call, unless that is on record; True when it waits, and has to be made again."""

        async def work() -> ToolResultPart:
            told = await call_tool(job.tool, self._call(job), characters=self._characters)
            if not (job.tool.rules.recorded or told.failed):
                raise _NotRecorded(told)
            # As a result it is recorded with what guardrails leave of it; a word that it has begun is none of this call.
            later = job.tool.rules.later and not told.failed
            id_ = f"{job.part.call_id}-begun" if later else job.part.call_id
            return ToolResultPart(call_id=id_, tool=job.part.tool, result=told.result, failed=told.failed)

        try:
            recorded: Any = await self._context.step(f"tool#{job.place}", work)
            told = ToolOutcome(**recorded)
        except _NotRecorded as done:
            told = done.told
        except Suspend:
            return True
        if job.tool.rules.later and not told.failed:
            await self._context.step(f"later#{job.place}", lambda: True)
            job.begun = True
        else:
            job.told = told
        return False


async def _never(*_: Any) -> Any:
    raise AssertionError("It is on record.")
