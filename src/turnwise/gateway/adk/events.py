"""Converts session events to the ADK's events, for one reader. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from turnwise.facts.branch import Branch
from turnwise.facts.content import Content as Ours, ToolCallPart
from turnwise.facts.events import USER, Actions as OurActions, Event as OurEvent
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.usage import Usage
from turnwise.facts.waits import is_approval
from turnwise.gateway.adk.parts import parts_of, to_adk_version
from turnwise.gateway.adk.schema import Actions, Confirmation, Content, Event, NodeInfo, UsageMetadata
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import COMPLETE_ENDS, failure_text

METADATA_KEY = "turnwise"
"""The key in an event's metadata that holds the selected agent and the reason."""


class EventWriter:
    """Converts the events of one session. Pass them in order, including partial ones."""

    def __init__(self, key: SessionKey, view: Redactor) -> None:
        self._key, self._view = key, view
        self._pending: deque[Selection] = deque()
        self._failed: set[str] = set()
        self._calls: dict[str, ToolCallPart] = {}

    def write(self, event: OurEvent) -> Event | None:
        """Returns the ADK event; None if it has nothing for the reader. Private events keep their state and artifact changes
        only.
        """
        event = self._with_call(event)
        if event.is_private and event.actions.awaits is None:
            event = _shared_effects(event)
        shown = self._view.event(event)
        has_selection = self._record_selection(shown)
        content, actions, error = self._content(shown), self._actions(shown), self._error(shown)
        if content is None and actions == Actions() and not error and not has_selection:
            return None
        usage = shown.actions.usage
        return Event(
            id=shown.id,
            author=shown.author,
            invocation_id=shown.invocation_id,
            timestamp=shown.created_at.timestamp(),
            content=content,
            partial=True if shown.partial else None,
            interrupted=True if shown.actions.end is not None and shown.actions.end.reason == "cancelled" else None,
            finish_reason=None if shown.actions.cut_off is None else "MAX_TOKENS",
            error_code=error[0] if error else None,
            error_message=error[1] if error else None,
            custom_metadata=self._selection_metadata(shown),
            usage_metadata=_usage(usage),
            model_version=usage.model or None if usage else None,
            actions=actions,
            long_running_tool_ids=sorted(call.call_id for call in self._open_calls(shown)) or None,
            branch=_branch(shown.branch),
            node_info=NodeInfo(path="" if shown.author == USER else shown.author),
        )

    def _with_call(self, event: OurEvent) -> OurEvent:
        """Adds the call to an event that starts waiting for its result, if another event made the call. ADK clients expect both
        in one event.
        """
        if event.content is not None and not event.partial:
            self._calls |= {call.call_id: call for call in event.content.tool_calls if not call.offered}
        awaits = event.actions.awaits
        call = self._calls.get(awaits.id) if awaits and event.content is None else None
        if call is None or not self._view.answers(call):
            return event
        return event.with_content(Ours(parts=(call,)))

    def _content(self, event: OurEvent) -> Content | None:
        """Returns the event's content in ADK parts; None without any. Tool results get the role `user`, as in the ADK."""
        if event.content is None:
            return None
        parts = parts_of(event.content, self._key, partial=event.partial, sequence=event.sequence)
        if not parts:
            return None
        is_result = all(part.function_response is not None for part in parts)
        return Content(parts=parts, role="user" if is_result or event.author == USER else "model")

    def _actions(self, event: OurEvent) -> Actions:
        """Returns the event's actions in the ADK's form; approval requests become requested confirmations."""
        actions = event.actions
        confirmations = [call for call in self._open_calls(event) if is_approval(call)]
        hint = event.text
        return Actions(
            state_delta=actions.state_delta,
            artifact_delta={name: to_adk_version(version) for name, version in actions.artifact_versions.items()},
            transfer_to_agent=actions.transfer_to,
            escalate=True if actions.escalate else None,
            requested_tool_confirmations={str(call.arguments.get("call")): Confirmation(hint=hint) for call in confirmations},
        )

    def _open_calls(self, event: OurEvent) -> Iterator[ToolCallPart]:
        """Yields the event's calls that this reader may answer."""
        awaits, content = event.actions.awaits, event.content or Ours()
        for call in () if event.partial else content.tool_calls:
            if (call.offered or (awaits and awaits.id == call.call_id)) and self._view.answers(call):
                yield call

    def _error(self, event: OurEvent) -> tuple[str, str] | None:
        """Returns the failure's code and message, once for each invocation."""
        end = event.actions.end
        if event.error is not None:
            self._failed.add(event.invocation_id)
            return event.error.code, event.error.message
        if end is None or end.reason in COMPLETE_ENDS or event.invocation_id in self._failed:
            return None
        return end.reason, failure_text(end.reason, None, self._view)

    def _record_selection(self, event: OurEvent) -> bool:
        """Records the event's selection. Returns True for an agent's event; the selection for a user's message is attached to a
        later event.
        """
        selection = event.actions.selection
        if selection is None:
            return False
        if event.author == USER:
            self._pending.clear()
        self._pending.append(selection)
        return event.author != USER

    def _selection_metadata(self, event: OurEvent) -> dict[str, JsonValue] | None:
        """Attaches one pending selection to each complete agent event."""
        if not self._pending or event.author == USER or event.partial:
            return None
        selection = self._pending.popleft()
        return {METADATA_KEY: {"agent": selection.agent, "method": selection.method, "reason": selection.reason}}


def write_events(events: Iterable[OurEvent], key: SessionKey, view: Redactor) -> list[Event]:
    """Converts all of a session's events, which are in order."""
    writer = EventWriter(key, view)
    return [shown for shown in map(writer.write, events) if shown is not None]


def _shared_effects(event: OurEvent) -> OurEvent:
    """Strips the event to its state and artifact changes, which everyone may see."""
    actions = OurActions(state_delta=event.actions.state_delta, artifact_versions=event.actions.artifact_versions)
    return event.replace(content=None, error=None, actions=actions)


def _usage(usage: Usage | None) -> UsageMetadata | None:
    """Converts the token counts of a model call; None stays None."""
    if usage is None:
        return None
    return UsageMetadata(
        prompt_token_count=usage.input_tokens,
        cached_content_token_count=usage.cached_tokens or None,
        candidates_token_count=usage.output_tokens,
        total_token_count=usage.input_tokens + usage.output_tokens,
    )


def _branch(branch: Branch) -> str | None:
    """Returns the names in a branch, joined by dots; None for the main branch."""
    names = [part[1:] for part in branch.segments if part[:1] in ("~", ">")]
    return ".".join(names) or None
