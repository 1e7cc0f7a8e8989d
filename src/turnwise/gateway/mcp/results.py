"""What became of a message, as the tool's result. Pure."""

from collections.abc import Iterator, Sequence

from mcp_types import Annotations, CallToolResult, ResourceLink, TextContent
from pydantic import JsonValue

from turnwise.facts.content import ArtifactPart
from turnwise.facts.events import LIMIT, USER, Event
from turnwise.gateway.mcp.links import ArtifactLink
from turnwise.gateway.mcp.schema import Answered, Awaited, Failed, Kept, State
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.utterances import COMPLETE_ENDS, failure_text, is_shown_to_user, joined_text
from turnwise.gateway.shared.waits import OpenWait
from turnwise.runner import Invocation, Result

ARTIFACTS_SHOWN = 100
FOR_MODELS = Annotations(audience=["assistant"])


def answer_value(invocation: Invocation, result: Result, waits: Sequence[OpenWait], view: Redactor) -> Answered:
    """The answer. waits: all that it waits for."""
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
    """The answer for models and for programs: its words, links to its files, and where it goes on."""
    said = answer.text if answer.error is None else "\n".join(filter(None, (answer.text, answer.error.message)))
    links = [
        ResourceLink(uri=each.uri, name=each.name, mime_type=each.mime_type, description="A file of this answer.")
        for each in answer.artifacts
    ]
    how = TextContent(text=_how_it_goes_on(answer), annotations=FOR_MODELS)
    return CallToolResult(
        content=[*([TextContent(text=said)] if said else []), *links, how],  # models' interfaces refuse empty texts
        structured_content=answer.model_dump(mode="json", exclude_none=True),
        is_error=answer.state == "failed",
    )


def files_in(session: str, events: Sequence[Event]) -> Iterator[Kept]:
    """The files that agents kept or showed, each once, in the version that they were in last."""
    found: dict[str, Kept] = {}
    for event in events:
        if event.author == USER or not is_shown_to_user(event):
            continue
        for name, version in event.actions.artifact_versions.items():
            found[name] = _kept(session, name, version, found[name].mime_type if name in found else None)
        for part in event.content.parts if event.content else ():
            if isinstance(part, ArtifactPart):
                found[part.name] = _kept(session, part.name, part.version, part.mime_type)
    yield from found.values()


def _kept(session: str, name: str, version: int | None, mime_type: str | None) -> Kept:
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


def _awaited(wait: OpenWait, view: Redactor) -> Awaited:
    tool, arguments = _call(wait)
    return Awaited(
        call_id=wait.awaited.id,
        kind=wait.kind,
        agent=wait.event.author,
        text=wait.event.text,
        tool=tool,
        arguments=arguments if wait.is_for(view) else {},
    )


def _call(wait: OpenWait) -> tuple[str, dict[str, JsonValue]]:
    """Which call it is about: a confirmation is about the one that is to be made."""
    if wait.call is None:
        return "", {}
    match wait.call.arguments:
        case {"tool": str(tool), "arguments": dict(arguments)} if wait.kind == "confirmation":
            return tool, arguments
    return wait.call.tool, wait.call.arguments


def _how_it_goes_on(answer: Answered) -> str:
    """What a model needs to know that is shown the words alone."""
    where = f"session: {answer.session}"
    if answer.state != "waiting":
        return f"[{where}]"
    return f"[{'; '.join((where, *map(_how_it_is_answered, answer.waits)))}]"


def _how_it_is_answered(wait: Awaited) -> str:
    match wait.kind:
        case "reply":
            return f"{wait.agent} waits for a reply, answer_to: {wait.call_id}"
        case "confirmation":
            how = f"answer_to: {wait.call_id}, and approved: true or false"
            return f"{wait.agent} asks the user whether it may call {wait.tool!r}, {how}"
        case "tool_result":  # for programs that did the work; a model would make one up
            return f"{wait.agent} waits for its tool {wait.tool!r}, which is still at work: nothing to answer"
