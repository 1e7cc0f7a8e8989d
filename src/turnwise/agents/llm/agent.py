"""LlmAgent: an agent whose model answers and calls tools, in a loop until it answers, transfers or waits.

Every model call and tool call is recorded under its step number, so a resumed run replays them instead of repeating
them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, get_args

from pydantic import JsonValue

from turnwise.agents.function import make_card
from turnwise.agents.llm.design import MORE_TOKENS, NAME as OUTPUT, Design, Instructions, OutputTool, design_for_turn
from turnwise.agents.llm.memory import MEMORY_TOOLS, MemoryMode, MemoryUse
from turnwise.agents.llm.model_call import TOKENS, ModelRequests
from turnwise.agents.llm.summary import KIND, Summarizing, summed_up
from turnwise.agents.llm.tool_calls import ToolRunner
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.agents.members import members_of
from turnwise.facts.content import Content, DataPart, Part, ToolResultPart
from turnwise.facts.errors import AgentDefinitionError, LimitReached, ModelAnswerInvalid
from turnwise.facts.events import Actions, End, Event
from turnwise.facts.tree import AgentCard
from turnwise.models.by_name import Spec, model_of
from turnwise.ports.agent import Agent, LogPages
from turnwise.ports.context import AgentContext, Show
from turnwise.ports.stores import BackgroundJob
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.function import FunctionTool
from turnwise.tools.names import OF_AGENTS
from turnwise.transcript.view import Budget

HISTORY = Budget(tokens=24_000, events=200)
"""The default budget of one model request: instructions, tools, and the part of the conversation that still fits."""
RESULT_CHARACTERS = 20_000
"""The default number of characters of a tool result that the model sees."""
OUTPUT_RETRIES = 2
"""The default number of retries after an answer that does not have the output type."""

OUTPUT_NAME = "output"
"""The name of the data part that holds a typed answer."""
TAKEN = "Taken."
"""The result of the output tool's call that gave the answer."""
ALREADY = "The answer was given by an earlier call."
"""The result of any further output call in the same step."""


class LlmAgent:
    """An agent that runs a model and its tool calls in a loop until the model answers, transfers or waits.

    The model gets the conversation as this agent saw it, never another session's.

    Args:
        name: The agent's name.
        model: A name such as `openai:gpt-5`, an endpoint, a Model, or a list of these. In a list, the first model that answers
        is used.
        instructions: A template, or a function of the context, sync or async. In a template, `{key}` is replaced with
            the state's value (`{user:name}`, `{app:shop}`), and `{artifact.name}` with the text of an artifact.
            `{key?}` may be missing, and `{{key}}` is a literal `{key}`. The text of a function is used unchanged.
        turn_instructions: Like `instructions`, for what changes from turn to turn, such as the date or the state. The model
            gets them after the conversation, and again when they change. The beginning of its request therefore stays the same.
        tools: Tools, Toolsets and plain functions. The model sees at most `result_characters` of a result. A tool that
            fails gives the model the reason.
        output_type: A type that pydantic knows. The answer is then a DataPart named `output`. With None or str, the
            answer is text.
        output_key: The state key that stores the answer.
        output_retries: The number of retries after an answer that does not fit `output_type`; the model sees the
            problem.
        settings: Settings for the provider.
        max_steps: The most model calls in one run; None means `limits.steps`.
        history: The budget of one model request.
        summary_model: Summarizes the older conversation after the turn, before it exceeds the budget. None means no
            summary.
        names_next: Lists the agent's colleagues in the prompt, with the tag that names the next speaker.
        callers_tools: Lets the model call tools that callers offer with their messages.
        memory: How the model uses what is known of the user beyond this session: `none`, by `tool`s, by `preload`, or `both`.
            A MemoryUse says more.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        AgentDefinitionError: A value is not valid.
        ConfigError: A model or a function cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Spec,
        description: str = "",
        instructions: Instructions = "",
        turn_instructions: Instructions = "",
        tools: Sequence[Tool | Toolset | Callable[..., Any]] = (),
        output_type: Any = None,
        output_key: str | None = None,
        output_retries: int = OUTPUT_RETRIES,
        settings: Mapping[str, JsonValue] | None = None,
        max_steps: int | None = None,
        history: Budget = HISTORY,
        result_characters: int = RESULT_CHARACTERS,
        summary_model: Spec | None = None,
        names_next: bool = False,
        callers_tools: bool = True,
        memory: MemoryMode | MemoryUse = "none",
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        self.card = make_card({"name": name, "description": description, "kind": "llm", **card})
        self.children = members_of(self.card.name, children)
        use = memory if isinstance(memory, MemoryUse) else MemoryUse(memory)
        _check_memory(name, use)
        all_tools = [_tool(each, name) for each in (*tools, *(MEMORY_TOOLS if use.has_tools else ()))]
        _check_minimum(name, 1, max_steps=max_steps, result_characters=result_characters, **history._asdict())
        _check_minimum(name, 0, output_retries=output_retries)
        self._design = Design(
            model=model_of(model),
            instructions=instructions,
            turn_instructions=turn_instructions,
            tools=_distinct([each for each in all_tools if _is_tool(each)], name),
            toolsets=[each for each in all_tools if not _is_tool(each)],
            output=None if output_type in (None, str) else OutputTool(output_type, name),
            output_key=output_key,
            output_retries=output_retries,
            settings=dict(settings or {}),
            max_steps=max_steps,
            history=history,
            summary_model=None if summary_model is None else model_of(summary_model),
            names_next=names_next,
            callers_tools=callers_tools,
            result_characters=result_characters,
            memory=use,
        )

    def __repr__(self) -> str:
        return f"LlmAgent({self.card.name!r})"

    @property
    def model(self) -> str:
        """The name of the model; for a list, all names."""
        return self._design.model.name

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await LlmRun(self._design, context).run()  # emits every event through the context, so a resumed run replays them
        return
        yield

    async def do_job(self, job: BackgroundJob, log: LogPages) -> Actions | None:
        """Makes the summary that a turn requested.

        Returns:
            The actions with the summary, or None if a summary already covers the events or the agent makes none.

        Raises:
            ModelError: The model failed.
        """
        if self._design.summary_model is None or job.request.kind != KIND:
            return None
        return await summed_up(self._design.summary_model, job, log, self._design.history)

    async def close(self) -> None:
        """Closes the toolsets; a later use opens them again."""
        await asyncio.gather(*(toolset.close() for toolset in self._design.toolsets))


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


def _check_minimum(agent: str, minimum: int, **numbers: int | None) -> None:
    for field, value in numbers.items():
        if value is not None and value < minimum:
            raise AgentDefinitionError(f"Agent {agent!r}: {field} is {value}.", fix=f"Use {minimum} or more.")


def _check_memory(agent: str, use: MemoryUse) -> None:
    if use.mode not in get_args(MemoryMode):
        modes = ", ".join(map(repr, get_args(MemoryMode)))
        raise AgentDefinitionError(f"Agent {agent!r}: memory is {use.mode!r}.", fix=f"Use one of {modes}.")
    _check_minimum(agent, 1, memory_tokens=use.tokens, memory_entries=use.entries)


def _tool(given: Any, agent: str) -> Any:
    """Returns the tool or toolset unchanged; wraps a function in a FunctionTool."""
    if _is_tool(given) or callable(getattr(given, "tools", None)):
        return given
    if isinstance(getattr(given, "card", None), AgentCard):
        raise AgentDefinitionError(f"Agent {agent!r}: agent {given.card.name!r} is no tool.", fix="Give AgentTool(name).")
    if callable(given):
        return FunctionTool(given)
    raise AgentDefinitionError(
        f"Agent {agent!r}: a {type(given).__name__} is no tool.", fix="Give a Tool, a Toolset, or a function."
    )


def _is_tool(given: Any) -> bool:
    return hasattr(given, "spec") and hasattr(given, "rules") and callable(getattr(given, "run", None))


def _distinct(tools: Sequence[Any], agent: str) -> Sequence[Tool]:
    """Returns the tools. Raises AgentDefinitionError for a reserved or repeated name."""
    names: set[str] = set()
    for tool in tools:
        name = tool.spec.name
        if name in OF_AGENTS:
            raise AgentDefinitionError(
                f"Agent {agent!r}: the tool name {name!r} is reserved for {OF_AGENTS[name]}.", fix="Rename the tool."
            )
        if name in names:
            raise AgentDefinitionError(f"Agent {agent!r} has two tools named {name!r}.", fix="Rename one of them.")
        names.add(name)
    return tools


def _recorded_result(result: ToolResultPart, answer: ToolResultPart | None) -> ToolResultPart:
    """Returns the result as it is recorded. The typed answer is stored as a data part beside it, not in the result."""
    if answer is None or result.tool != OUTPUT or result.failed:
        return result
    if result is answer:
        return result.replace(result=TAKEN)
    return result.replace(result=ALREADY, failed=True)
