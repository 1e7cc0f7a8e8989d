"""The model call of one step: builds the request and turns the reply into an event."""

import asyncio
from collections.abc import Sequence

from turnwise.agents.history import TranscriptReader
from turnwise.agents.llm.design import MORE_TOKENS, NAME as OUTPUT, Design
from turnwise.agents.llm.memory import preloaded
from turnwise.agents.llm.prompt import Prompt, prompt_of
from turnwise.agents.llm.stream import CallMarks, answer_event, partial_event
from turnwise.agents.llm.summary import Summarizing
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.content import text_content
from turnwise.facts.errors import AgentFailed, LimitReached, ModelAnswerInvalid, ModelUnavailable
from turnwise.facts.events import End, Event
from turnwise.facts.memory import ShownMemory
from turnwise.models.by_name import open_answer
from turnwise.ports.context import AgentContext, Show
from turnwise.ports.model import LENGTH, ModelReply, ModelRequest
from turnwise.ports.tool import ToolSpec
from turnwise.tools.event_loop import LoopYielder
from turnwise.transcript.groups import Note
from turnwise.transcript.view import CALL_TOKENS, PART_TOKENS, Budget, as_text, tokens_of

BROKEN_OFF = 2
"""The most retries after a reply that broke off once chunks of it were shown."""
PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before such a retry if the provider names none, and the longest pause that a provider may name."""
NOT_TEXT = f"This is not shown to anybody. Give your answer by calling {OUTPUT}."
NOT_WHOLE = f"It ran into your limit of tokens. {NOT_TEXT}"


class ModelRequests:
    """Calls the model, step by step. Every request is built from the log."""

    def __init__(self, design: Design, context: AgentContext, toolbox: Toolbox, summarizing: Summarizing) -> None:
        self._design, self._context, self._toolbox = design, context, toolbox
        self._memory: tuple[ShownMemory, ...] = ()
        self._summarizing = summarizing
        self._reader = TranscriptReader(context, design.history)

    async def preload(self) -> None:
        """Recalls what the agent's model gets of the user's memory in this turn. It is a step."""
        self._memory = await preloaded(self._design.memory, self._context)

    async def make(self, show: Show) -> Event:
        """Calls the model and returns the event of its answer. The event ends the turn if it holds no tool calls.

        Raises:
            ModelError: The model failed, or gave no valid answer after all retries.
            AgentFailed: The instructions cannot be built, or leave no room for the conversation.
        """
        tools = await self._toolbox.every()
        offered = self._toolbox.offered(tools)
        marks = CallMarks(private=[name for name, tool in tools.items() if tool.rules.private], offered=offered)
        request, note = await self._request((*(tool.spec for tool in tools.values()), *offered.values()))
        for _ in range(self._design.output_retries + 1):
            event, reply = await self._call_model(request, marks, show)
            event = event.with_actions(usage=reply.usage)
            if self._design.output is None or reply.content.tool_calls:
                answer = answer_event(event, reply, marks, most=self._most_parts())
                return self._with_end(with_note(answer, note) if note else answer)
            await self._reject(event)
            rejected_text = text_content(reply.content.text.strip() or "(nothing)")
            correction = text_content(NOT_WHOLE if reply.finish == LENGTH else NOT_TEXT, "user")
            request = request._replace(messages=(*request.messages, rejected_text, correction))
        raise ModelAnswerInvalid(
            f"The model {self._design.model.name} did not call {OUTPUT}, but answered agent "
            f"{self._context.card.name!r} in plain text {self._design.output_retries + 1} times.",
            fix=MORE_TOKENS
            if reply.finish == LENGTH
            else "Say in the instructions what the answer has to be, or use another model.",
        )

    async def _reject(self, draft: Event) -> None:
        """Records the usage of a rejected draft, even if the next attempt fails."""

        async def make(_: Show) -> Event:
            return draft

        await self._context.once(f"draft#{draft.id}", make)

    def _most_parts(self) -> int:
        """Returns the most parts of one answer. A typed answer needs one part beside the results of its step."""
        return max(1, self._context.config.limits.parts - (self._design.output is not None))

    async def _request(self, specs: tuple[ToolSpec, ...]) -> tuple[ModelRequest, Note]:
        """Returns the request, and the note on the agent's situation in it that the answer has to record."""
        design, context = self._design, self._context
        prompt = await prompt_of(design, context, self._toolbox)
        budget = message_budget(design.history, prompt, specs, context.card.name)
        # Some providers refuse calls without tools.
        transcript = await self._reader.transcript(
            context.message, budget, calls_as_text=not specs, note=Note(prompt.note, self._memory)
        )
        self._summarizing.consider(transcript, self._reader.view, budget)
        request = ModelRequest(
            messages=transcript.messages,
            instructions=prompt.text(has_marks=transcript.has_marks),
            tools=specs,
            choice="auto" if design.output is None else "required",
            settings=design.settings,
        )
        return request, transcript.note

    async def _call_model(self, request: ModelRequest, marks: CallMarks, show: Show) -> tuple[Event, ModelReply]:
        """Returns the model's reply and its event. The chunks were shown under that event's id."""
        for attempt in range(BROKEN_OFF + 1):
            # Each attempt gets a new event, so chunks of a broken reply are not mixed with those of the next.
            event = self._context.event()
            has_shown, size, yielding = False, 0, LoopYielder()
            try:
                async with open_answer(self._design.model, request, stream=self._context.config.streaming) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, ModelReply):
                            return event, piece
                        has_shown, size = True, size + len(piece.text)
                        self._check_size(size)
                        await yielding.turn()
                        if self._design.output is None or piece.kind != "text":  # plain text is no typed answer
                            await show(partial_event(event, piece, marks))
            except ModelUnavailable as error:
                pause = PAUSE * 2**attempt if error.retry_after is None else error.retry_after
                if not has_shown or attempt == BROKEN_OFF or pause > LONGEST_PAUSE:
                    raise
                await asyncio.sleep(pause)
            else:
                break
        raise ModelAnswerInvalid(f"The model {self._design.model.name} gave pieces of an answer, but no whole one.")

    def _check_size(self, size: int) -> None:
        """Raises LimitReached (`answer_bytes`) if a reply is too long, even if no chunk of it is shown."""
        limit = self._context.config.limits.answer_bytes
        if size > limit:
            problem = f"The model {self._design.model.name} wrote more than {limit:,} bytes in one answer."
            raise LimitReached("answer_bytes", problem, fix="Set max_tokens, or raise limits.answer_bytes.")

    def _with_end(self, event: Event) -> Event:
        assert event.content is not None
        if event.content.tool_calls:
            return event
        return self._summarizing.put(event.with_actions(end=End()))


def with_note(event: Event, note: Note) -> Event:
    """Returns the event with the note that its model got. Later requests repeat it at this place."""
    return event.with_actions(note=note.text or None, note_memory=note.memory)


def message_budget(budget: Budget, prompt: Prompt, tools: Sequence[ToolSpec], agent: str) -> Budget:
    """Returns the part of the agent's budget that is left for messages, by estimate. Room for explaining marks is
    reserved.

    Raises:
        AgentFailed: Instructions and tools alone use the whole budget; the message gives their sizes.
    """
    instruction_tokens = tokens_of(prompt.own) + tokens_of(prompt.situation) + PART_TOKENS
    tool_tokens = [tokens_of_tool(tool) for tool in tools]
    left = budget.tokens - instruction_tokens - sum(tool_tokens)
    if left > 0:
        return budget._replace(tokens=max(0, left - tokens_of(prompt.marks)))
    problem = (
        f"Of the {budget.tokens:,} tokens that the model of agent {agent!r} may be sent, its instructions take "
        f"{instruction_tokens:,} and its {len(tools)} tools {sum(tool_tokens):,}: there is no room for the conversation."
    )
    if tools:
        size, largest = max(zip(tool_tokens, (tool.name for tool in tools), strict=True))
        problem += f" The largest tool is {largest!r} with {size:,}."
    raise AgentFailed(problem, fix="Raise the tokens of its history, shorten its instructions, or give it fewer tools.")


def tokens_of_tool(tool: ToolSpec) -> int:
    """Returns the estimated tokens of a tool's definition."""
    return CALL_TOKENS + sum(tokens_of(text) for text in (tool.name, tool.description, as_text(tool.parameters)))
