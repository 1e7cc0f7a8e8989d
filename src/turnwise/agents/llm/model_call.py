"""The model call of one step: builds the request with its instructions, and turns the reply into events."""

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from turnwise.agents.history import TranscriptReader
from turnwise.agents.llm.design import MORE_TOKENS, NAME as OUTPUT, Design, Instructions
from turnwise.agents.llm.memory import MEMORY_MARKS, preloaded
from turnwise.agents.llm.summary import Summarizing
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart, text_content
from turnwise.facts.errors import AgentFailed, LimitReached, ModelAnswerInvalid, ModelUnavailable
from turnwise.facts.events import End, Event
from turnwise.facts.memory import ShownMemory
from turnwise.models.by_name import open_answer
from turnwise.ports.context import AgentContext, Artifacts, Show, State
from turnwise.ports.model import LENGTH, ModelPiece, ModelReply, ModelRequest
from turnwise.ports.stores import Artifact
from turnwise.ports.tool import ToolSpec
from turnwise.tools.event_loop import LoopYielder, in_thread
from turnwise.transcript.fences import PREAMBLE
from turnwise.transcript.groups import Note
from turnwise.transcript.view import CALL_TOKENS, PART_TOKENS, Budget, as_text, tokens_of

BROKEN_OFF = 2
"""The most retries after a reply that broke off once chunks of it were shown."""
PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before such a retry if the provider names none, and the longest pause that a provider may name."""
NOT_TEXT = f"This is not shown to anybody. Give your answer by calling {OUTPUT}."
NOT_WHOLE = f"It ran into your limit of tokens. {NOT_TEXT}"

_ARTIFACT = "artifact."
_NAME = r"(?:user:)?\w[\w./-]*(?: [\w./-]+)*"
_KEY = rf"(?:artifact\.{_NAME}|(?:app:|user:|temp:)?[A-Za-z_][\w.-]*)"
_PLACEHOLDER = re.compile(rf"\{{\{{({_KEY}\??)\}}\}}|\{{({_KEY})(\??)\}}")

TOKENS, PARTS = "tokens", "parts"
"""The limit that cut an answer off (`Actions.cut_off`): the model's token limit, or our limit of parts."""

ID_CHARACTERS = 28
"""The length of the base of a call id. The rest of 40 characters is for the call's number and for derived ids."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


class Prompt(NamedTuple):
    """The parts of a model's instructions."""

    own: str
    """The agent's own instructions."""
    marks: str
    """The explanation of the marks around other speakers' words; sent only if the messages contain such marks."""
    situation: str
    """The text about transfers, colleagues, the assignment and tools. It stays the same from turn to turn."""
    note: str = ""
    """The unusual facts of this turn. It is sent after the conversation, so that a provider's cache keeps all before it."""
    always_marks: bool = False
    """True if other agents may speak, or entries of the memory may come: the marks are always explained."""

    def text(self, *, has_marks: bool) -> str:
        """Returns the instructions for a request; with `has_marks`, they explain the marks in its messages."""
        parts = (self.own, self.marks if has_marks or self.always_marks else "", self.situation)
        return "\n\n".join(part for part in parts if part)


class CallMarks(NamedTuple):
    """The names of the tools; their calls get a mark."""

    private: Collection[str] = ()
    """The tools that hide their calls from other agents."""
    offered: Collection[str] = ()
    """Tools that the caller runs."""

    def on(self, call: ToolCallPart) -> ToolCallPart:
        """Returns the call with both marks set by its tool's name."""
        return call.replace(private=call.tool in self.private, offered=call.tool in self.offered)


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


async def prompt_of(design: Design, context: AgentContext, toolbox: Toolbox) -> Prompt:
    """Builds the instructions for this turn: the agent's own, and the text about its conversation, tools and colleagues.

    Raises:
        AgentFailed: A state key or an artifact is missing, or the instructions function returned no text.
    """
    own = (await _filled(design.instructions, context)).strip()
    marks = f"You are {_quoted(context.card.name)}.\n{PREAMBLE}"
    situation = (part.strip() for part in _situation(design, context, toolbox))
    note = "\n".join(part for part in await _note(design, context, toolbox) if part)
    return Prompt(
        own,
        marks,
        "\n\n".join(part for part in situation if part),
        note,
        always_marks=len(context.tree) > 1 or design.memory.preloads,
    )


def fill_template(template: str, state: State, agent: str, artifacts: Mapping[str, str] | None = None) -> str:
    """Replaces `{key}` in the template with values of the state: strings unchanged, other values as JSON.

    `{artifact.name}` is replaced with a text of `artifacts`. `{key?}` is empty if the key is missing, and `{{key}}` is
    a literal `{key}`. Other braces stay. Inserted text is not expanded again.

    Raises:
        AgentFailed: A key or an artifact is missing; the message names it.
    """
    texts = artifacts or {}

    def fill(match: re.Match[str]) -> str:
        escaped, key, optional = match.groups()
        if escaped is not None:
            return f"{{{escaped}}}"
        name = _artifact_of(key)
        value = state.get(key) if name is None else texts.get(name)
        if value is None and not optional:
            raise _missing_error(key, name, agent)
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PLACEHOLDER.sub(fill, template)


async def texts_of(template: str, artifacts: Artifacts, agent: str) -> dict[str, str]:
    """Loads the artifacts that the template names and returns their texts by name, without those that do not exist.

    Raises:
        AgentFailed: An artifact is not text.
        ConfigError: The app has no artifact store.
    """
    names = (_artifact_of(match[2]) for match in _PLACEHOLDER.finditer(template) if match[2])
    loaded = {name: await artifacts.load(name) for name in dict.fromkeys(names) if name is not None}
    return {name: _text(artifact, agent) for name, artifact in loaded.items() if artifact is not None}


def call_id(event_id: str, place: int) -> str:
    """Returns the id of the tool call at that position of the answer; unique across sessions and apps.

    It has at most 40 characters, all of which every provider accepts.
    """
    base = event_id.removeprefix("event-")
    if _FORBIDDEN.search(base) or len(base) > ID_CHARACTERS:
        base = hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARACTERS]
    return f"call-{base}-{place}"


def partial_event(event: Event, piece: ModelPiece, marks: CallMarks) -> Event:
    """Returns a partial event with that chunk, under the id of `event`."""
    part: Part
    if piece.kind == "text":
        part = TextPart(text=piece.text)
    elif piece.kind == "thinking":
        part = ThinkingPart(text=piece.text)
    else:
        id_ = call_id(event.id, piece.call)
        part = marks.on(ToolCallPart(call_id=id_, tool=piece.tool, raw=piece.text))
    return event.replace(content=Content(parts=(part,)), partial=True)


def answer_event(event: Event, reply: ModelReply, marks: CallMarks, *, most: int) -> Event:
    """Returns the event with the model's answer, in at most `most` parts, with our own call ids.

    An incomplete answer is marked as cut off. A call that lost its arguments, or that represents omitted calls, gets
    empty arguments and the written text as `raw`, so it is never made.
    """
    kept, cut_off = _kept_parts(reply, most)
    parts: list[Part] = []
    number = 0
    for part in kept:
        if isinstance(part, ToolCallPart):
            parts.append(marks.on(part.replace(call_id=call_id(event.id, number))))
            number += 1
        else:
            parts.append(part)
    actions = event.actions.replace(cut_off=cut_off) if cut_off else event.actions
    return event.replace(content=Content(parts=tuple(parts)), actions=actions)


def _artifact_of(key: str) -> str | None:
    """Returns the artifact that the key names; None for a state key."""
    return key.removeprefix(_ARTIFACT) or None if key.startswith(_ARTIFACT) else None


def _missing_error(key: str, artifact: str | None, agent: str) -> AgentFailed:
    what = f"state key {key!r}, which is not set" if artifact is None else f"artifact {artifact!r}, which does not exist"
    first = "Set it" if artifact is None else "Save it"
    fix = f"{first}, write {{{key}?}} if it may be missing, or {{{{{key}}}}} if these braces are meant."
    return AgentFailed(f"The instructions of agent {agent!r} name the {what}.", fix=fix)


def _text(artifact: Artifact, agent: str) -> str:
    """Decodes an artifact that the instructions name. Raises AgentFailed unless it is UTF-8."""
    try:
        return artifact.data.decode("utf-8")
    except UnicodeDecodeError:
        raise AgentFailed(
            f"The instructions of agent {agent!r} name the artifact {artifact.info.name!r}, which is no text.",
            fix="Name an artifact that holds text in UTF-8.",
        ) from None


async def _filled(given: Instructions, context: AgentContext) -> str:
    """Returns the text of a template or of a function of the context."""
    if isinstance(given, str):
        name = context.card.name
        return fill_template(given, context.state, name, await texts_of(given, context.artifacts, name))
    text = given(context) if inspect.iscoroutinefunction(given) else await in_thread(given, context)
    text = await text if inspect.isawaitable(text) else text
    if not isinstance(text, str):
        raise AgentFailed(
            f"The instructions of agent {context.card.name!r} gave a {type(text).__name__}.", fix="Return a text."
        )
    return text


def _situation(design: Design, context: AgentContext, toolbox: Toolbox) -> Iterator[str]:
    """Yields the instructions of this turn: transfers, team, memory, assignment, structured output."""
    if toolbox.transfer is not None:
        yield _transfers(context, toolbox.transfer.spec.name)
    if design.names_next:
        yield _team(context)
    if design.memory.preloads:
        yield MEMORY_MARKS
    if context.assignment is not None:
        yield context.assignment.instructions
    if design.output is not None:
        yield f"Give your answer by calling {OUTPUT}, never as plain text."


async def _note(design: Design, context: AgentContext, toolbox: Toolbox) -> Sequence[str]:
    """Returns what is unusual in this turn."""
    available = context.transfer_targets
    away = [name for name in context.transfer_candidates if name not in available]
    return (
        f"Not available now: {', '.join(away)}." if away else "",
        # The problems quote text of servers, which is untrusted.
        "Some of your tools cannot be had now." if toolbox.problems else "",
        context.notice,
        (await _filled(design.turn_instructions, context)).strip(),
    )


def _transfers(context: AgentContext, tool: str) -> str:
    listed = "\n".join(_agent_line(context, name) for name in context.transfer_candidates)
    return (
        f"When one of these agents fits the request better than you do, hand the conversation to it with {tool}, "
        f"instead of an answer of your own:\n{listed}"
    )


def _team(context: AgentContext) -> str:
    """Returns the text on naming the next speaker (behaviours B4 to B7); empty if there is no other agent.

    In a team, the candidates are the other members. Outside a team, they are the agent's transfer targets.
    """
    tree, name = context.tree, context.card.name
    parent = tree.card(name).parent
    others: Sequence[str] = context.transfer_candidates
    if parent is not None and tree.card(parent).is_composite:
        others = [other for other in tree.children(parent) if other != name and tree.card(other).enabled]
    if not others:
        return ""
    listed = "\n".join(_agent_line(context, other) for other in others)
    return (
        f"You are {_quoted(name)}, and work in a team with:\n{listed}\n"
        "When one of them has to go on, end your answer with their name in a tag, like this: <next>@Name</next>. "
        "Without such a tag your answer goes to the user, and the work is done."
    )


def _agent_line(context: AgentContext, name: str) -> str:
    description = " ".join(context.tree.card(name).description.split())
    return f"- {name}: {description}" if description else f"- {name}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _kept_parts(reply: ModelReply, most: int) -> tuple[Sequence[Part], str | None]:
    """Returns the parts that stay and the limit that cut the answer off; None if it is complete."""
    parts = list(reply.content.parts)
    kept, calls = parts[:most], [part for part in parts[most:] if isinstance(part, ToolCallPart)]
    if calls:
        last = kept[-1]
        kept[-1] = _without_arguments(last if isinstance(last, ToolCallPart) else calls[0])
    if len(parts) > most:
        return kept, PARTS
    if reply.finish != LENGTH:
        return kept, None
    if kept and isinstance(kept[-1], ToolCallPart):
        kept[-1] = _without_arguments(kept[-1])
    return kept, TOKENS


def _without_arguments(call: ToolCallPart) -> ToolCallPart:
    written = as_text(call.arguments) if call.raw is None else call.raw
    return call.replace(arguments={}, raw=written)
