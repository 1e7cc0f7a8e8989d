"""Executes tool calls, and builds their results."""

import asyncio
import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INVALID_PARAMS, Annotations, CallToolRequestParams, CallToolResult, ResourceLink, TextContent
from pydantic import JsonValue

from turnwise.facts.content import ArtifactPart, ToolResultPart
from turnwise.facts.errors import Closing, NothingHere, RequestInvalid, TurnwiseError
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.facts.waits import Wait
from turnwise.gateway.front import Front
from turnwise.gateway.mcp.errors import tool_error
from turnwise.gateway.mcp.request import Context, McpRequest
from turnwise.gateway.mcp.resources import ArtifactLink, memory_of
from turnwise.gateway.mcp.schema import (
    Answered,
    Ask,
    AskAgent,
    Awaited,
    Considered,
    Decided,
    Excluded,
    Explain,
    Failed,
    Kept,
    Opinion,
    Recall,
    Select,
    State,
    parse_arguments,
)
from turnwise.gateway.mcp.tool_list import ASK, EXPLAIN, RECALL, SELECT, agent_of_tool
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.invocations import WaitAnswer
from turnwise.gateway.services.messages import MessageRequest
from turnwise.gateway.shared.content import result_value
from turnwise.gateway.shared.packed_ids import digest, new_session
from turnwise.gateway.shared.stream import (
    COMPLETE_ENDS,
    MessageCompleted,
    ReaderStream,
    StreamItem,
    TextPiece,
    failure_text,
    is_shown_to_user,
    joined_text,
)
from turnwise.ports.memory import ALL_MEMORIES
from turnwise.runner import Invocation, Result

CHARACTERS = 300
"""Maximum length of quoted text; its end is kept."""
CHARACTERS_BETWEEN_LINES = 100
"""Number of new characters before a partial answer is reported again."""


class ProgressSteps:
    """Converts a message's events, including partial ones, to progress lines. Pure."""

    def __init__(self, view: Redactor) -> None:
        self._view, self._stream = view, ReaderStream()
        self._partial: dict[str, tuple[str, int]] = {}
        """For each open message: the end of its text, and its length when it was last reported."""

    def feed(self, event: Event) -> str:
        """Returns the line for an event; empty for most."""
        lines = [line for item in self._stream.feed(event) if (line := self._line(item))]
        if lines or event.partial:
            return "".join(lines)
        if event.author == USER:
            selection = event.actions.selection
            shown = self._view.selection(selection) if selection else None
            return f"{shown.agent}: {shown.reason}" if shown else ""
        to = event.actions.transfer_to
        return f"{event.author} hands over to {to}" if to and self._view.reaches(to) and is_shown_to_user(event) else ""

    def _line(self, item: StreamItem) -> str:
        """Returns the progress line of a stream item: the end of a partial text now and then, or a complete one; else empty."""
        match item:
            case TextPiece(event, text, offset):
                before, reported = self._partial.get(event.id, ("", 0))
                end, length = (before + text)[-CHARACTERS - 1 :], offset + len(text)
                is_due = not reported or length - reported >= CHARACTERS_BETWEEN_LINES
                self._partial[event.id] = end, length if is_due else reported
                return _line(event, end) if is_due else ""
            case MessageCompleted(event, text):
                self._partial.pop(event.id, None)
                return _line(event, text) if text else ""
        return ""


async def report_progress(session: ServerSession, invocation: Invocation, view: Redactor) -> None:
    """Reports progress until the answer is complete or waits."""
    steps, count = ProgressSteps(view), 0
    async for event in invocation.events():
        if line := steps.feed(event):
            count += 1
            await session.report_progress(count, message=line)


def _line(event: Event, text: str) -> str:
    return f"{event.author}: {text if len(text) <= CHARACTERS else '…' + text[-CHARACTERS:]}"


async def start(request: McpRequest, arguments: AskAgent, agent: str | None, *, streaming: bool) -> Invocation:
    """Starts the invocation that answers. A session is created if none is named.

    Args:
        agent: The agent that must answer; None = select one.

    Raises:
        RequestInvalid, NothingHere, UnknownToolCall, Forbidden: The arguments do not fit. Errors of the runner pass through.
    """
    if arguments.answer_to is not None:
        return await _answer_wait(request, arguments, arguments.answer_to, agent)
    if arguments.approved is not None:
        raise _invalid(
            "'approved' answers a question whether a tool may be called.", "Name that question: answer_to.", "approved"
        )
    if agent is not None and not request.services.addressees.has(agent):
        fix = "Leave out the agent; the one that fits best is selected."
        raise NothingHere(f"There is no agent {agent[:NAME_CHARACTERS]!r} for you.", fix=fix, where=("arguments", "agent"))
    usual = request.front.runner.config.replace(streaming=streaming)
    config = usual if arguments.session is not None else usual.replace(create_session=True)
    # Derived from the message id: a repeated message reaches the same session before its sender knows it.
    session = new_session(arguments.message_id) if arguments.session is None else arguments.session
    return await request.services.messages.start(
        MessageRequest(session, arguments.message, arguments.message_id, config=config, agent=agent)
    )


async def _answer_wait(request: McpRequest, arguments: AskAgent, call_id: str, agent: str | None) -> Invocation:
    """Answers the wait of a call id. Raises an MCP error without a session, or when an agent is named too."""
    if arguments.session is None:
        raise _invalid("The answer has no session.", "Pass the session of the wait.", "session")
    if agent is not None:
        raise _invalid("An answer goes to the agent that waits.", "Leave out the agent, or answer_to.", "agent")
    # A call is answered once, so its id identifies the answer if the caller gave none.
    invocations, id_ = request.services.invocations, arguments.message_id or f"answer-{digest(call_id)}"
    wait = await invocations.wait_for(arguments.session, call_id)
    answer = WaitAnswer(call_id, _answer_value(arguments, wait), arguments.message, id_)
    return await invocations.answer(arguments.session, wait.invocation_id if wait else "", answer)


def _answer_value(arguments: AskAgent, wait: Wait | None) -> str | bool | ToolResultPart:
    """Converts the arguments to the kind of answer that the wait takes."""
    if wait is not None and wait.kind == "confirmation":
        if arguments.approved is None:
            raise _invalid("The agent waits for an approval.", "Send `approved`, true or false, as the user says.", "approved")
        return arguments.approved
    if wait is not None and wait.kind == "tool_result":
        return ToolResultPart(call_id=wait.id, result=result_value(arguments.message))
    return arguments.message


def _invalid(problem: str, fix: str, argument: str) -> RequestInvalid:
    return RequestInvalid(problem, fix=fix, where=("arguments", argument))


T = TypeVar("T")
GRACE_FRACTION = 0.8
"""Fraction of the shutdown grace period to wait for an answer. The rest is left to report that it did not come."""


async def call(context: Context, request: McpRequest, params: CallToolRequestParams, *, agents: bool) -> CallToolResult:
    """Calls a tool. TurnwiseErrors become error results.

    Args:
        agents: Whether each agent is a tool.

    Raises:
        MCPError: There is no such tool.
    """
    try:
        return await _dispatch(context, request, params.name, params.arguments, agents=agents)
    except TurnwiseError as error:
        return tool_error(request.problem(error))


async def _dispatch(
    context: Context, request: McpRequest, name: str, arguments: Mapping[str, Any] | None, *, agents: bool
) -> CallToolResult:
    """Parses the arguments and calls the tool of that name. Raises an MCP error for an unknown tool."""
    if name == SELECT:
        return await select(request, parse_arguments(Select, arguments))
    if name == EXPLAIN:
        return await explain(request, parse_arguments(Explain, arguments))
    if name == RECALL:
        return await recall(request, parse_arguments(Recall, arguments))
    if name == ASK:
        ask_arguments = parse_arguments(Ask, arguments)
        return await _ask(context, request, ask_arguments, ask_arguments.agent)
    agent = agent_of_tool(request, name) if agents else None
    if agent is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}", {"fix": "List the tools."})
    agent_arguments = parse_arguments(AskAgent, arguments)
    return await _ask(context, request, agent_arguments, None if agent_arguments.answer_to else agent)


async def _ask(context: Context, request: McpRequest, arguments: AskAgent, agent: str | None) -> CallToolResult:
    """Starts the message, reports progress if the client wants it, and returns the result of the `ask` tool."""
    wants_progress = progress_token_from_params(context.params) is not None
    invocation = await start(request, arguments, agent, streaming=wants_progress)

    async def work() -> Result:
        if wants_progress:
            await report_progress(context.session, invocation, request.view)
        return await invocation.result()

    result = await result_or_closing(request.front, invocation, work())
    return result_of(await _answer(request, invocation, result))


async def _answer(request: McpRequest, invocation: Invocation, result: Result) -> Answered:
    waits = await request.services.invocations.waits(invocation, result)
    return answer_value(invocation, result, waits, request.view)


async def result_or_closing(front: Front, invocation: Invocation, work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work`, the rest of a tool call.

    Raises:
        Closing: The process stops before the work is done. The message tells how to get the answer later.
    """
    work_task, closing_task = asyncio.create_task(work), asyncio.create_task(_grace_almost_over(front))
    try:
        tasks: set[asyncio.Future[Any]] = {work_task, closing_task}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            return work_task.result()
    finally:
        for task in (work_task, closing_task):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise Closing(
        "This process is being stopped before the answer is complete.",
        fix=f"Ask again with session {invocation.session.id!r} and message_id {invocation.message_id!r}: it is answered once.",
    )


async def _grace_almost_over(front: Front) -> None:
    await front.closing.wait()
    await asyncio.sleep(front.config.grace_seconds * GRACE_FRACTION)


async def select(request: McpRequest, arguments: Select) -> CallToolResult:
    """Selects an agent for a message without storing or running anything."""
    selection = await request.services.messages.select(arguments.message, session=arguments.session, context=MessageContext())
    return _result(decision_value(request.view.selection(selection), arguments.session))


async def explain(request: McpRequest, arguments: Explain) -> CallToolResult:
    """Returns the recorded selection of a message, or of the latest one. Raises SessionMissing, InvocationMissing."""
    decision = await request.services.decisions.of_message(arguments.session, arguments.message_id)
    return _result(decision_value(request.view.selection(decision.selection), arguments.session))


async def recall(request: McpRequest, arguments: Recall) -> CallToolResult:
    """Searches the memory. Raises Forbidden, StoreError."""
    found = await request.services.memories.search(arguments.query, ALL_MEMORIES, limit=arguments.limit)
    memory = memory_of(each.entry for each in found)
    # Quoted, so that no text passes for another line.
    lines = [f"- {json.dumps(item.text, ensure_ascii=False)} (said by {item.said_by})" for item in memory.memories]
    return CallToolResult(
        content=[TextContent(text="\n".join(lines) or "Nothing that is remembered fits.")],
        structured_content=memory.model_dump(mode="json", exclude_none=True),
    )


def decision_value(selection: Selection, session: str | None) -> Decided:
    """Returns a selection, redacted for its reader, as the tool's structured result."""
    return Decided(
        session=session,
        agent=selection.agent,
        outcome=selection.outcome,
        method=selection.method,
        confidence=selection.confidence,
        reason=selection.reason,
        opinions=[_opinion(verdict) for verdict in selection.verdicts],
        excluded=[Excluded(agent=item.agent, rule=item.rule, detail=item.detail) for item in selection.excluded],
    )


def decision_text(decision: Decided) -> str:
    """Describes a decision as text: the agent and the reason, then each selector's verdict."""
    verb = "answers" if decision.outcome == "chosen" else "asks what is meant"
    first = f"{decision.agent} {verb} ({decision.method}, {decision.confidence:.2f}): {decision.reason}"
    return "\n".join([first, *_lines(decision.opinions)])


def _lines(opinions: Sequence[Opinion]) -> list[str]:
    return [
        f"- {item.selector}: {item.outcome}{f' {item.agent}' if item.agent else ''}. {item.reason}".rstrip()
        for item in opinions
    ]


def _opinion(verdict: Verdict) -> Opinion:
    """Returns a verdict in the form of the `explain` tool."""
    return Opinion(
        selector=verdict.selector,
        outcome=verdict.outcome,
        agent=verdict.agent,
        confidence=verdict.confidence,
        reason=verdict.reason,
        candidates=[Considered(agent=item.agent, score=item.score, evidence=item.evidence) for item in verdict.candidates],
    )


def _result(decision: Decided) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=decision_text(decision))],
        structured_content=decision.model_dump(mode="json", exclude_none=True),
    )


ARTIFACTS_SHOWN = 100
FOR_MODELS = Annotations(audience=["assistant"])


def answer_value(invocation: Invocation, result: Result, waits: Sequence[Wait], view: Redactor) -> Answered:
    """Builds the structured result. waits: all open waits."""
    state, text = _state(result), joined_text(result.events)
    selection = view.selection(result.selection) if result.selection else None
    session = invocation.session.id
    return Answered(
        session=session,
        message_id=invocation.message_id,
        invocation_id=result.invocation_id or None,
        state=state,
        text=text,
        agent=selection.agent if selection else None,
        reason=selection.reason if selection else None,
        waits=[_awaited(wait, view) for wait in waits],
        artifacts=list(files_in(session, result.events))[:ARTIFACTS_SHOWN],
        error=_failed(result, view) if state == "failed" else None,
    )


def result_of(answer: Answered) -> CallToolResult:
    """Builds the tool result: text, links to files, and a hint for models how to continue."""
    text = answer.text if answer.error is None else "\n".join(filter(None, (answer.text, answer.error.message)))
    links = [
        ResourceLink(uri=file.uri, name=file.name, mime_type=file.mime_type, description="A file of this answer.")
        for file in answer.artifacts
    ]
    hint = TextContent(text=_continuation_hint(answer), annotations=FOR_MODELS)
    return CallToolResult(
        content=[*([TextContent(text=text)] if text else []), *links, hint],  # models' interfaces refuse empty texts
        structured_content=answer.model_dump(mode="json", exclude_none=True),
        is_error=answer.state == "failed",
    )


def files_in(session: str, events: Sequence[Event]) -> Iterator[Kept]:
    """Yields the files that agents saved or showed, each once, in its last version."""
    files: dict[str, Kept] = {}
    for event in events:
        if event.author == USER or not is_shown_to_user(event):
            continue
        for name, version in event.actions.artifact_versions.items():
            files[name] = _file(session, name, version, files[name].mime_type if name in files else None)
        for part in event.content.parts if event.content else ():
            if isinstance(part, ArtifactPart):
                files[part.name] = _file(session, part.name, part.version, part.mime_type)
    yield from files.values()


def _file(session: str, name: str, version: int | None, mime_type: str | None) -> Kept:
    return Kept(uri=str(ArtifactLink(session, name, version)), name=name, version=version, mime_type=mime_type)


def _state(result: Result) -> State:
    if result.end is None:
        return "waiting"
    reason = result.end.reason
    is_good = reason in COMPLETE_ENDS or (reason.startswith(LIMIT) and joined_text(result.events))
    return "completed" if is_good else "failed"


def _failed(result: Result, view: Redactor) -> Failed:
    reason = result.end.reason if result.end else ""
    error = None if reason == "cancelled" or reason.startswith(LIMIT) else result.error
    return Failed(code=error.code if error else reason, message=failure_text(reason, error, view))


def _awaited(wait: Wait, view: Redactor) -> Awaited:
    """Returns a wait in the form of the `ask` result; its arguments only to callers that may answer it."""
    tool, arguments = _call(wait)
    return Awaited(
        call_id=wait.id,
        kind=wait.kind,
        agent=wait.agent,
        text=wait.text,
        tool=tool,
        arguments=arguments if view.answers(wait.call) else {},
    )


def _call(wait: Wait) -> tuple[str, dict[str, JsonValue]]:
    """Returns the tool and arguments that a wait concerns. For a confirmation these are of the call to be approved."""
    if wait.call is None:
        return "", {}
    match wait.call.arguments:
        case {"tool": str(tool), "arguments": dict(arguments)} if wait.kind == "confirmation":
            return tool, arguments
    return wait.call.tool, wait.call.arguments


def _continuation_hint(answer: Answered) -> str:
    """Returns what a model needs to continue, if it sees the text only."""
    session = f"session: {answer.session}"
    if answer.state != "waiting":
        return f"[{session}]"
    return f"[{'; '.join((session, *map(_answer_hint, answer.waits)))}]"


def _answer_hint(wait: Awaited) -> str:
    """Tells the model how to answer this wait."""
    match wait.kind:
        case "reply":
            return f"{wait.agent} waits for a reply, answer_to: {wait.call_id}"
        case "confirmation":
            instruction = f"answer_to: {wait.call_id}, and approved: true or false"
            return f"{wait.agent} asks the user whether it may call {wait.tool!r}, {instruction}"
        case "tool_result":  # only the program that does the work may answer; a model would invent a result
            return f"{wait.agent} waits for its tool {wait.tool!r}, which is still at work: nothing to answer"
