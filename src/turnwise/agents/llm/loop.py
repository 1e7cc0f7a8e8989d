"""The loop of an LLM agent: model call, tool calls, next model call, until it answers, transfers or waits.

Every model call and tool call is recorded under its step number, so a resumed run replays them instead of repeating
them.
"""

from collections.abc import Awaitable, Callable, Sequence

from pydantic import JsonValue

from turnwise.agents.llm.design import MORE_TOKENS, NAME as OUTPUT, Design, design_for_turn
from turnwise.agents.llm.model_call import ModelRequests
from turnwise.agents.llm.stream import TOKENS
from turnwise.agents.llm.summary import Summarizing
from turnwise.agents.llm.tool_calls import ToolRunner
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.content import Content, DataPart, Part, ToolResultPart
from turnwise.facts.errors import LimitReached, ModelAnswerInvalid
from turnwise.facts.events import End, Event
from turnwise.ports.context import AgentContext, Show

OUTPUT_NAME = "output"
"""The name of the data part that holds a typed answer."""
TAKEN = "Taken."
"""The result of the output tool's call that gave the answer."""
ALREADY = "The answer was given by an earlier call."
"""The result of any further output call in the same step."""


class LlmRun:
    """One run of an LLM agent. Its state outside the log can be rebuilt from the log."""

    def __init__(self, design: Design, context: AgentContext) -> None:
        self._design = design = design_for_turn(design, context)
        self._context = context
        self._toolbox = Toolbox(design, context)
        self._summarizing = Summarizing(wanted=design.summary_model is not None)
        self._requests = ModelRequests(design, context, self._toolbox, self._summarizing)
        self._tool_runner = ToolRunner(context, self._toolbox, characters=design.result_characters)
        self._invalid = 0

    async def run(self) -> None:
        """Runs steps until the agent is done.

        Raises:
            LimitReached: The step limit is reached (`steps`).
            ModelError: The model failed.
            Suspend: The turn waits for a result or an approval.
        """
        max_steps = self._context.config.limits.steps if self._design.max_steps is None else self._design.max_steps
        await self._requests.preload()
        for step in range(1, max_steps + 1):
            if await self._step(step):
                return
        name = self._context.card.name
        fix = "" if self._design.max_steps is None else f"Raise max_steps of agent {name!r} if this is expected."
        raise LimitReached("steps", f"Agent {name!r} asked its model {max_steps} times without coming to an end.", fix=fix)

    async def _step(self, step: int) -> bool:
        """Runs one model call and its tool calls. Returns True when the run is over."""
        event = await self._context.once(f"model#{step}", self._requests.make)
        if event.content is None or not event.content.tool_calls:
            if not event.actions.blocked_by:
                self._store_answer(event.text)
            return True
        results, recorded = await self._tool_runner.act(step, event)
        answer = self._answer(results)
        is_over = answer is not None or self._has_transferred(results) or self._is_done()
        rest = [result for result in results if result.call_id not in recorded]
        results_event = await self._context.once(f"results#{step}", self._results_event_maker(rest, answer, is_over=is_over))
        if answer is None:
            self._count_invalid(results, event)
        else:
            self._store_data(results_event)
        return is_over

    def _has_transferred(self, results: Sequence[ToolResultPart]) -> bool:
        transfer = self._toolbox.transfer
        return transfer is not None and any(r.tool == transfer.spec.name and not r.failed for r in results)

    def _is_done(self) -> bool:
        """Checks whether no work is left for the flow that assigned this turn."""
        return self._context.assignment is not None and self._context.assignment.is_over

    def _answer(self, results: Sequence[ToolResultPart]) -> ToolResultPart | None:
        """Returns the result that is the typed answer: the first successful output call."""
        if self._design.output is None:
            return None
        return next((result for result in results if result.tool == OUTPUT and not result.failed), None)

    def _results_event_maker(
        self, results: Sequence[ToolResultPart], answer: ToolResultPart | None, *, is_over: bool
    ) -> Callable[[Show], Awaitable[Event]]:
        """Returns a function that makes the event of the tool results; the last one holds the answer and ends the run."""

        async def make(_: Show) -> Event:
            parts: list[Part] = [_recorded_result(result, answer) for result in results]
            if answer is not None:
                parts.append(DataPart(name=OUTPUT_NAME, data=answer.result))
            event = self._context.event(Content(parts=tuple(parts)), end=End() if is_over else None)
            return self._summarizing.put(event) if is_over else event

        return make

    def _count_invalid(self, results: Sequence[ToolResultPart], event: Event) -> None:
        """Counts answers that do not fit the output type. Raises ModelAnswerInvalid when the retries are used up."""
        if self._design.output is None or not any(result.tool == OUTPUT for result in results):
            return
        self._invalid += 1
        if self._invalid > self._design.output_retries:
            last = next(result.result for result in reversed(results) if result.tool == OUTPUT)
            raise ModelAnswerInvalid(
                f"The model {self._design.model.name} gave agent {self._context.card.name!r} no answer of its output_type "
                f"in {self._invalid} tries. {last}",
                fix=MORE_TOKENS if event.actions.cut_off == TOKENS else "",
            )

    def _store_data(self, event: Event) -> None:
        data = [part.data for part in event.content.parts if isinstance(part, DataPart)] if event.content else []
        if data:
            self._store_answer(data[-1])

    def _store_answer(self, answer: JsonValue) -> None:
        if self._design.output_key is not None:
            self._context.state[self._design.output_key] = answer


def _recorded_result(result: ToolResultPart, answer: ToolResultPart | None) -> ToolResultPart:
    """Returns the result as it is recorded. The typed answer is stored as a data part beside it, not in the result."""
    if answer is None or result.tool != OUTPUT or result.failed:
        return result
    if result is answer:
        return result.replace(result=TAKEN)
    return result.replace(result=ALREADY, failed=True)
