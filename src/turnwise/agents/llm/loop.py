"""One run of an LLM agent: the model, its calls, the model again, until it answers, hands over or waits.

Whatever is said and done stands in the log under the step's number, so that a run that is taken up again comes to the same
place without asking the model, or calling a tool, a second time.
"""

from collections.abc import Awaitable, Callable, Sequence

from pydantic import JsonValue

from turnwise.agents.llm.design import Design, design_for_turn
from turnwise.agents.llm.output import MORE_TOKENS, NAME as OUTPUT
from turnwise.agents.llm.request import ModelRequests
from turnwise.agents.llm.stream import TOKENS
from turnwise.agents.llm.summary import Summarizing
from turnwise.agents.llm.tool_calls import ToolRunner
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.content import Content, DataPart, Part, ToolResultPart
from turnwise.facts.errors import LimitReached, ModelAnswerInvalid
from turnwise.facts.events import End, Event
from turnwise.ports.context import AgentContext, Show

OUTPUT_NAME = "output"
"""The name of the data part that holds an answer of a type."""
TAKEN = "Taken."
"""The result of the call that gave the answer."""
ALREADY = "The answer was given by an earlier call."


class LlmRun:
    """One run. What it keeps besides the log is read from it."""

    def __init__(self, design: Design, context: AgentContext) -> None:
        self._design = design = design_for_turn(design, context)
        self._context = context
        self._toolbox = Toolbox(design, context)
        self._summarizing = Summarizing(wanted=design.summary_model is not None)
        self._asking = ModelRequests(design, context, self._toolbox, self._summarizing)
        self._acting = ToolRunner(context, self._toolbox, characters=design.result_characters)
        self._invalid = 0

    async def run(self) -> None:
        """LimitReached (steps), ModelError; Suspend when it waits."""
        most = self._context.config.limits.steps if self._design.max_steps is None else self._design.max_steps
        for step in range(1, most + 1):
            if await self._step(step):
                return
        name = self._context.card.name
        fix = "" if self._design.max_steps is None else f"Raise max_steps of agent {name!r} if this is expected."
        raise LimitReached("steps", f"Agent {name!r} asked its model {most} times without coming to an end.", fix=fix)

    async def _step(self, step: int) -> bool:
        """One answer of the model, and the results of its calls; True when the run is over with that."""
        event = await self._context.once(f"model#{step}", self._asking.make)
        if event.content is None or not event.content.tool_calls:
            if not event.actions.blocked_by:
                self._keep(event.text)
            return True
        results, told = await self._acting.act(step, event)
        answer = self._answer(results)
        is_over = answer is not None or self._handed_over(results) or self._is_done()
        rest = [result for result in results if result.call_id not in told]
        said = await self._context.once(f"results#{step}", self._saying(rest, answer, is_over=is_over))
        if answer is None:
            self._count_invalid(results, event)
        else:
            self._keep_data(said)
        return is_over

    def _handed_over(self, results: Sequence[ToolResultPart]) -> bool:
        transfer = self._toolbox.transfer
        return transfer is not None and any(r.tool == transfer.spec.name and not r.failed for r in results)

    def _is_done(self) -> bool:
        """Whether nothing is left to do for the flow that gave this turn."""
        return self._context.assignment is not None and self._context.assignment.is_over

    def _answer(self, results: Sequence[ToolResultPart]) -> ToolResultPart | None:
        """The result that is the answer: the first that fits."""
        if self._design.output is None:
            return None
        return next((result for result in results if result.tool == OUTPUT and not result.failed), None)

    def _saying(
        self, results: Sequence[ToolResultPart], answer: ToolResultPart | None, *, is_over: bool
    ) -> Callable[[Show], Awaitable[Event]]:
        async def make(_: Show) -> Event:
            parts: list[Part] = [_told(result, answer) for result in results]
            if answer is not None:
                parts.append(DataPart(name=OUTPUT_NAME, data=answer.result))
            event = self._context.event(Content(parts=tuple(parts)), end=End() if is_over else None)
            return self._summarizing.put(event) if is_over else event

        return make

    def _count_invalid(self, results: Sequence[ToolResultPart], event: Event) -> None:
        """ModelAnswerInvalid once the model had all its tries."""
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

    def _keep_data(self, said: Event) -> None:
        data = [part.data for part in said.content.parts if isinstance(part, DataPart)] if said.content else []
        if data:
            self._keep(data[-1])

    def _keep(self, answer: JsonValue) -> None:
        if self._design.output_key is not None:
            self._context.state[self._design.output_key] = answer


def _told(result: ToolResultPart, answer: ToolResultPart | None) -> ToolResultPart:
    """A result as it is recorded: the answer itself is said beside it."""
    if answer is None or result.tool != OUTPUT or result.failed:
        return result
    if result is answer:
        return result.model_copy(update={"result": TAKEN})
    return result.model_copy(update={"result": ALREADY, "failed": True})
