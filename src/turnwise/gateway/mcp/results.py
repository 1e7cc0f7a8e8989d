"""Builds the result of the `ask` tools. Pure."""

from collections.abc import Iterator, Sequence

from mcp_types import Annotations, CallToolResult, ResourceLink, TextContent
from pydantic import JsonValue

from turnwise.facts.content import ArtifactPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.facts.waits import Wait
from turnwise.gateway.mcp.schema import Answered, Awaited, Failed, Kept, State
from turnwise.gateway.mcp.session_resources import ArtifactLink
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import COMPLETE_ENDS, failure_text, is_shown_to_user, joined_text
from turnwise.runner import Invocation, Result

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
