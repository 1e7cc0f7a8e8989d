"""One step's call of the model: what it is sent, and the event that comes of its answer."""

import asyncio
from collections.abc import Collection, Mapping

from turnwise.agents.llm.design import Design
from turnwise.agents.llm.output import NAME as OUTPUT
from turnwise.agents.llm.pieces import partial, whole
from turnwise.agents.llm.prompt import instructions_of
from turnwise.agents.llm.summary import Summarizing
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.agents.reading import LogReader
from turnwise.facts.content import text_content
from turnwise.facts.errors import ModelAnswerInvalid, ModelUnavailable
from turnwise.facts.events import End, Event
from turnwise.facts.usage import Usage
from turnwise.models.reading import reading
from turnwise.ports.context import AgentContext, Show
from turnwise.ports.model import ModelReply, ModelRequest
from turnwise.ports.tool import Tool
from turnwise.transcript.compile import compiled

BROKEN_OFF = 2
"""How often an answer is asked for again that broke off after pieces of it were shown."""
PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before that, if the provider does not say how long; and how long it may say."""
NOT_TEXT = f"This is not shown to anybody. Give your answer by calling {OUTPUT}."


class Asking:
    """Asks the model, step by step. What it is sent comes from the log alone."""

    def __init__(self, design: Design, context: AgentContext, toolbox: Toolbox, summarizing: Summarizing) -> None:
        self._design, self._context, self._toolbox = design, context, toolbox
        self._summarizing = summarizing
        self._reader = LogReader(context, design.history)

    async def make(self, show: Show) -> Event:
        """The event of the model's next answer. With an end, if the answer holds no calls.

        ModelError; AgentFailed for instructions that cannot be made.
        """
        tools = await self._toolbox.every()
        private = [name for name, tool in tools.items() if tool.rules.private]
        request = await self._request(tools)
        usage: Usage | None = None
        for _ in range(self._design.output_retries + 1):
            event, reply = await self._answer(request, private, show)
            usage = reply.usage if usage is None else usage + reply.usage
            if self._design.output is None or reply.content.tool_calls:
                return self._acting(whole(event, reply.content, private), usage)
            said = text_content(reply.content.text.strip() or "(nothing)")
            request = request._replace(messages=(*request.messages, said, text_content(NOT_TEXT, "user")))
        raise ModelAnswerInvalid(
            f"The model {self._design.model.name} did not call {OUTPUT}, but answered agent "
            f"{self._context.card.name!r} in plain text {self._design.output_retries + 1} times.",
            fix="Say in the instructions what the answer has to be, or use another model.",
        )

    async def _request(self, tools: Mapping[str, Tool]) -> ModelRequest:
        design, context = self._design, self._context
        events = await self._reader.events()
        transcript = compiled(events, self._reader.view, context.message, design.history)
        self._summarizing.consider(events, transcript, self._reader.view)
        return ModelRequest(
            messages=transcript.messages,
            instructions=await instructions_of(design, context, self._toolbox, transcript.messages),
            tools=tuple(tool.spec for tool in tools.values()),
            choice="auto" if design.output is None else "required",
            settings=design.settings,
        )

    async def _answer(self, request: ModelRequest, private: Collection[str], show: Show) -> tuple[Event, ModelReply]:
        """The model's answer, and the event that is to hold it, under whose id its pieces were shown."""
        for attempt in range(BROKEN_OFF + 1):
            # A new event each time: the pieces of one that broke off belong to no other.
            event = self._context.event()
            shown = False
            try:
                async with reading(self._design.model, request, stream=self._context.config.streaming) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, ModelReply):
                            return event, piece
                        shown = True
                        if self._design.output is None or piece.kind != "text":  # text is no answer of a type
                            await show(partial(event, piece, private))
            except ModelUnavailable as error:
                pause = PAUSE * 2**attempt if error.retry_after is None else error.retry_after
                if not shown or attempt == BROKEN_OFF or pause > LONGEST_PAUSE:
                    raise
                await asyncio.sleep(pause)
            else:
                break
        raise ModelAnswerInvalid(f"The model {self._design.model.name} gave pieces of an answer, but no whole one.")

    def _acting(self, event: Event, usage: Usage) -> Event:
        assert event.content is not None
        changed: dict[str, object] = {"usage": usage}
        if event.content.tool_calls:
            return event.model_copy(update={"actions": event.actions.model_copy(update=changed)})
        changed["end"] = End()
        return self._summarizing.put(event.model_copy(update={"actions": event.actions.model_copy(update=changed)}))
